"""The table of calls and routes with the rights and HTTP methods of each.

The server serves only calls in this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import msgspec

from jupyter_slurm.agent.protocol import LONGEST_WAIT_S, NOT_JSON, Call, calls
from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.kinds import KINDS
from jupyter_slurm.wire import JobKind

Action = Literal["read", "write", "execute"]
"""Jupyter's actions for authorizers."""

RESOURCE = "jupyter_slurm"
"""The resource name for authorizers."""


@dataclass(frozen=True, slots=True)
class Right:
    """An action on a resource, for the authorizer to allow or deny."""

    action: Action
    resource: str = RESOURCE


@dataclass(frozen=True, slots=True)
class Rule:
    rights: tuple[Right, ...]
    """The required rights."""
    get: bool = False
    """GET is allowed, because the call only reads and has scalar arguments."""


_READ, _WRITE, EXECUTE = Right("read"), Right("write"), Right("execute")
RULES: Mapping[str, Rule] = MappingProxyType(
    dict.fromkeys(
        "clusters cluster_info connections tunnels jobs job details history images queue status "
        "environments priorities spending describe doctor result sweep transfer".split(),
        Rule((_READ,), get=True),
    )
    | dict.fromkeys(
        "changes node_changes logs usage why".split(),
        Rule((_READ,)),
    )
    | dict.fromkeys(
        "connect answer disconnect close_tunnel stop_transfer delivered cancel hold "
        "release requeue control_jobs extend forget remove_image "
        "remove_environments".split(),
        Rule((_WRITE,)),
    )
    | dict.fromkeys(
        "list_folder file_entry read_file write_file make_folder rename_file remove_file "
        "push pull fetch forward submit submit_call preview attachable notebook_moved "
        "notebook_path make_image command retry".split(),
        Rule((EXECUTE,)),
    )
)
"""The agent's calls. Calls that can use any program, file or network on a cluster need `execute`,
because a cluster may be this machine or share its homes. A local path inside the server's root
makes no difference, because the other end of the call is on the cluster. `preview` and `attachable`
also need `execute`. The job in their request names folders, images and files, and the answer
reveals whether these exist and how large they are."""

OWN: Mapping[str, Rule] = MappingProxyType(
    dict.fromkeys("kernels kernel_meant spec".split(), Rule((_READ,)))
    | {
        "logfile": Rule((_READ,), get=True),
        "watch": Rule((_READ,), get=True),
        "lab": Rule((_READ,), get=True),
        "spec of a file": Rule((_READ, Right("read", "contents"))),
        "outlook": Rule((EXECUTE,)),
        "outlook of a file": Rule((EXECUTE, Right("read", "contents"))),
        "executed": Rule((_WRITE, Right("write", "contents"))),
        "kernel_remove": Rule((_WRITE, Right("write", "kernelspecs"))),
        "notebook": Rule((EXECUTE, Right("read", "contents"))),
        "kernel_add": Rule((EXECUTE, Right("write", "kernelspecs"))),
        "up": Rule((EXECUTE,)),
        **dict.fromkeys(
            "cluster_ways cluster_begin cluster_found cluster_keep cluster_drop".split(),
            Rule((EXECUTE,)),
        ),
        "lab_entry": Rule((EXECUTE,)),
        "dashboard": Rule((_READ,), get=True),
        "dashboard_entry": Rule((EXECUTE,)),
        "lab-proxy": Rule((EXECUTE,), get=True),
        "dashboard-proxy": Rule((EXECUTE,), get=True),
        "terminal": Rule((EXECUTE, Right("write", "terminals"))),
        "agent": Rule((EXECUTE,)),
    }
)
"""The server's own routes. `lab` is the page that waits for a lab, `lab_entry` is the browser's
login (a POST to the same address), and `lab-proxy` is a lab below the server's address. The routes
`dashboard…` do the same for dashboards."""

WATCHED = frozenset("changes node_changes logs usage".split())
"""Calls with cursors, for the WebSocket."""


def packed_query(name: str, arguments: Mapping[str, str]) -> bytes:
    """Return the body of a call with the arguments of a URL. Raises RequestError."""
    call = calls()[name]
    try:
        given = msgspec.convert(arguments, type=call.arguments, strict=False)
    except msgspec.ValidationError as exc:
        raise RequestError(f"{name}: {exc}.") from exc
    return msgspec.json.encode(given)


def with_caller(name: str, body: bytes, caller: str) -> bytes:
    """Add `caller` to the body if the call has this argument and the body does not contain it."""
    if not asks_for_caller(calls()[name]):
        return body
    try:
        given = msgspec.json.decode(body or b"{}", type=dict[str, msgspec.Raw])
    except NOT_JSON:
        return body  # the agent reports the error
    return msgspec.json.encode({"caller": caller, **given})


def with_jupyter(body: bytes, base_url: str) -> bytes:
    """Return the body of `submit`. If the job is a lab, add `base_url`, the URL below which the
    server shows the lab."""
    try:
        given = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        spec = msgspec.json.decode(given["spec"], type=dict[str, msgspec.Raw])
        kind = msgspec.json.decode(spec["kind"], type=JobKind)
    except (*NOT_JSON, KeyError):
        return body  # a cell, or an invalid body, which the agent reports
    if not KINDS[kind].is_web_server:
        return body
    spec["jupyter_base_url"] = msgspec.Raw(msgspec.json.encode(base_url))
    return msgspec.json.encode({**given, "spec": spec})


def asks_for_caller(call: Call) -> bool:
    return "caller" in call.arguments.__struct_fields__


class _Waits(msgspec.Struct):
    wait_s: float = 0.0


def wait_s(body: bytes) -> float:
    """Return the `wait_s` of a body."""
    try:
        asked_s = msgspec.json.decode(body or b"{}", type=_Waits).wait_s
    except NOT_JSON:
        return 0.0
    return min(max(0.0, asked_s), LONGEST_WAIT_S)
