"""A cell on many nodes with a real Slurm, PyTorch and Open MPI. All nodes are this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import RequestError, SubmitError
from jupyter_slurm.job import read_result_variables
from jupyter_slurm.variables import write_variables
from jupyter_slurm.wire import ErrorOutput, Job, JobState, Stream
from tests.cluster.apptainer import ApptainerEngine
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

OF_THIS_MACHINE = ("/usr:/usr", "/etc/alternatives:/etc/alternatives")
"""Mounts of files of this machine, which has the same distribution as the image."""
TORCH = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(data[rank])])
dist.all_reduce(total)
print("rank", rank, "of", world, "on", os.environ["SLURMD_NODENAME"])
total, mine = total.item(), rank * 10
"""
MPI = """
from mpi4py import MPI
import os
world = MPI.COMM_WORLD
print("rank", world.Get_rank(), "of", world.Get_size(), "on", os.environ["SLURMD_NODENAME"])
total = world.allreduce(world.Get_rank())
mine = world.Get_rank() * 10
"""


@pytest.fixture
def nodes(
    slurm_cluster: SlurmCluster,
    apptainer_engine: ApptainerEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Yield a site whose nodes use the distribution's Python, with PyTorch and mpi4py."""
    setup = f"PATH=$PATH:{apptainer_engine.bin}"
    site = Site(slurm_cluster, tmp_path, monkeypatch, python="/usr/bin/python3", setup=setup)
    yield site
    site.service.close()


def text_of(site: Site, job: Job, rank: int | None = None) -> str:
    chunk = site.service.logs(job.id, budget_bytes=None, task=rank)
    return "".join(one.text for one in chunk.outputs if isinstance(one, Stream))


def left_behind(job: Job) -> list[str]:
    """Return command lines of the job's processes, and files of its engine in /tmp."""
    begun_s = job.started_s or 0.0
    logs = Path("/tmp").glob("torchelastic_*")
    found = [str(one) for one in logs if one.stat().st_mtime >= begun_s]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if job.id in words:
            found.append(words)
    return found


def nothing_stays(job: Job) -> None:
    """Wait until nothing is left. The program that measures usage ends shortly after the job."""
    wait_until(lambda: not left_behind(job), 60)


def test_torchrun_runs_the_cell_in_every_rank(nodes: Site, tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    write_variables(inputs, ["data"], {"data": [1, 2, 3, 4]})
    job = nodes.run(
        TORCH,
        launch="torchrun",
        options={"nodes": "2", "gpus-per-node": "2"},
        inputs=str(inputs),
        names_in=("data",),
        names_out=("total",),
        names_gather=("mine",),
    )
    assert job.state is JobState.COMPLETED, nodes.outputs(job.id)
    assert job.ranks == 4  # type: ignore[union-attr]
    variables = read_result_variables(nodes.service.result(job.id))
    assert variables == {"total": 10.0, "mine": [0, 10, 20, 30]}
    said = [text_of(nodes, job, rank) for rank in range(4)]
    assert [words.split(" on ")[0] for words in said] == [f"rank {r} of 4" for r in range(4)]
    assert [words.split()[-1] for words in said] == ["n1", "n1", "n2", "n2"]
    assert text_of(nodes, job) == said[0]
    with pytest.raises(RequestError, match="has no rank 4"):
        nodes.service.logs(job.id, task=4)
    nothing_stays(job)


def test_ranks_have_all_gpus_of_exclusive_nodes(nodes: Site) -> None:
    """Slurm gives the job all GPUs, but gives none to a step that requests none."""
    code = "import os\nmine = os.environ['CUDA_VISIBLE_DEVICES']"
    options = {"nodes": "2", "exclusive": ""}
    job = nodes.run(code, launch="torchrun", options=options, names_gather=("mine",))
    assert job.state is JobState.COMPLETED, nodes.outputs(job.id)
    (mine,) = read_result_variables(nodes.service.result(job.id)).values()
    assert mine == ["0,1,2,3"] * 8


def test_mpi_runs_the_cell_in_every_task(nodes: Site) -> None:
    job = nodes.run(
        MPI + "fence = os.environ['SLURM_PMIX_FENCE']\n",
        launch="mpi",
        options={"nodes": "2", "ntasks": "3"},
        names_out=("total", "fence"),
        names_gather=("mine",),
    )
    assert job.state is JobState.COMPLETED, nodes.outputs(job.id)
    variables = read_result_variables(nodes.service.result(job.id))
    assert variables == {"total": 3, "fence": "ring", "mine": [0, 10, 20]}
    assert text_of(nodes, job) == "rank 0 of 3 on n1\n"
    assert text_of(nodes, job, 2) == "rank 2 of 3 on n2\n"
    nothing_stays(job)


def runs_in_four_ranks(nodes: Site, code: str, **changes: Any) -> None:
    """Run a cell in four ranks in an image, with mounts of this machine's files."""
    job = nodes.run(
        code.replace("data[rank]", "rank"),
        mounts=OF_THIS_MACHINE,
        options={"nodes": "2", "ntasks-per-node": "2"},
        names_out=("total",),
        names_gather=("mine",),
        **changes,
    )
    assert job.state is JobState.COMPLETED, nodes.outputs(job.id)
    variables = read_result_variables(nodes.service.result(job.id))
    assert variables == {"total": 6, "mine": [0, 10, 20, 30]}
    assert text_of(nodes, job, 3) == "rank 3 of 4 on n2\n"
    nothing_stays(job)


@pytest.mark.parametrize(
    ("runtime", "engine", "code"),
    [("charliecloud", "mpi", MPI), ("apptainer", "torchrun", TORCH)],
)
def test_ranks_run_in_an_image(
    nodes: Site, demo_image: Path, runtime: str, engine: str, code: str
) -> None:
    runs_in_four_ranks(nodes, code, launch=engine, runtime=runtime, image=str(demo_image))


@pytest.mark.parametrize(
    ("runtime", "engine", "code"), [("pyxis", "mpi", MPI), ("enroot", "torchrun", TORCH)]
)
def test_squash_image_runs_in_one_container_per_node(
    nodes: Site,
    enroot_standin: EnrootStandIn,
    lean_squash_image: Path,
    tmp_path: Path,
    runtime: str,
    engine: str,
    code: str,
) -> None:
    """With pyxis all containers are one step, and MPI's ranks on a node share one."""
    folder = tmp_path / "jobs"  # pyxis cannot mount paths with blanks
    nodes.edit_profile(python="/usr/bin/python3", setup=enroot_standin.setup, job_root=str(folder))
    nodes.restart()
    runs_in_four_ranks(nodes, code, launch=engine, runtime=runtime, image=str(lean_squash_image))
    wait_until(lambda: not enroot_standin.containers(), 60)


def test_cancelling_interrupts_and_removes_every_container(
    nodes: Site, enroot_standin: EnrootStandIn, lean_squash_image: Path, tmp_path: Path
) -> None:
    nodes.edit_profile(
        python="/usr/bin/python3",
        setup=enroot_standin.setup,
        job_root=str(tmp_path / "jobs"),
    )
    nodes.restart()
    code = (
        "import time\nprint('begun', flush=True)\n"
        "try:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('saved')\n    raise"
    )
    job = nodes.service.submit(
        spec(
            code,
            launch="torchrun",
            runtime="enroot",
            image=str(lean_squash_image),
            mounts=OF_THIS_MACHINE,
            options={"nodes": "2"},
        )
    )
    wait_until(lambda: "begun" in nodes.so_far(job.id), 60)
    wait_until(lambda: "begun" in text_of(nodes, nodes.service.job(job.id), 1), 60)
    nodes.service.cancel(job.id)
    job = nodes.wait(job.id)
    assert job.state is JobState.CANCELLED
    assert [text_of(nodes, job, rank) for rank in range(2)] == ["begun\nsaved\n"] * 2
    wait_until(lambda: not left_behind(job), 60)
    wait_until(lambda: not enroot_standin.containers(), 60)


def test_docker_runs_one_container_per_node(nodes: Site, docker_engine: DockerEngine) -> None:
    nodes.edit_profile(python="/usr/bin/python3", setup=docker_engine.setup)
    nodes.restart()
    job = nodes.run(
        TORCH.replace("data[rank]", "rank"),
        launch="torchrun",
        runtime="docker",
        image="demo:1",
        mounts=("/usr/lib:/usr/lib", "/etc/alternatives:/etc/alternatives"),
        options={"nodes": "2"},
        names_out=("total",),
        names_gather=("mine",),
    )
    assert job.state is JobState.COMPLETED, nodes.outputs(job.id)
    variables = read_result_variables(nodes.service.result(job.id))
    assert variables == {"total": 1, "mine": [0, 10]}
    wait_until(lambda: not docker_engine.containers(), 60)


def test_mpi_in_docker_is_rejected_before_submission(
    nodes: Site,
) -> None:
    with pytest.raises(RequestError, match="--launch mpi"):
        nodes.service.submit(spec("1", launch="mpi", runtime="docker", image="demo:1"))


def test_launch_rejects_gpus_option(nodes: Site) -> None:
    with pytest.raises(SubmitError) as refused:
        nodes.run("1", launch="torchrun", options={"nodes": "2", "gpus": "8"})
    assert (refused.value.option, "--gpus-per-node 4" in str(refused.value)) == ("gpus", True)


def test_common_traceback_of_ranks_is_shown_once(nodes: Site) -> None:
    job = nodes.run("1 / 0", launch="mpi", options={"nodes": "2", "ntasks": "4"})
    assert (job.state, job.exit_code) == (JobState.FAILED, 1)
    shown = [one for one in nodes.outputs(job.id) if isinstance(one, ErrorOutput)]
    assert [(one.ename, one.traceback[0]) for one in shown] == [
        ("ZeroDivisionError", "On ranks 0-3 of 4:")
    ]


def test_failed_rank_ends_the_other_ranks(nodes: Site) -> None:
    code = "import os, time\nif os.environ['RANK'] == '1': raise ValueError('bad')\ntime.sleep(600)"
    job = nodes.run(code, launch="torchrun", options={"nodes": "2"})
    result = nodes.service.result(job.id)
    assert (job.state, result.ename, result.evalue) == (JobState.FAILED, "ValueError", "bad")
    shown = [one for one in nodes.outputs(job.id) if isinstance(one, ErrorOutput)]
    assert [one.traceback[0] for one in shown] == ["On rank 1 of 2:"]
    nothing_stays(job)


def test_torchrun_restarts_ranks_up_to_max_restarts(nodes: Site) -> None:
    code = (
        "import os\nagain = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
        "print('round', again)\nassert again == 1"
    )
    job = nodes.run(code, launch="torchrun", max_restarts=1, options={"nodes": "2"})
    assert job.state is JobState.COMPLETED, nodes.outputs(job.id)
    assert text_of(nodes, job) == "round 0\nround 1\n"


def test_signal_before_the_time_limit_interrupts_every_rank(nodes: Site) -> None:
    """With `--signal`, each rank saves its state."""
    code = (
        "import os, time\nprint('begun', flush=True)\n"
        "try:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('saved')\n"
        "saved = True"
    )
    options = {"nodes": "2", "signal": "USR1@60"}
    job = nodes.service.submit(spec(code, launch="mpi", options=options, names_gather=("saved",)))
    wait_until(lambda: "begun" in nodes.so_far(job.id), 60)
    wait_until(lambda: "begun" in text_of(nodes, nodes.service.job(job.id), 1), 60)
    slurm_id = nodes.service.job(job.id).slurm_id
    nodes.cluster.run("scancel", "--batch", "--signal=USR1", str(slurm_id))
    job = nodes.wait(job.id)
    assert job.state is JobState.COMPLETED, nodes.outputs(job.id)
    assert text_of(nodes, job) == text_of(nodes, job, 1) == "begun\nsaved\n"
    assert read_result_variables(nodes.service.result(job.id)) == {"saved": [True, True]}


def test_dead_node_is_reported(nodes: Site) -> None:
    code = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    job = nodes.service.submit(spec(code, launch="torchrun", options={"nodes": "2"}))
    wait_until(lambda: "begun" in nodes.so_far(job.id), 60)
    began_s = time.monotonic()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            env = (folder / "environ").read_bytes()
            if job.id in words and b"SLURMD_NODENAME=n2\0" in env:
                os.kill(int(folder.name), signal.SIGKILL)
    job = nodes.wait(job.id)
    assert time.monotonic() - began_s < 60
    assert (job.state, job.why) == (JobState.FAILED, "n2 was lost while the job ran.")
    assert job.usage is not None
    assert job.usage.peak_memory_mib is None
    assert "n2 is gone" in nodes.text(job.id, "stderr")
    wait_until(lambda: not left_behind(job), 60)
