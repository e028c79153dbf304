"""Jobs on the login node: a single start, cancelling and resuming. Builds of images on the login
node, with the real tools."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath

import psutil
import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.submission import login_node
from jupyter_slurm.wire import Job, JobKind, JobSpec, JobState
from tests.cluster.plugin import SlurmCluster
from tests.jobs.cluster.test_images import MADE, Ground, apptainer, charliecloud, docker
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.processes import runs, words_of
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

_FOREVER = "#!/bin/sh\necho begun\nwhile :; do sleep 1; done"
_UNTIL_GO = '#!/bin/sh\necho begun\nwhile [ ! -e "${0%/*}/go" ]; do sleep 0.1; done\n'


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """End all processes of the test's jobs."""
    yield
    left = [one for one in psutil.process_iter() if str(tmp_path) in str(words_of(one))]
    for one in left:
        with suppress(psutil.Error):
            one.kill()
    psutil.wait_procs(left, 60)


def program(code: str) -> JobSpec:
    return spec(code, kind=JobKind.PROGRAM, runtime="none", on_login=True)


def begun(site: Site, code: str = _FOREVER) -> Job:
    """Return a job whose program has started."""
    job = site.service.submit(program(code))
    wait_until(lambda: "begun" in site.so_far(job.id), 60)
    return site.wait(job.id, JobState.RUNNING)


def words(job: Job) -> list[str]:
    """Return the fields HOST BOOT KEEPER BEGAN PID BEGAN of the job's file `submitted`."""
    return (Path(job.job_dir) / "submitted").read_text().split()


def processes(job: Job) -> list[psutil.Process]:
    """Return the keeper's process, and the script's process group."""
    keeper, group = int(words(job)[2]), int(words(job)[4])
    found = []
    for pid in psutil.pids():
        try:
            if pid == keeper or os.getpgid(pid) == group:
                found.append(psutil.Process(pid))
        except (ProcessLookupError, psutil.Error):
            continue
    return [one for one in found if runs(one)]


@over_ssh
def test_login_node_job_runs_without_slurm(site: Site) -> None:
    job = site.service.submit(program("#!/bin/sh\necho hello; umask; nice"))
    job = site.wait(job.id)
    assert (job.state, job.why) == (JobState.COMPLETED, "Succeeded.")
    assert job.slurm_id is None
    assert job.nodes == (os.uname().nodename,)
    assert job.started_s is not None
    text = site.text(job.id)
    assert "hello" in text
    below_ours = str(min(os.nice(0) + 10, 19))
    # All users must be able to read image files.
    assert text.splitlines()[-2:] == ["0022", below_ours]
    assert site.slurm_jobs() == []
    assert "sbatch" not in str(site.service.status().commands)
    wait_until(lambda: not processes(job), 60)
    with pytest.raises(RequestError):
        site.service.hold(job.id)
    site.service.forget(job.id)
    assert not Path(job.job_dir).exists()


def test_failed_login_node_job_has_its_exit_code(site: Site) -> None:
    job = site.service.submit(program("#!/bin/sh\necho no >&2; exit 7"))
    job = site.wait(job.id)
    assert (job.state, job.exit_code) == (JobState.FAILED, 7)


@over_ssh
def test_cancelling_ends_all_processes_of_a_login_node_job(site: Site) -> None:
    job = begun(site)
    assert processes(job)
    site.service.cancel(job.id)
    job = site.wait(job.id)
    assert (job.state, job.why) == (JobState.CANCELLED, "Cancelled by you.")
    wait_until(lambda: not processes(job), 60)


@over_ssh
def test_next_agent_resumes_a_login_node_job(site: Site) -> None:
    job = begun(site, _UNTIL_GO + "echo done")
    service = site.restart()
    assert service.job(job.id).state is JobState.RUNNING
    (Path(job.job_dir) / "go").touch()
    assert site.wait(job.id).state is JobState.COMPLETED
    assert site.text(job.id).count("begun") == 1
    assert "done" in site.text(job.id)


def test_next_agent_marks_a_dead_login_node_job_as_failed(site: Site) -> None:
    job = begun(site)
    site.service.close()
    keeper, script = (int(words(job)[at]) for at in (2, 4))
    os.kill(keeper, signal.SIGKILL)
    os.killpg(script, signal.SIGKILL)
    site.restart()
    job = site.wait(job.id)
    assert (job.state, job.inferred) == (JobState.FAILED, True)


def say_elsewhere(job: Job) -> None:
    """Mark the job's folder as run by another login node."""
    _, *rest = words(job)
    (Path(job.job_dir) / "submitted").write_text(" ".join(["login9", *rest]) + "\n")


@over_ssh
def test_job_on_another_login_node_keeps_running(site: Site) -> None:
    job = begun(site, _UNTIL_GO)
    site.service.close()
    say_elsewhere(job)
    service = site.restart()
    wait_until(lambda: service.job(job.id).why is not None)
    here = service.job(job.id)
    assert here.state is JobState.RUNNING
    assert here.why is not None
    service.cancel(job.id)
    assert "cannot be cancelled" in str(service.job(job.id).why or "")
    assert processes(job)
    (Path(job.job_dir) / "go").touch()
    assert site.wait(job.id).state is JobState.COMPLETED


@over_ssh
def test_login_node_job_started_twice_runs_once(site: Site) -> None:
    job = begun(site, '#!/bin/sh\necho begun >>"${0%/*}/ran"; echo begun; sleep 600')
    argv = [
        "sh",
        "-c",
        login_node._BEGIN_SH,
        "begin",
        login_node._KEEPER_SH,
        login_node._SCRIPT_SH,
        "1",
    ]
    transport = site.service._clusters.named(job.cluster).transport
    folder = PurePosixPath(job.job_dir)
    said = [transport.upload_and_run(folder, {}, argv) for _ in range(2)]
    assert {done.stdout for done in said} == {(Path(folder) / "submitted").read_bytes()}
    with ThreadPoolExecutor(4) as pool:
        other = folder.with_name("twice")
        files = {"job.sh": b"#!/bin/sh\necho ran >>ran\nsleep 1\necho >exit.0.json\n"}
        transport.upload_and_run(other, files, ["true"])
        done = list(pool.map(lambda _: transport.upload_and_run(other, {}, argv), range(4)))
    assert {one.stdout for one in done} == {(Path(other) / "submitted").read_bytes()}
    wait_until((Path(other) / "exit.0.json").exists)
    assert (Path(other) / "ran").read_text() == "ran\n"
    site.service.cancel(job.id)
    site.wait(job.id)
    assert (Path(folder) / "ran").read_text() == "begun\n"


def test_login_node_rejects_jobs_with_an_image(site: Site) -> None:
    with pytest.raises(RequestError):
        site.service.submit(spec("#!/bin/sh", kind=JobKind.PROGRAM, on_login=True, image="/"))


# --- images -----------------------------------------------------------------------------------


@pytest.fixture
def ground(
    request: pytest.FixtureRequest,
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    """Yield the ground of one engine. `test_images.py` checks the leftovers of builds."""
    base, setup = request.param(request)
    runtime = request.param.__name__
    folder = tmp_path / "our images"
    settings = {"image_dir": str(folder), "runtime": runtime, "setup": setup, "build_on": "login"}
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=way, **settings)
    yield Ground(site, runtime, base, folder)
    site.service.close()


@pytest.mark.parametrize(
    ("ground", "way"),
    [(charliecloud, "here"), (docker, "here"), (apptainer, "over ssh")],
    ids=["charliecloud", "docker", "apptainer over ssh"],
    indirect=True,
)
def test_image_is_built_on_the_login_node_or_the_failed_step_is_reported(
    ground: Ground, tmp_path: Path
) -> None:
    first = ground.build(ground.recipe(*MADE), options={"partition": "nowhere"})
    assert first.job is not None
    assert ground.site.service.job(first.job.id).slurm_id is None
    assert "jupyter-slurm: building" in ground.site.text(first.job.id)
    assert "The image mine is ready" in ground.site.text(first.job.id)
    assert ground.output_in("cat /opt/made") == "it's 42\n"
    assert ground.build(ground.recipe(*MADE)).job is None
    assert [path.name for path in ground.folder.glob(".*") if "partial" in path.name] == []
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "beside").write_text("taken along\n")
    taking = "COPY beside /opt/beside\n"
    if ground.runtime == "apptainer":
        taking = "%files\n    beside /opt/beside\n"
    copying = ground.recipe(taking=taking)
    ground.build(copying, name="copied", push=str(tmp_path / "files"))
    assert ground.output_in("cat /opt/beside", image="copied") == "taken along\n"
    one_that_is_not_made_says_where_it_failed(ground)


def one_that_is_not_made_says_where_it_failed(ground: Ground) -> None:
    job = ground.failed(ground.recipe("echo 'no luck' >&2; exit 3"), name="other")
    assert str(job.why).startswith("Image other was not built")
    assert "no luck" in ground.said(job)
