"""The extension in a server: what it starts, what its kernels are told, and its end."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.agent.place import SOCKET_VARIABLE
from tests.server.served import (
    API,
    PATIENCE_S,
    Served,
    environment,
    memory_agent,
    running_server,
    short_home,
)

pytestmark = pytest.mark.real


def kernel_environment(served: Served) -> dict[str, str]:
    """Of a kernel that the server starts."""
    client = served.client()
    started = client.ask("POST", "api/kernels", b"{}")
    assert started.status == 201, started
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for child in psutil.Process(served.pid).children():
            with suppress(psutil.NoSuchProcess):  # a program that it asks, not a kernel
                if "JPY_PARENT_PID" in (env := child.environ()):
                    return env
    raise AssertionError("there is no kernel")


def test_kernels_are_told_where_the_agent_is(served: Served) -> None:
    told = kernel_environment(served)[SOCKET_VARIABLE]
    assert told == served.client().call("status")["socket"]


def test_what_a_server_was_told_itself_holds_where_it_is_here(tmp_path: Path) -> None:
    with short_home() as home:
        env = environment(home)
        (tmp_path / "here").mkdir()
        there = str(tmp_path / "here" / "agent.sock")
        with running_server(env | {SOCKET_VARIABLE: there}, home) as served:
            assert kernel_environment(served)[SOCKET_VARIABLE] == there


def test_a_server_that_was_told_of_another_machine_has_the_agent_of_its_own() -> None:
    """It runs in a job or a container that was started from a kernel."""
    with short_home() as home:
        env = environment(home)
        elsewhere = {SOCKET_VARIABLE: "/nowhere/agent.sock", "JUPYTERHUB_SERVICE_URL": "http://x/"}
        with memory_agent(env) as agent, running_server(env | elsewhere, home) as served:
            assert served.client().call("status")["pid"] == agent.pid()


def test_a_server_ends_at_once_while_pages_watch() -> None:
    with short_home() as home:
        env = environment(home)
        with memory_agent(env) as agent:
            with ExitStack() as stack, running_server(env, home) as served:
                page = stack.enter_context(served.client().watch())
                page.say(watch=1, call="changes")
                page.value(1)
                began_s = time.monotonic()
            assert time.monotonic() - began_s < PATIENCE_S / 2
            assert agent.agent_pid() is not None, "the agent goes on"


def test_the_document_names_every_call(served: Served) -> None:
    document = served.client().get(f"{API}openapi.json").value
    assert document["openapi"] == "3.1.0"
    assert {"get", "post"} == document["paths"]["/jobs"].keys()
    assert {"post"} == document["paths"]["/submit"].keys()
    assert {"/spec", "/notebook", "/executed"} <= document["paths"].keys()
    assert "CellSpec" in document["components"]["schemas"]
    (by_id,) = document["paths"]["/job"]["get"]["parameters"]
    assert (by_id["name"], by_id["required"]) == ("job_id", True)
