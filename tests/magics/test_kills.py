"""`kill -9` of the kernel and of the agent, at every moment of a job's life, on a real Slurm.

Never two jobs, never a lost result: the same cell, run again, has everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import Job, JobState
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.magics.kernel import LOAD, Kernel, Reply, running_kernel
from tests.ssh.waiting import wait_until

CELL = """%%slurm --out total
import time
print('one', flush=True)
time.sleep({seconds})
print('two')
total = 41 + 1
"""

GATED = """%%slurm --out total
import os, time
print('one', flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.05)
print('two')
total = 41 + 1
# {moment}
"""


class Desk:
    """A cluster to break, an agent's home, and kernels of one and the same notebook."""

    def __init__(
        self, home: AgentHome, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.home = home
        self.cluster = cluster
        self._seen: set[str] = set()
        monkeypatch.setenv("JUPYTER_CONFIG_DIR", cluster.env["JUPYTER_CONFIG_DIR"])
        monkeypatch.setenv("JPY_SESSION_NAME", "/notebooks/it's one.ipynb")
        profile = cluster.profile_path.read_text(encoding="utf-8")
        quick = "command_timeout_s = 3.0\nsubmit_timeout_s = 3.0\nlookup_gap_s = 1.0\n[env]"
        cluster.profile_path.write_text(profile.replace("[env]", quick, 1), encoding="utf-8")
        self.api = AgentClient(home.socket, COMMAND)

    def kernel(self) -> Iterator[Kernel]:
        with running_kernel(dict(os.environ), self.home.folder) as kernel:
            assert kernel.run(LOAD).content["status"] == "ok"
            yield kernel

    def slurm_jobs(self) -> int:
        """How many jobs Slurm has had in all, as far as they were looked at."""
        self._seen |= set(self.cluster.run("squeue", "-h", "-t", "all", "-o", "%A").stdout.split())
        return len(self._seen)


@pytest.fixture
def desk(
    agent_home: AgentHome,
    private_cluster: Callable[..., SlurmCluster],
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    return Desk(agent_home, private_cluster(), monkeypatch)


def has_everything(kernel: Kernel, reply: Reply) -> None:
    assert reply.content["status"] == "ok", (reply.content, reply.text)
    assert reply.text.replace("\r", "").endswith("one\ntwo\n")
    assert kernel.run("print(total)").text == "42\n"


def newest(desk: Desk) -> Job:
    return max(desk.api.jobs(), key=lambda job: job.created_s)


def wait_for_first_line(desk: Desk) -> None:
    wait_until(desk.api.jobs)
    job = newest(desk)
    wait_until(lambda: any(getattr(o, "text", "") for o in desk.api.logs(job.id).outputs))


def until_there_are(count: int, desk: Desk) -> None:
    wait_until(lambda: len(desk.api.jobs()) == count)


def test_a_kernel_that_is_killed_at_any_moment_loses_nothing(desk: Desk) -> None:
    """Each kernel but the first has what was left by the one before."""
    with closing(kernel for _ in range(5) for kernel in desk.kernel()) as kernels:
        kernel = next(kernels)
        for count, moment in enumerate(("during sbatch", "while it waits", "it runs", "late"), 1):
            gate = desk.home.folder / f"gate-{count}"
            cell = GATED.format(gate=str(gate), moment=moment)
            if moment == "during sbatch":
                desk.cluster.stop_controller()
            elif moment == "while it waits":
                desk.cluster.run("scontrol", "update", "NodeName=n1", "State=drain", "Reason=test")
            kernel.start(cell)
            until_there_are(count, desk)
            if moment == "while it waits":
                wait_until(lambda: newest(desk).state is JobState.PENDING)
            elif moment != "during sbatch":
                wait_for_first_line(desk)
            kernel.manager.shutdown_kernel(now=True)
            gate.touch()
            kernel = next(kernels)
            if moment == "during sbatch":
                desk.cluster.cont_controller()
            elif moment == "while it waits":
                desk.cluster.run("scontrol", "update", "NodeName=n1", "State=resume")
            elif moment == "late":
                wait_until(lambda: newest(desk).state.final)
            reply = kernel.run(cell)
            assert "attached" in reply.text, moment
            has_everything(kernel, reply)
            assert desk.slurm_jobs() == count, moment


def test_an_agent_that_is_killed_at_any_moment_is_not_noticed_in_the_cell(desk: Desk) -> None:
    for kernel in desk.kernel():
        for count, delay_s in enumerate((0.0, 0.01, 0.03, 0.06, 0.1, 0.3, 0.6, 0.9, 1.2), 1):
            desk.api.jobs()
            request = kernel.start(f"{CELL.format(seconds=0.3)}# {delay_s}\n")
            time.sleep(delay_s)  # chooses the moment; every moment must do
            desk.home.kill()
            has_everything(kernel, kernel.reply(request))
            kernel.run("del total")
            assert desk.slurm_jobs() == count, delay_s


def test_an_agent_killed_while_sbatch_hangs_submits_once(desk: Desk) -> None:
    for kernel in desk.kernel():
        desk.api.jobs()
        desk.cluster.stop_controller()
        request = kernel.start(CELL.format(seconds=0))
        wait_until(desk.api.jobs)
        desk.home.kill()
        wait_until(lambda: desk.api.jobs()[0].problem is not None)
        desk.home.kill()
        desk.cluster.cont_controller()
        has_everything(kernel, kernel.reply(request))
    assert desk.slurm_jobs() == 1


def test_kernel_and_agent_killed_together_lose_nothing(desk: Desk, tmp_path: Path) -> None:
    cell = CELL.format(seconds=1)
    for kernel in desk.kernel():
        kernel.start(cell)
        wait_for_first_line(desk)
        job_id = newest(desk).id
        kernel.manager.shutdown_kernel(now=True)
    desk.home.kill()
    for kernel in desk.kernel():
        reply = kernel.run(f"%slurm attach {job_id}")  # it may have ended by now
        has_everything(kernel, reply)
    assert desk.slurm_jobs() == 1
