"""Who was granted a part of this extension's rights, and tries to have all of the user's."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.server.calls import OWN, RESOURCE, RULES, Right, Rule
from jupyter_slurm.server.extension import ROUTES
from tests.cluster.plugin import ROOT
from tests.server.served import (
    API,
    Client,
    Served,
    agent_of,
    environment,
    memory_agent,
    running_server,
    short_home,
)

GRANT = "X-Grant"
BY_HEADER = """\
from jupyter_server.auth import Authorizer

class ByHeader(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        granted = handler.request.headers.get("X-Grant", "").split()
        return f"{resource}:{action}" in granted

c.ServerApp.authorizer_class = ByHeader
"""
"""Who asks says himself what he was granted: one server for all grants."""
LAB = "jupyter-slurm/lab/a2b4c6d7"
DASHBOARD = "jupyter-slurm/dashboard/a2b4c6d7/ray"
PARTLY = "jupyter_slurm:read jupyter_slurm:write"
FILES = "contents:read contents:write"
KEY = "the user's key"

POWERS = (
    "submit make_image command push pull fetch list_folder file_entry read_file write_file "
    "make_folder rename_file remove_file forward preview attachable outlook "
    "notebook kernel_add up lab_entry dashboard_entry lab-proxy dashboard-proxy terminal agent "
    "cluster_ways cluster_begin cluster_found cluster_keep cluster_drop "
    "notebook_moved notebook_path"
).split()
"""Each runs a program as the user, reads, writes or finds any of the user's files, or changes or
shows where notebooks are."""
DOCUMENT = ROOT / "docs" / "server.md"
_EVERYTHING = frozenset(right for rule in (*RULES.values(), *OWN.values()) for right in rule.rights)
_OURS = frozenset(Right(action) for action in ("read", "write", "execute"))
OWN_WAYS = {
    "spec": ("POST", f"{API}spec", {}),
    "outlook": ("POST", f"{API}outlook", {}),
    "spec of a file": ("POST", f"{API}spec", {"line": "", "path": "a.py"}),
    "outlook of a file": ("POST", f"{API}outlook", {"line": "", "path": "a.py"}),
    **{
        name: ("POST", f"{API}{name}", {"nothing": 1})
        for name in (
            "notebook executed kernels kernel_meant kernel_add kernel_remove terminal up "
            "cluster_ways cluster_begin cluster_found cluster_keep cluster_drop".split()
        )
    },
    **{name: ("GET", API + name, None) for name in "watch logfile openapi.json".split()},
    "lab": ("GET", LAB, None),
    "lab_entry": ("POST", LAB, {}),
    "dashboard": ("GET", DASHBOARD, None),
    "dashboard_entry": ("POST", DASHBOARD, {}),
    "lab-proxy": ("GET", "jupyter-slurm/lab-proxy/a2b4c6d7/lab", None),
    "dashboard-proxy": ("GET", "jupyter-slurm/dashboard-proxy/a2b4c6d7/ray/", None),
    "agent": ("POST", "jupyter-slurm/agent/v1/status", {}),
}


@pytest.fixture(scope="module")
def real() -> Iterator[Served]:
    """A server with the real agent, whose one cluster is this machine."""
    with short_home() as home:
        env = environment(home)
        profiles = Path(env["JUPYTER_CONFIG_DIR"], "jupyter-slurm", "clusters.toml")
        profiles.parent.mkdir(parents=True)
        profiles.write_text('[here]\nruntime = "none"\n')
        with agent_of(env), running_server(env, home, BY_HEADER) as started:
            yield started


@pytest.fixture
def secret(real: Served) -> Path:
    """A file of the user's, outside of the folder that the server shows."""
    file = real.folder.parent / "id_ed25519"
    file.write_text(KEY)
    file.chmod(0o600)
    return file


def tried(client: Client, grant: str, name: str, **args: object) -> int:
    return client.post(API + name, args, **{GRANT: grant}).status


@pytest.mark.parametrize("grant", [PARTLY, f"{PARTLY} {FILES}"])
def test_no_file_of_the_user_is_read_by_a_part(real: Served, secret: Path, grant: str) -> None:
    client, inside = real.client(), real.folder / "inside"
    inside.write_text("1")
    (real.folder / "out").mkdir(exist_ok=True)
    tries = [
        ("read_file", {"path": str(secret)}),
        ("list_folder", {"path": str(secret.parent)}),
        ("push", {"local": str(secret), "remote": str(real.folder / "copy")}),
        ("push", {"local": str(inside), "remote": str(secret)}),
        ("pull", {"remote": str(secret), "local": str(real.folder / "copy")}),
        ("pull", {"remote": str(inside), "local": str(secret)}),
        ("pull", {"remote": str(inside), "local": f"{real.folder}/out/../../id_ed25519"}),
        ("write_file", {"path": str(secret), "content": base64.b64encode(b"mine").decode()}),
        ("rename_file", {"path": str(secret), "to": str(real.folder / "copy")}),
        ("remove_file", {"path": str(secret)}),
    ]
    assert {tried(client, grant, name, **args) for name, args in tries} == {403}
    assert secret.read_text() == KEY
    assert not (real.folder / "copy").exists()


def test_nothing_runs_by_a_part(real: Served, secret: Path) -> None:
    spec = {
        "id": "a2b4c6d7",
        "name": "x",
        "code": f"#!/bin/sh\ncat {secret} > {real.folder}/copy",
        "kind": "program",
        "inputs": str(secret),
        "push": str(secret.parent),
        "fetch": ["*"],
        "fetch_to": str(secret.parent),
    }
    client, grant = real.client(), f"{PARTLY} {FILES} kernelspecs:write terminals:write"
    (real.folder / "a.py").write_text("1")
    assert tried(client, grant, "submit", spec=spec) == 403
    assert tried(client, grant, "notebook", path="a.py") == 403
    assert tried(client, grant, "command", argv=["sinfo"]) == 403
    assert tried(client, grant, "forward", host="127.0.0.1", port=22) == 403
    assert tried(client, grant, "kernel_add", line="--name python3 --image theirs") == 403
    assert client.post(LAB, {}, **{GRANT: grant}).status == 403
    relayed = client.post("jupyter-slurm/agent/v1/submit", {"spec": spec}, **{GRANT: grant})
    assert relayed.status == 403


@pytest.mark.parametrize("name", ["spec", "outlook"])
def test_a_line_does_not_tell_which_folders_there_are(real: Served, name: str) -> None:
    client = real.client()
    for folder in (real.folder.parent, "/there/is/none", "~root"):
        line = f"--push {folder}"
        assert tried(client, f"{PARTLY} {FILES}", name, line=line, code="1") == 403
    line = f"--push {real.folder.parent}"
    everything = f"{PARTLY} jupyter_slurm:execute"
    assert tried(client, everything, "spec", line=line, code="1") == 200


@pytest.mark.parametrize(
    "names",
    [
        {"options": {"chdir": "{folder}"}},
        {"image": "{folder}", "runtime": "apptainer"},
        {"inputs": "{folder}", "options": {"mem": "1M"}},
        {"push": "{folder}", "fingerprint": "x"},
    ],
    ids=["folder", "image", "variables", "push"],
)
def test_no_job_that_is_looked_at_beforehand_tells_which_files_there_are(
    real: Served, secret: Path, names: dict[str, object]
) -> None:
    client, grant = real.client(), f"{PARTLY} {FILES}"
    for there in (secret.parent, secret, "/there/is/none"):
        named = json.loads(json.dumps(names).replace("{folder}", str(there)))
        spec = {"id": "a2b4c6d7", "name": "x", "code": "1", **named}
        assert tried(client, grant, "preview", spec=spec) == 403
        assert tried(client, grant, "attachable", spec=spec) == 403
    for word in ("--chdir", "--image"):
        line = f"{word} {secret.parent}"
        assert tried(client, grant, "outlook", line=line, code="1") == 403


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server with an agent in memory."""
    with short_home() as home:
        env = environment(home)
        with memory_agent(env), running_server(env, home, BY_HEADER) as started:
            (started.folder / "a.py").write_text("1")
            yield started


def grants() -> list[frozenset[Right]]:
    """Each part of what is asked of our own resource, with all that is asked of Jupyter's own, and
    with nothing; and all but one right."""
    some = [frozenset[Right]()]
    for right in _OURS:
        some += [one | {right} for one in some]
    others = _EVERYTHING - _OURS
    return [*some, *(one | others for one in some), *(_EVERYTHING - {one} for one in others)]


def ways() -> list[tuple[Rule, str, str, object]]:
    """Each way to each call: what is asked of the authorizer, and the request."""
    called = [(rule, "POST", API + name, {"nothing": 1}) for name, rule in RULES.items()]
    got = [(rule, "GET", API + name, None) for name, rule in RULES.items() if rule.get]
    return [*called, *got, *((OWN[name], *way) for name, way in OWN_WAYS.items())]


def test_each_way_is_in_the_table_and_each_route_is_tried() -> None:
    assert OWN_WAYS.keys() == OWN.keys()
    tried_routes = {
        next(pattern for pattern, _ in ROUTES if re.fullmatch(pattern, f"/{path}"))
        for _, _, path, _ in ways()
    }
    assert tried_routes == {pattern for pattern, _ in ROUTES[:-1]}


@pytest.mark.parametrize("grant", grants(), ids=lambda grant: f"{len(grant)} rights")
def test_each_call_is_had_with_all_its_rights_and_not_with_a_part(
    served: Served, grant: frozenset[Right]
) -> None:
    client = served.client()
    told = {GRANT: " ".join(f"{one.resource}:{one.action}" for one in grant)}
    for rule, verb, path, args in ways():
        answer = client.get(path, **told) if verb == "GET" else client.post(path, args, **told)
        denied = answer.status == 403 and b'"You may not ' in answer.body
        assert denied != grant.issuperset(rule.rights), (verb, path, answer)


def test_what_gives_the_users_powers_needs_execute() -> None:
    table = {**RULES, **OWN}
    powers = {name for name, one in table.items() if Right("execute") in one.rights}
    assert powers == {*POWERS, "outlook of a file"}
    assert Right("execute") == Right("execute", RESOURCE)


def test_the_page_of_the_documentation_has_the_same_table() -> None:
    by_rights: dict[tuple[Right, ...], list[str]] = {}
    for name, rule in {**RULES, **OWN}.items():
        by_rights.setdefault(rule.rights, []).append(name)
    rows = [
        f"| {_rights_text(rights)} | {', '.join(f'`{name}`' for name in sorted(names))} |"
        for rights, names in sorted(by_rights.items(), key=lambda one: _order(one[0]))
    ]
    table = "\n".join(["| asked of the authorizer | calls |", "|---|---|", *rows])
    assert table in DOCUMENT.read_text(encoding="utf-8"), table


def _rights_text(rights: tuple[Right, ...]) -> str:
    others = [f"`{one.action}` on `{one.resource}`" for one in rights[1:]]
    return ", and ".join([f"`{rights[0].action}`", *others])


def _order(rights: tuple[Right, ...]) -> tuple[int, str]:
    return ["read", "write", "execute"].index(rights[0].action), str(rights[1:])
