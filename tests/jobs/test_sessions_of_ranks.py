"""A session with many ranks. Each rank runs the session's cells. Slurm, PyTorch and Open MPI are
real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.job import read_result_variables
from jupyter_slurm.variables import write_variables
from jupyter_slurm.wire import Engine, ErrorOutput, Job, JobState, SessionSpec
from tests.jobs.conftest import Site, spec
from tests.jobs.test_many_nodes import MPI, OF_THIS_MACHINE, TORCH, nodes, nothing_stays, text_of
from tests.ssh.waiting import wait_until

__all__ = ["nodes"]

RANK_OF = "int(__import__('os').environ.get('RANK', __import__('os').environ['SLURM_PROCID']))"
CALLS = {
    "torchrun": TORCH,
    "mpi": MPI.replace("total = ", "total = data[3] and "),
}
TOTALS = {"torchrun": 6.0, "mpi": 3}


class InRanks:
    """A session in three ranks on two nodes, and its cells."""

    def __init__(self, site: Site, engine: Engine, **more: Any) -> None:
        options = {"nodes": "2", "ntasks": "3"}
        wanted = SessionSpec(name="s", launch=engine, options=options, **{"idle_s": 600, **more})
        self.site = site
        self.engine = engine
        self.job = site.service.submit(wanted)

    def run(self, code: str, **changes: Any) -> Job:
        return self.site.run(code, session=self.job.id, **changes)

    def call_all(self, folder: Path) -> Job:
        """Run a cell that reads `data`, needs all ranks, and returns `total`."""
        write_variables(folder / "inputs", ["data"], {"data": [1, 2, 3, 4]})
        inputs = str(folder / "inputs")  # these files move into the job's folder
        code = CALLS[self.engine]
        return self.run(code, inputs=inputs, names_in=("data",), names_out=("total",))

    def begin(self, code: str, word: str) -> Job:
        """Start a cell, and wait until it prints this word."""
        job = self.site.service.submit(spec(code, session=self.job.id))
        wait_until(lambda: word in self.site.so_far(job.id), 60)
        return job

    def gather(self, expression: str) -> Any:
        """Return the value of an expression in each rank."""
        job = self.run(f"value = {expression}", names_gather=("value",))
        return read_result_variables(self.site.service.result(job.id)).get("value")

    def ends_for_want_of(self, ranks: str) -> None:
        """Assert that the session ends and names the lost ranks."""
        job = self.site.wait(self.job.id)
        told = f"The session lost the process of {ranks}. Start the session again."
        assert (job.state, job.why) == (JobState.FAILED, told)

    def error(self, job: Job) -> ErrorOutput:
        [error] = [one for one in self.site.outputs(job.id) if isinstance(one, ErrorOutput)]
        return error


@pytest.fixture
def session(nodes: Site) -> Iterator[Callable[..., InRanks]]:
    begun: list[InRanks] = []

    def start(engine: Engine, **more: Any) -> InRanks:
        begun.append(InRanks(nodes, engine, **more))
        return begun[-1]

    yield start
    for one in begun:
        nodes.service.cancel(one.job.id)
        nothing_stays(nodes.wait(one.job.id))


@pytest.mark.parametrize("engine", ["torchrun", "mpi"])
def test_each_rank_keeps_its_own_variables(
    session: Callable[..., InRanks], engine: Engine, tmp_path: Path
) -> None:
    ranks = session(engine)
    site = ranks.site
    first = ranks.call_all(tmp_path)
    assert first.state is JobState.COMPLETED, site.outputs(first.id)
    assert read_result_variables(site.service.result(first.id)) == {"total": TOTALS[engine]}
    said = [text_of(site, first, rank).split(" on ") for rank in range(3)]
    assert [words[0] for words in said] == [f"rank {rank} of 3" for rank in range(3)]
    assert {words[1] for words in said} == {"n1\n", "n2\n"}
    assert ranks.gather("mine + 1") == [1, 11, 21]

    failed = ranks.run("if mine == 10: 1 / 0")
    assert failed.state is JobState.FAILED
    assert ranks.error(failed).traceback[0] == "On rank 1 of 3:"
    assert ranks.gather("mine") == [0, 10, 20]

    slow = ranks.begin("import time; print('sleeps', flush=True); time.sleep(600)", "sleeps")
    site.service.cancel(slow.id)
    assert site.wait(slow.id).state is JobState.CANCELLED
    assert ranks.gather("mine") == [0, 10, 20]


def test_hanging_ranks_end_the_session_after_a_failed_rank(
    session: Callable[..., InRanks], tmp_path: Path
) -> None:
    ranks = session("torchrun")
    assert ranks.call_all(tmp_path).state is JobState.COMPLETED
    hangs = ranks.run("if mine == 10: raise ValueError('mine')\ndist.barrier()")
    assert hangs.state is JobState.FAILED
    assert ranks.error(hangs).traceback[0] == "On rank 1 of 3:"
    assert "killed ranks 0,2" in ranks.site.text(hangs.id, "stderr")
    ranks.ends_for_want_of("ranks 0,2")


def test_dead_rank_ends_the_session(session: Callable[..., InRanks], demo_image: Path) -> None:
    image = str(demo_image)
    ranks = session("mpi", runtime="charliecloud", image=image, mounts=OF_THIS_MACHINE)
    assert ranks.gather(RANK_OF) == [0, 1, 2]
    died = ranks.run(f"import os\nif {RANK_OF} == 2: os.kill(os.getpid(), 9)")
    assert died.state is JobState.FAILED
    error = ranks.error(died)
    assert error.traceback[0] == "On rank 2 of 3:"
    assert error.evalue.endswith("the session's variables are lost in all ranks")
    ranks.ends_for_want_of("rank 2")
