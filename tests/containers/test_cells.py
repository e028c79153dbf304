"""Identical cells in every runtime, in jobs of a real Slurm; none leaves anything on the node."""

from __future__ import annotations

import os
import stat
import sys
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_slurm import places
from jupyter_slurm.job import read_outcome
from jupyter_slurm.variables import read_variables, write_variables
from jupyter_slurm.wire import DisplayData, ExecuteResult, Job, JobKind, JobSpec, JobState
from tests.cluster.apptainer import ApptainerEngine, exports
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.containers.leftovers import processes, processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.processes import runs
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_HOSTILE = "a, b='c'\n\"$HOME\" `x` \\ é %s #\n"


@dataclass(frozen=True)
class Means:
    """A runtime's image and settings on this machine."""

    runtime: str
    image: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the cluster's profile."""
    containers: Callable[[], list[str]] = list
    """List the engine's containers, running or not."""
    sees_all: bool = False
    """True if the program has access to the node's files and nothing is mounted."""
    module: str | None = None
    """The value of `$FROM_A_MODULE` that the profile's module sets."""


def _modules(request: pytest.FixtureRequest) -> Means:
    """An environment module with its own Python, as on a cluster without containers."""
    folder: Path = request.getfixturevalue("tmp_path") / "modules"
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    module = folder / "python"
    module.write_text(
        f"#%Module\nprepend-path PATH {{{python.parent}}}\nsetenv FROM_A_MODULE loaded\n"
    )
    settings = {"modules": [str(module)], "python": "python3"}
    return Means("none", settings=settings, sees_all=True, module="loaded")


def _charliecloud(request: pytest.FixtureRequest) -> Means:
    return Means("charliecloud", image=str(request.getfixturevalue("demo_image")))


def _docker(request: pytest.FixtureRequest) -> Means:
    engine: DockerEngine = request.getfixturevalue("docker_engine")
    settings = {"setup": engine.setup}
    return Means("docker", engine.image, settings, lambda: engine.containers() + engine.traces())


def _apptainer(request: pytest.FixtureRequest, name: str = "apptainer") -> Means:
    engine: ApptainerEngine = request.getfixturevalue("apptainer_engine")
    return Means(name, str(engine.sif), {"setup": exports(engine.unprivileged)})


def _singularity(request: pytest.FixtureRequest) -> Means:
    return _apptainer(request, "singularity")


def _pyxis(request: pytest.FixtureRequest) -> Means:
    """The stand-in for pyxis, with a job root without spaces; see `test_pyxis.py`."""
    standin: EnrootStandIn = request.getfixturevalue("enroot_standin")
    settings = {"setup": standin.setup, "job_root": str(standin.folder / "jobs")}
    return Means("pyxis", _squash_image(request), settings, standin.containers)


def _enroot(request: pytest.FixtureRequest) -> Means:
    standin: EnrootStandIn = request.getfixturevalue("enroot_standin")
    settings = {"setup": standin.setup}
    return Means("enroot", _squash_image(request), settings, standin.containers)


def _squash_image(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("lean_squash_image"))


GROUNDS: Mapping[str, Callable[[pytest.FixtureRequest], Means]] = {
    "none+modules": _modules,
    "charliecloud": _charliecloud,
    "docker": _docker,
    "apptainer": _apptainer,
    "pyxis": _pyxis,
    "enroot": _enroot,
}
_BY_ANOTHER_NAME = {"singularity": _singularity}
"""Apptainer's own link `singularity`. One test is enough, since the program is the same."""


_OF_GPUS = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS")


@dataclass
class Ground:
    site: Site
    means: Means
    tmp: Path
    """The `$TMPDIR` of jobs on this ground."""

    def job_spec(self, code: str, **changes: Any) -> JobSpec:
        return spec(code, image=self.means.image, runtime=self.means.runtime, **changes)

    def run(self, code: str, **changes: Any) -> Job:
        return self.site.wait(self.site.service.submit(self.job_spec(code, **changes)).id)

    def started(self, code: str, **changes: Any) -> Job:
        """Return as soon as the job has printed something."""
        service = self.site.service
        job = service.submit(self.job_spec(code, **changes))
        wait_until(
            lambda: service.logs(job.id, "", wait_s=1, budget_bytes=None).outputs != (),
            _PATIENCE_S,
        )
        return service.job(job.id)

    def script_of(self, job: Job) -> psutil.Process:
        """Return the process of `job.sh`, the leader of the job's process group."""
        (script,) = (
            one
            for one, words in processes(job)
            if "slurm_script" in words and _leads_its_group(one)
        )
        return script

    def left(self) -> list[str]:
        """Return containers, processes and temporary files left by this site's jobs."""
        files = [path.name for path in self.tmp.iterdir()]
        return self.means.containers() + processes_of(self.site) + files


def _leads_its_group(process: psutil.Process) -> bool:
    with suppress(ProcessLookupError):  # the process has just ended
        return os.getpgid(process.pid) == process.pid
    return False


@pytest.fixture(params=GROUNDS)
def ground(
    request: pytest.FixtureRequest,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    means = {**GROUNDS, **_BY_ANOTHER_NAME}[request.param](request)
    tmp = tmp_path / "tmp"
    site = Site(slurm_cluster, tmp_path, monkeypatch, **_settings(means, tmp))
    ground = Ground(site, means, tmp)
    yield ground
    wait_until(lambda: not ground.left(), _PATIENCE_S)
    site.service.close()


def _settings(means: Means, tmp: Path) -> dict[str, Any]:
    """Create this $TMPDIR, and return profile settings for jobs that use it."""
    tmp.mkdir()
    return {**means.settings, "setup": f"{means.settings.get('setup', '')}\nexport TMPDIR={tmp}"}


@pytest.mark.parametrize("ground", [*GROUNDS, *_BY_ANOTHER_NAME], indirect=True)
def test_cell_gets_inputs_and_returns_outputs(ground: Ground, tmp_path: Path) -> None:
    """One job tests everything, since each job starts a container. The inputs are stdin,
    environment, GPUs, folder and variables. The outputs are text, rich output, value, variables,
    and a file owned by the user."""
    folder = tmp_path / "it's, $data"
    folder.mkdir()
    (folder / "file").write_text("there")
    there = folder / "file" if ground.means.sees_all else Path("/mnt/data/file")
    mounts = () if ground.means.sees_all else (f"{folder}:/mnt/data",)
    home = Path.home()
    name = f".jupyter-slurm-test-{tmp_path.name}-{os.getpid()}"
    inputs = places.spool_dir() / "in.vars"
    write_variables(inputs, ["data"], {"data": [1, 2, 3]})
    code = f"""
import os, sys
print('hé', repr(sys.stdin.read()))
print(repr([os.environ.get(name) for name in ('V', 'W', 'FROM_A_MODULE')]))
print(repr([os.environ.get(name, '') for name in {_OF_GPUS}]))
print(open({str(there)!r}).read())
with open(os.path.expanduser('~/{name}'), 'w') as file:
    file.write('x')
display({{'image/png': 'iVBORw0KGgo='}}, raw=True)
total = sum(data)
6 * 7
"""
    try:
        job = ground.run(
            code,
            env={"V": _HOSTILE, "W": ""},
            options={"gpus": "2"},
            mounts=mounts,
            names_in=("data",),
            names_out=("total",),
            inputs=str(inputs),
        )
        assert job.state is JobState.COMPLETED, (job.why, ground.site.text(job.id, "stderr"))
        found = (home / name).stat()
        assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
        assert stat.S_ISREG(found.st_mode)
    finally:
        (home / name).unlink(missing_ok=True)
    said, environment, gpus, read = ground.site.text(job.id).splitlines()
    assert said == "hé ''"
    assert literal_eval(environment) == [_HOSTILE, "", ground.means.module]
    devices, given = literal_eval(gpus)
    assert devices == given
    assert len(devices.split(",")) == 2
    assert read == "there"
    shown = [o.data for o in ground.site.outputs(job.id) if isinstance(o, DisplayData)]
    assert [one["image/png"] for one in shown] == ["iVBORw0KGgo="]
    values = [o.data for o in ground.site.outputs(job.id) if isinstance(o, ExecuteResult)]
    assert [one["text/plain"] for one in values] == ["42"]
    result = ground.site.service.result(job.id)
    assert result.variables is not None, ground.site.text(job.id, "stderr")
    assert read_variables(Path(result.variables))[0] == {"total": 6}


def test_sweep_tasks_run_in_parallel_with_their_own_signals(ground: Ground, tmp_path: Path) -> None:
    """The tasks share the job's folder, so files of the container tool must not collide."""
    params = places.spool_dir() / "params.vars"
    by_task = {str(task): {"x": task} for task in range(3)}
    write_variables(params, tuple(by_task), by_task)
    code = """
import os, time
y = [x, os.environ["V"]]
print("up", flush=True)
try:
    while x > 0:
        time.sleep(0.01)
except KeyboardInterrupt:
    print("heard", flush=True)
"""
    service = ground.site.service
    sweep = {"kind": JobKind.SWEEP, "tasks": "0-2", "params": str(params), "names_params": ("x",)}
    job = service.submit(ground.job_spec(code, env={"V": _HOSTILE}, names_out=("y",), **sweep))

    def text(task: int) -> str:
        chunk = service.logs(job.id, task=task, budget_bytes=None)
        return "".join(getattr(one, "text", "") for one in chunk.outputs)

    wait_until(lambda: "up" in text(1) and "up" in text(2), seen=lambda: text(1) + text(2))
    wait_until(lambda: service.job(job.id).tasks.get("COMPLETED") == "0")
    service.control_jobs("cancel", [], [f"{job.slurm_id}_2"])
    wait_until(lambda: "heard" in text(2), seen=lambda: text(2))
    assert "heard" not in text(1)
    service.cancel(job.id)
    ground.site.wait(job.id)
    assert "heard" in text(1)
    variables, _ = read_outcome(service, service.result(job.id), {})
    rows: Any = variables["results"]
    assert rows["y"].iloc[0] == [0, _HOSTILE]


@pytest.mark.parametrize("ground", ["charliecloud"], indirect=True)
def test_figure_is_returned(ground: Ground) -> None:
    job = ground.run("import matplotlib.pyplot as plt; plt.plot([1, 2, 4]); None")
    shown = [o for o in ground.site.outputs(job.id) if isinstance(o, DisplayData)]
    assert [set(one.data) >= {"image/png"} for one in shown] == [True]


def test_cell_has_samples_and_only_requested_gpus_and_can_save_when_cancelled(
    ground: Ground,
) -> None:
    code = f"""
import os, time
held = bytearray(150 << 20)
print([os.environ.get(name, '') for name in {_OF_GPUS}])
try:
    while True:
        sum(range(100_000))
        time.sleep(0.01)
except KeyboardInterrupt:
    print('saved')
    raise
"""
    job = ground.started(code)
    service = ground.site.service
    cursor = service.usage(job.id).cursor
    told = service.usage(job.id, cursor, _PATIENCE_S)
    # The container tool's own programs are included.
    assert all(150 < sample.memory_mib < 400 for sample in told.samples), told
    assert all(sample.cpus > 0 for sample in told.samples)
    service.cancel(job.id)
    assert ground.site.wait(job.id).state is JobState.CANCELLED
    assert ground.site.text(job.id) == "['', '']\nsaved\n"


# This must be one process. Killing it would orphan a child, and Slurm's proctrack/linuxproc, which
# finds processes by their parents, would not end the child.
_STUBBORN = "#!/bin/sh\ntrap '' TERM INT; echo up; exec sleep 600"


def test_container_of_a_killed_job_is_removed(ground: Ground) -> None:
    job = ground.started(_STUBBORN, kind=JobKind.PROGRAM)
    assert job.slurm_id is not None
    assert ground.left()
    script = ground.script_of(job)
    # Processes that an engine starts for a container may lack the job's environment and process
    # group.
    beneath = script.children(recursive=True)
    ground.site.cluster.run("scancel", "--full", "--signal=KILL", job.slurm_id)
    script.wait(_PATIENCE_S)
    wait_until(lambda: not (ground.left() or any(map(runs, beneath))), _PATIENCE_S)
    assert ground.site.wait(job.id).state.final
    assert str(ground.means.image) not in Path("/proc/self/mountinfo").read_text()
