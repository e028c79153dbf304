"""The REST part as an OpenAPI 3.1 document, made from the table and types that serve it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import msgspec

from jupyter_slurm.agent.protocol import Call, calls, version
from jupyter_slurm.api import Api
from jupyter_slurm.server import files, kernels, new_cluster, private_cluster
from jupyter_slurm.server.calls import OWN, RULES, Rule
from jupyter_slurm.wire import Job, JobSpec, Preview, Problem, RemoteKernel


@dataclass(frozen=True)
class _Served:
    name: str
    takes: Any
    gives: Any
    rule: Rule
    text: str

    @classmethod
    def of(cls, call: Call) -> _Served:
        text = inspect.getdoc(getattr(Api, call.name)) or ""
        return cls(call.name, call.arguments, call.returns, RULES[call.name], text)


_OWN = tuple(
    _Served(name, takes, gives, OWN[name], inspect.getdoc(does) or "")
    for name, takes, gives, does in (
        ("spec", files.LineWish, JobSpec, files.line_spec),
        ("outlook", files.LineWish, Preview, files.outlook),
        ("notebook", files.FileWish, Job, files.file_job),
        ("executed", files.JobWish, files.Written, files.executed),
        ("kernels", kernels.Nothing, kernels.Kernels, kernels.listed),
        ("kernel_meant", kernels.KernelWish, RemoteKernel, kernels.meant),
        ("kernel_add", kernels.KernelWish, RemoteKernel, kernels.added),
        ("kernel_remove", kernels.KernelName, kernels.Kernels, kernels.removed),
        ("cluster_ways", kernels.Nothing, new_cluster.Ways, new_cluster.NewClusters.ways),
        ("cluster_begin", new_cluster.Way, new_cluster.Name, new_cluster.NewClusters.begin),
        ("cluster_found", new_cluster.Name, new_cluster.Found, new_cluster.NewClusters.found),
        ("cluster_keep", new_cluster.Choice, new_cluster.Name, new_cluster.NewClusters.keep),
        ("cluster_drop", new_cluster.Name, new_cluster.Name, new_cluster.NewClusters.drop),
        ("up", kernels.Nothing, private_cluster.Start, private_cluster.PrivateCluster.up),
    )
)
"""The server's own routes, without `logfile` and the WebSocket, which OpenAPI cannot describe
well."""

_REF = "#/components/schemas/{name}"


def document(base_url: str) -> bytes:
    """Return the document as JSON."""
    served = [_Served.of(calls()[name]) for name in sorted(RULES)] + list(_OWN)
    types = [Problem, *(one for call in served for one in (call.takes, call.gives))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    problem, *pairs = schemas
    paths = {
        f"/{call.name}": _path(call, takes, gives, problem)
        for call, takes, gives in zip(served, pairs[::2], pairs[1::2], strict=True)
    }
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "jupyter-slurm", "version": version()},
            "servers": [{"url": f"{base_url}jupyter-slurm/api"}],
            "paths": paths,
            "components": {"schemas": components},
        }
    )


def _path(call: _Served, takes: Any, gives: Any, problem: Any) -> dict[str, Any]:
    common = {
        "description": call.text,
        "x-authorized-actions": [f"{one.resource}:{one.action}" for one in call.rule.rights],
        "responses": {
            "200": _content("What it gives back.", gives),
            "default": _content("What went wrong.", problem),
        },
    }
    post = {
        "operationId": call.name,
        **common,
        "requestBody": {"content": {"application/json": {"schema": takes}}},
    }
    if not call.rule.get:
        return {"post": post}
    get = {"operationId": f"get_{call.name}", **common, "parameters": _parameters(call)}
    return {"get": get, "post": post}


def _parameters(call: _Served) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(call.takes)
    fields = schema["$defs"][call.name] if "$defs" in schema else schema
    return [
        {"name": name, "in": "query", "required": name in fields["required"], "schema": one}
        for name, one in fields["properties"].items()
    ]


def _content(text: str, schema: Any) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
