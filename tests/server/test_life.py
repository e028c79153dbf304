"""The extension in a server: start of the agent, environment of kernels, and end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.agent.place import SOCKET_VARIABLE
from tests.cluster.plugin import jupyter_homes
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
    """Return the environment of a kernel of the server."""
    client = served.client()
    started = client.ask("POST", "api/kernels", b"{}")
    assert started.status == 201, started
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for child in psutil.Process(served.pid).children():
            with suppress(psutil.NoSuchProcess):  # a helper program, not a kernel
                if "JPY_PARENT_PID" in (env := child.environ()):
                    return env
    raise AssertionError("there is no kernel")


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
            assert agent.agent_pid() is not None, "the agent goes on"


def test_extension_of_the_server_can_be_switched_off() -> None:
    off = "c.ServerApp.jpserver_extensions.update(jupyter_slurm=False)\n"
    with short_home() as home, running_server(environment(home), home, off) as served:
        assert served.client().get(f"{API}clusters").status == 404


def test_extension_of_jupyterlab_can_be_switched_off(tmp_path: Path) -> None:
    env = os.environ | jupyter_homes(tmp_path)
    lab = [sys.executable, "-m", "jupyterlab.labextensions"]
    for words in (["disable", "jupyter-slurm", "--level=user"], ["list", "--verbose"]):
        done = subprocess.run(
            [*lab, *words], env=env, capture_output=True, text=True, timeout=60, check=True
        )
    (line,) = (one for one in done.stderr.splitlines() if " jupyter-slurm v" in one)
    assert "disabled" in line
