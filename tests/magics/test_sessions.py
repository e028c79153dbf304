"""`%slurm session` and `%%slurm --session`: real kernels, the real agent, a real Slurm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import Job, JobKind
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.magics.kernel import LOAD, Kernel, Reply, running_kernel
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0


class Desk:
    """Kernels of notebooks that share an agent."""

    def __init__(self, home: AgentHome) -> None:
        self.home = home
        self.api = AgentClient(home.socket, COMMAND)

    @contextmanager
    def kernel(self, notebook: str = "fit.ipynb") -> Iterator[Kernel]:
        env = {**os.environ, "JPY_SESSION_NAME": f"/notebooks/{notebook}"}
        with running_kernel(env, self.home.folder) as kernel:
            ok(kernel.run(LOAD))
            yield kernel

    def sessions(self) -> list[Job]:
        return [job for job in self.api.jobs() if job.kind is JobKind.SESSION]

    def session(self) -> Job:
        [found] = self.sessions()
        return found


@pytest.fixture
def desk(
    agent_home: AgentHome, slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", slurm_cluster.env["JUPYTER_CONFIG_DIR"])
    desk = Desk(agent_home)
    yield desk
    for job in desk.sessions():
        desk.api.cancel(job.id)
    wait_until(lambda: all(job.state.final for job in desk.sessions()), PATIENCE_S)
    desk.api.close()


def ok(reply: Reply) -> Reply:
    assert reply.content["status"] == "ok", (reply.content, reply.text)
    return reply


def value(reply: Reply) -> str:
    """Return the value of the last expression."""
    texts: list[str] = [
        one["content"]["data"].get("text/plain", "") for one in ok(reply).displays()
    ]
    return next(text for text in texts if " on " not in text)


def says_begun(request: str, message: dict[str, Any]) -> bool:
    own: bool = message["parent_header"].get("msg_id") == request
    return own and "begun" in message["content"].get("text", "")


START = "%slurm session start --runtime none --name fit --time 60m"


def test_cells_run_in_the_notebooks_session_until_its_end(
    desk: Desk,
) -> None:
    with desk.kernel() as kernel:
        none = kernel.run("%%slurm --session\n1")
        assert "This notebook has no session" in none.content["evalue"]
        other = kernel.run("%%slurm --session other\n1")
        assert "has no session `other`" in other.content["evalue"]
        started = ok(kernel.run(START))
        assert "running" in started.displays()[-1]["content"]["data"]["text/plain"]
        assert "session" in started.displays()[-1]["content"]["data"]["text/plain"]
        kernel.run("data = [1, 2, 3]")
        ok(kernel.run("%%slurm --session --in data\nprint('there')\nkept = sum(data)"))
        assert value(kernel.run("%%slurm --session fit --out kept\nkept += 1\nkept")) == "7"
        assert kernel.run("print(kept)").text == "7\n"
        listed = ok(kernel.run("listed = %slurm session\nprint(listed)")).text
        assert "fit (in use)" in listed
        assert desk.session().slurm_id is not None
        failed = kernel.run("%%slurm --session\nkept / 0")
        assert "ZeroDivisionError" in failed.content["evalue"]
        assert "in session" in failed.content["evalue"]
        assert "cancellation requested" in ok(kernel.run("%slurm session stop")).text
        wait_until(lambda: desk.session().state.final, PATIENCE_S)
        told = kernel.run("%%slurm --session\n1").content["evalue"]
        assert "has ended (done), and its variables are lost. Shut down." in told
        assert "%slurm session start" in told
        assert "has ended already" in ok(kernel.run("%slurm session stop")).text


def test_new_kernel_finds_the_session_and_its_running_cell(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cell = (
        "%%slurm --session --in n --out x\nimport os, time\nprint('begun', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\nx = kept + n"
    )
    with desk.kernel() as first:
        ok(first.run(START))
        ok(first.run("n = 1"))
        ok(first.run("%%slurm --session\nkept = 41"))
        first.start(cell)
        first.until(lambda message: "begun" in message["content"].get("text", ""))
        first.manager.shutdown_kernel(now=True)
    with desk.kernel() as second:
        ok(second.run("n = 2"))
        other = second.start(cell)
        second.until(lambda m: "other values of --in" in m["content"].get("text", ""))
        gate.touch()
        ok(second.reply(other))
        assert second.run("print(x)").text == "43\n"
        ok(second.run("n = 1"))
        assert "attached to it" in ok(second.run(cell)).text
        assert second.run("print(x)").text == "42\n"
        assert value(second.run("%%slurm --session\nkept")) == "41"


def test_session_cell_survives_its_agent_and_can_be_cancelled(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cell = "%%slurm --session{}\nimport time\nprint('begun', flush=True)\ntime.sleep(600)"
    with desk.kernel() as kernel:
        ok(kernel.run(START))
        request = kernel.start(
            "%%slurm --session --out x\nimport os, time\nprint('begun', flush=True)\n"
            f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\nx = 42"
        )
        kernel.until(partial(says_begun, request))
        desk.home.kill()
        gate.touch()
        ok(kernel.reply(request))
        assert kernel.run("print(x)").text == "42\n"
        assert value(kernel.run("%%slurm --session\nx")) == "42"
        for options, told in (
            (" --on-interrupt cancel", "cancellation requested"),
            ("", "continues"),
        ):
            request = kernel.start(cell.format(options))
            kernel.until(partial(says_begun, request))
            kernel.manager.interrupt_kernel()
            reply = kernel.reply(request)
            assert reply.content["ename"] == "Detached"
            assert told in reply.content["evalue"]
        running = next(job for job in desk.api.jobs() if job.session and not job.state.final)
        ok(kernel.run(f"%slurm cancel {running.id}"))
        wait_until(lambda: desk.api.job(running.id).state.final, PATIENCE_S)
        assert value(kernel.run("%%slurm --session\n'alive'")) == "'alive'"
