"""`kill -9` of the agent while sbatch hangs, on a real Slurm. One job runs and returns its
result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.magics.kernel import LOAD, Kernel, Reply, running_kernel
from tests.ssh.waiting import wait_until

CELL = """%%slurm --out total
print('one')
print('two')
total = 41 + 1
"""


class Desk:
    """A cluster for this test, an agent's home, and kernels of one notebook."""

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
        """Return the number of jobs that Slurm has accepted."""
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


def test_agent_killed_while_sbatch_hangs_submits_once(desk: Desk) -> None:
    for kernel in desk.kernel():
        desk.api.jobs()
        desk.cluster.stop_controller()
        request = kernel.start(CELL)
        wait_until(desk.api.jobs)
        desk.home.kill()
        wait_until(lambda: desk.api.jobs()[0].problem is not None)
        desk.home.kill()
        desk.cluster.cont_controller()
        has_everything(kernel, kernel.reply(request))
    assert desk.slurm_jobs() == 1
