"""Settings with which administrators switch parts of the server extension off."""

from __future__ import annotations

import pytest

from tests.server.served import API, environment, memory_agent, running_server, short_home

pytestmark = pytest.mark.real

WITHOUT_THE_EXTENSION = 'c.ServerApp.jpserver_extensions["jupyter_slurm"] = False\n'
WITHOUT_TERMINALS = "c.ServerApp.terminals_enabled = False\n"


def test_disabled_extension_does_not_add_routes_or_start_an_agent() -> None:
    with short_home() as home:
        env = environment(home)
        with running_server(env, home, WITHOUT_THE_EXTENSION) as served:
            assert served.client().get("api/status").status == 200
            assert served.client().get(f"{API}status").status == 404
            assert served.client().post(f"{API}submit", {}).status == 404
        assert not [*home.rglob("agent.*")]


def test_server_without_terminals_does_not_open_terminals_in_jobs() -> None:
    with short_home() as home:
        env = environment(home)
        with memory_agent(env), running_server(env, home, WITHOUT_TERMINALS) as served:
            answer = served.client().post(f"{API}terminal", {"job_id": "a2b4c6d7"})
            assert answer.problem.code == "config"
            assert served.client().call("status")["pid"]
