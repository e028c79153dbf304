"""What goes wrong between nodes that are machines of their own: each fault ends with its sentence,
and leaves nothing on any node. Real Slurm, PyTorch, Open MPI and packet filters."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from jupyter_slurm.job import read_result_variables
from jupyter_slurm.wire import Job, JobState
from tests.cluster.machines import ADDRESSES, Machines
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.jobs.test_many_nodes import MPI, TORCH, text_of
from tests.ssh.waiting import wait_until

TOLD_S = 60.0
"""The longest time from the start of a job to the sentence that says what is wrong."""
ENDED_S = 20.0


@pytest.fixture
def apart(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """A site on these nodes; after the test everything there is as it was."""
    machines.wait_until_idle()
    before = machines.traces()
    root = machines.folder / f"jobs{secrets.token_hex(3)}"
    monkeypatch.chdir(machines.folder)  # the nodes have no other folder of this machine's /tmp
    site = Site(cast(SlurmCluster, machines), tmp_path, monkeypatch, job_root=str(root))
    yield site
    site.service.close()

    def left() -> str:
        return "\n".join(
            f"{name}: {one}"
            for name, found in machines.traces().items()
            for one in found
            if one not in before[name]
        )

    wait_until(lambda: machines.traces() == before, ENDED_S, left)


def failure(site: Site, job: Job, name: str = "LaunchError") -> str:
    """What a job says that could not begin, and has said in time."""
    result = site.service.result(job.id)
    assert job.state is JobState.FAILED, site.outputs(job.id)
    assert result.ename == name, site.outputs(job.id)
    assert job.ended_s is not None
    assert job.started_s is not None
    assert job.ended_s - job.started_s < TOLD_S
    assert result.evalue is not None
    return result.evalue


@pytest.mark.parametrize(("engine", "code"), [("torchrun", TORCH), ("mpi", MPI)])
def test_a_head_that_calls_itself_localhost_does_no_harm(
    apart: Site, machines: Machines, engine: str, code: str
) -> None:
    """Nor do nodes without `scontrol`, and ports of engines that others have taken."""
    for node in machines.nodes.values():
        told = node.machine.run("getent", "hosts", node.name).stdout
        assert told.split()[0] == "127.0.0.1"
        assert node.machine.run("scontrol", "-V", check=False).returncode
    job = apart.run(
        code.replace("data[rank]", "rank"),
        launch=engine,
        options={"nodes": "3", "ntasks-per-node": "2"},
        names_gather=("mine",),
    )
    assert job.state is JobState.COMPLETED, apart.outputs(job.id)
    found = read_result_variables(apart.service.result(job.id))
    assert found == {"mine": [0, 10, 20, 30, 40, 50]}
    said = {text_of(apart, job, rank).split()[-1] for rank in range(6)}
    assert said == set(ADDRESSES)
