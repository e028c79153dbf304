"""Users who have some of this extension's permissions and try to get all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from jupyter_slurm.server.calls import OWN, RESOURCE, RULES, Right, Rule
from jupyter_slurm.server.extension import ROUTES
from tests.server.served import (
    API,
    Served,
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
"""The header that carries a client's permissions, so that one server serves all tests."""
LAB = "jupyter-slurm/lab/a2b4c6d7"
DASHBOARD = "jupyter-slurm/dashboard/a2b4c6d7/ray"

POWERS = (
    "submit submit_call retry make_image command push pull fetch list_folder file_entry read_file "
    "write_file make_folder rename_file remove_file forward preview attachable outlook "
    "notebook kernel_add up lab_entry dashboard_entry lab-proxy dashboard-proxy terminal agent "
    "cluster_ways cluster_begin cluster_found cluster_keep cluster_drop "
    "notebook_moved notebook_path"
).split()
"""Calls that run programs as the user, read or list the user's files, or change or show the paths
of notebooks."""
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
    **{name: ("GET", API + name, None) for name in "watch logfile".split()},
    "lab": ("GET", LAB, None),
    "lab_entry": ("POST", LAB, {}),
    "dashboard": ("GET", DASHBOARD, None),
    "dashboard_entry": ("POST", DASHBOARD, {}),
    "lab-proxy": ("GET", "jupyter-slurm/lab-proxy/a2b4c6d7/lab", None),
    "dashboard-proxy": ("GET", "jupyter-slurm/dashboard-proxy/a2b4c6d7/ray/", None),
    "agent": ("POST", "jupyter-slurm/agent/v1/status", {}),
}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Yield a server with an agent in memory."""
    with short_home() as home:
        env = environment(home)
        with memory_agent(env), running_server(env, home, BY_HEADER) as started:
            (started.folder / "a.py").write_text("1")
            yield started


def grants() -> list[frozenset[Right]]:
    """Return sets of permissions: none, each permission on our resource, all but one permission,
    and all."""
    alone = [frozenset({one}) for one in _OURS]
    return [frozenset(), *alone, *(_EVERYTHING - {one} for one in _EVERYTHING), _EVERYTHING]


def ways() -> list[tuple[Rule, str, str, object]]:
    """Return every request for every call, with its required permissions."""
    called = [(rule, "POST", API + name, {"nothing": 1}) for name, rule in RULES.items()]
    got = [(rule, "GET", API + name, None) for name, rule in RULES.items() if rule.get]
    return [*called, *got, *((OWN[name], *way) for name, way in OWN_WAYS.items())]


def test_table_has_every_route_and_call() -> None:
    assert OWN_WAYS.keys() == OWN.keys()
    tried_routes = {
        next(pattern for pattern, _ in ROUTES if re.fullmatch(pattern, f"/{path}"))
        for _, _, path, _ in ways()
    }
    assert tried_routes == {pattern for pattern, _ in ROUTES[:-1]}


@pytest.mark.parametrize("grant", grants(), ids=lambda grant: f"{len(grant)} rights")
def test_each_call_requires_all_its_rights(served: Served, grant: frozenset[Right]) -> None:
    client = served.client()
    told = {GRANT: " ".join(f"{one.resource}:{one.action}" for one in grant)}
    for rule, verb, path, args in ways():
        answer = client.get(path, **told) if verb == "GET" else client.post(path, args, **told)
        denied = answer.status == 403 and b"does not let you " in answer.body
        assert denied != grant.issuperset(rule.rights), (verb, path, answer)


def test_calls_that_run_programs_need_the_execute_permission() -> None:
    table = {**RULES, **OWN}
    powers = {name for name, one in table.items() if Right("execute") in one.rights}
    assert powers == {*POWERS, "outlook of a file"}
    assert Right("execute") == Right("execute", RESOURCE)
