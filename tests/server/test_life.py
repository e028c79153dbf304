"""The extension in a server: the start of the agent, the environment of kernels, and the end."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

import psutil
import pytest

from jupyter_slurm.agent.place import SOCKET_VARIABLE
from tests.server.served import (
    PATIENCE_S,
    Served,
    environment,
    memory_agent,
    running_server,
    short_home,
)

pytestmark = pytest.mark.real


def kernel_environment(served: Served) -> dict[str, str]:
    """Return the environment of a kernel of the server."""
    client = served.client()
    started = client.ask("POST", "api/kernels", b"{}")
    assert started.status == 201, started
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for child in psutil.Process(served.pid).children():
            with suppress(psutil.NoSuchProcess):  # this is a helper program, not a kernel
                if "JPY_PARENT_PID" in (env := child.environ()):
                    return env
    raise AssertionError("no kernel found")


def test_kernels_inherit_the_agents_socket(served: Served) -> None:
    told = kernel_environment(served)[SOCKET_VARIABLE]
    assert told == served.client().call("status")["socket"]


def test_server_in_a_job_has_its_own_agent_and_ends_while_pages_watch() -> None:
    with short_home() as home:
        env = environment(home)
        elsewhere = {SOCKET_VARIABLE: "/nowhere/agent.sock", "JUPYTERHUB_SERVICE_URL": "http://x/"}
        with memory_agent(env) as agent:
            with ExitStack() as stack, running_server(env | elsewhere, home) as served:
                assert served.client().call("status")["pid"] == agent.pid()
                page = stack.enter_context(served.client().watch())
                page.say(watch=1, call="changes")
                page.value(1)
                began_s = time.monotonic()
            assert time.monotonic() - began_s < PATIENCE_S / 2
            assert agent.agent_pid() is not None, "the agent still runs"
