"""A cell with Ray or Dask on all nodes of its job: real Slurm, real engines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_slurm.job import read_result_variables
from jupyter_slurm.wire import Job, JobState, SessionSpec, Stream
from tests.cluster.apptainer import ApptainerEngine
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.ssh.processes import kill
from tests.ssh.waiting import wait_until

RAY = """
import os, time
ray.init(namespace="of the cell")  # as notebooks begin that know nothing of this
@ray.remote(num_cpus=1)
def square(number):
    time.sleep(0.2)
    return number**2
namespace = ray.get_runtime_context().namespace
names = sorted(node["NodeName"] for node in ray.nodes())
open({runs!r}, "w").close()
while not os.path.exists({goes!r}):
    time.sleep(0.05)
numbers = ray.get([square.remote(number) for number in range(8)])
"""
DASK = """
import os, time, dask
def square(number):
    time.sleep(0.2)
    return number**2
namespace = str(distributed.Client().scheduler.address == client.scheduler.address)
names = sorted(client.run(lambda dask_worker: dask_worker.name).values())
open({runs!r}, "w").close()
while not os.path.exists({goes!r}):
    time.sleep(0.05)
numbers = client.gather(client.map(square, range(8)))
assert dask.delayed(sum)([1, 2]).compute() == 3
"""
CODE = {"ray": RAY, "dask": DASK}
NAMES = {
    "ray": "names = sorted(node['NodeName'] for node in ray.nodes())",
    "dask": "names = sorted(client.run(lambda dask_worker: dask_worker.name).values())",
}
MEMORY = (
    "memory = sum(client.run(lambda dask_worker: "
    "dask_worker.memory_manager.memory_limit).values()) >> 20"
)
"""Memory of Dask on both nodes."""
GONE_S = 60.0


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    engines_python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Yield a site whose nodes' Python has Ray and Dask."""
    site = Site(slurm_cluster, tmp_path, monkeypatch, python=str(engines_python))
    yield site
    for job in site.service.jobs():
        if not job.state.final:  # after a failed test, other tests would wait for its nodes
            site.service.cancel(job.id)
            site.wait(job.id)
    site.service.close()


class Seen:
    """A snapshot of a process."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.environ = process.environ()
        self.argv = process.cmdline()

    @property
    def words(self) -> str:
        return " ".join((*self.argv, *self.environ.values()))

    def is_of(self, job_id: str) -> bool:
        """Return whether the process belongs to this job. Slurm's IDs are not enough, since other
        test clusters use the same IDs."""
        return job_id in self.words

    def is_worker(self) -> bool:
        words = " ".join(self.argv)
        return "--raylet_socket_name" in words or "launch_dask.py worker" in words


class EngineJob:
    """A job on two nodes whose code waits for `finish`."""

    def __init__(self, site: Site, folder: Path, engine: str, code: str, **changes: Any) -> None:
        """Submit the job, with these `changes` of its spec."""
        wanted = {
            "options": {"nodes": "2", "cpus-per-task": "4"},
            "names_out": ("numbers", "names", "namespace"),
        }
        self.engine = engine
        self.site, self.runs, self.goes = site, folder / "runs", folder / "goes"
        folder.mkdir()
        job = site.service.submit(
            spec(
                code.format(runs=str(self.runs), goes=str(self.goes)),
                launch=engine,
                **(wanted | changes),
            )
        )
        self.id = job.id
        wait_until(lambda: self.runs.exists() or site.service.job(job.id).state.final, 120)
        assert self.runs.exists(), self.told()
        self.slurm_id = site.service.job(job.id).slurm_id

    def told(self) -> str:
        service = self.site.service  # as text, since pytest truncates other values
        return f"{self.text('stderr')}\n{service.result(self.id)}\n{service.job(self.id)}"

    def text(self, name: str = "stdout") -> str:
        chunk = self.site.service.logs(self.id, budget_bytes=None)
        streams = [one for one in chunk.outputs if isinstance(one, Stream)]
        return "".join(one.text for one in streams if one.name == name)

    def processes(self) -> list[Seen]:
        """Return all processes of this job, regardless of their parents."""
        found = []
        for process in psutil.process_iter():
            try:
                seen = Seen(process)
            except psutil.Error:  # the process has just ended
                continue
            if seen.environ.get("SLURM_JOB_ID") == self.slurm_id and seen.is_of(self.id):
                found.append(seen)
        return found

    def folders(self) -> list[Path]:
        """Return the folders in /tmp that the engine's processes use."""
        words = " ".join(process.words for process in self.processes())
        return sorted({Path(one) for one in re.findall(r"/tmp/jse-[0-9a-f]{12}", words)})

    def memory(self) -> list[Path]:
        """Return the files in /dev/shm that the job's processes share."""
        mapped = set()
        for seen in self.processes():
            with suppress(OSError):  # the process has just ended
                lines = Path(f"/proc/{seen.process.pid}/maps").read_text().splitlines()
                mapped |= {int(line.split()[4]) for line in lines if "/dev/shm/" in line}
        # Compare inodes, since glibc maps a semaphore before naming its file.
        return [Path(one.path) for one in os.scandir("/dev/shm") if one.inode() in mapped]

    def finish(self) -> Job:
        self.goes.touch()
        return self.site.wait(self.id)

    def left(self, paths: list[Path]) -> list[object]:
        """Return the job's remaining processes, and the paths that still exist."""
        return [*self.processes(), *(one for one in paths if one.exists())]


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_engine_on_all_nodes_survives_a_dead_node_and_cleans_up(
    site: Site, tmp_path: Path, engine: str
) -> None:
    job = EngineJob(site, tmp_path / "job", engine, CODE[engine])
    folders = job.folders()
    assert [oct(one.stat().st_mode & 0o777) for one in folders] == ["0o700"]
    assert {seen.environ["TMPDIR"] for seen in job.processes() if seen.is_worker()} == {
        str(folders[0])
    }
    shared = job.memory()
    secrets = [one.read_text() for one in folders[0].glob("token.*")]
    assert len(secrets) == (2 if engine == "ray" else 0)
    for seen in job.processes():
        assert not [secret for secret in secrets if secret in seen.words]
        if seen.environ.get("SLURMD_NODENAME") == "n2" and seen.is_worker():
            kill(seen.process)
    name = engine.capitalize()
    wait_until(lambda: f"{name} ended on n2" in job.text("stderr"), GONE_S)
    ended = job.finish()
    assert ended.state is JobState.COMPLETED, job.told()
    assert job.text("stderr").count(f"{name} ended on n2") == 1
    seen_mib = [one.memory_mib for one in site.service.usage(job.id).samples]
    assert ended.usage is not None
    assert (ended.usage.peak_memory_mib or 0) >= max(
        seen_mib, default=1
    )  # the engine's processes count, too
    variables = read_result_variables(site.service.result(job.id))
    assert variables == {
        "numbers": [number**2 for number in range(8)],
        "names": ["n1", "n2"],
        "namespace": "of the cell" if engine == "ray" else "True",
    }
    wait_until(lambda: not job.left([*folders, *shared]), GONE_S)


def test_cell_with_a_missing_engine_fails_at_once(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch, python="/usr/bin/python3")
    job = site.run("1", launch="dask", options={"nodes": "2"})
    result = site.service.result(job.id)
    assert result.ename == "LaunchError"
    assert result.evalue is not None
    assert "--launch dask needs Dask" in result.evalue
    assert site.text(job.id, "stderr").count("--launch dask needs Dask") == 1
    assert job.why == result.evalue
    site.service.close()


def test_dead_scheduler_ends_the_cell(site: Site, tmp_path: Path) -> None:
    job = EngineJob(site, tmp_path / "job", "dask", DASK)
    for seen in job.processes():
        if "scheduler" in seen.argv:
            kill(seen.process)
    wait_until(lambda: "Dask ended on n1 (signal 9)" in job.text("stderr"), GONE_S)
    ended = site.wait(job.id)
    assert ended.state is not JobState.COMPLETED
    assert "ended on n1 (" in str(ended.why), job.told()


def test_cells_of_a_session_share_one_engine(site: Site) -> None:
    options = {"nodes": "2", "cpus-per-task": "4", "mem": "1000"}
    session = site.service.submit(SessionSpec(name="s", launch="dask", idle_s=600, options=options))
    for _ in range(2):  # their own connections reach the same cluster
        cpus = "import os; cpus = os.environ['SLURM_CPUS_PER_TASK']"
        code = "\n".join(("distributed.Client()", NAMES["dask"], cpus, MEMORY))
        job = site.run(code, session=session.id, names_out=("names", "cpus", "memory"))
        made = read_result_variables(site.service.result(job.id))
        assert made == {"names": ["n1", "n2"], "cpus": "4", "memory": 2000}
    dead = site.run("import os; os.kill(os.getpid(), 9)", session=session.id)
    assert dead.state is JobState.FAILED
    third = site.run(NAMES["dask"], session=session.id, names_out=("names",))
    assert read_result_variables(site.service.result(third.id)) == {"names": ["n1", "n2"]}
    site.service.cancel(session.id)
    assert site.wait(session.id).state is JobState.COMPLETED


def finds_both_nodes(site: Site, engines_python: Path, launch: str, **changes: Any) -> None:
    """Mount files of this machine, since it has the same distribution as the image."""
    [packages] = engines_python.parents[1].glob("lib/python3*/site-packages")
    job = site.run(
        NAMES[launch],
        launch=launch,
        mounts=(f"{packages}:/srv",),
        env={"PYTHONPATH": "/srv"},
        options={"nodes": "2", "cpus-per-task": "4"},
        names_out=("names",),
        **changes,
    )
    result = site.service.result(job.id)
    assert job.state is JobState.COMPLETED, (result, site.outputs(job.id))
    assert read_result_variables(result) == {"names": ["n1", "n2"]}


@pytest.mark.parametrize(("runtime", "engine"), [("charliecloud", "dask"), ("apptainer", "ray")])
def test_engine_runs_in_an_image(
    site: Site,
    engines_python: Path,
    demo_image: Path,
    apptainer_engine: ApptainerEngine,
    runtime: str,
    engine: str,
) -> None:
    site.edit_profile(setup=f"PATH=$PATH:{apptainer_engine.bin}")
    site.restart()
    finds_both_nodes(site, engines_python, launch=engine, runtime=runtime, image=str(demo_image))
