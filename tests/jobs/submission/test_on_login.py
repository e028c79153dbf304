"""Jobs that run on the login machine: begun once, told to end, found again, on real machines; and
images that are made there by the real tools."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import psutil
import pytest

from jupyter_slurm.errors import ConnectionLostError, RequestError
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission import on_login
from jupyter_slurm.jobs.watching.watcher import Watch
from jupyter_slurm.slurm.fields import SLURM_ENV
from jupyter_slurm.wire import ImageSpec, Job, JobKind, JobSpec, JobState
from tests.cluster.plugin import SlurmCluster
from tests.jobs.cluster.test_images import ENDLESS, MADE, Ground, apptainer, charliecloud, docker
from tests.jobs.conftest import Site, both_ways, over_ssh, spec
from tests.ssh.processes import runs, words_of
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

_FOREVER = "#!/bin/sh\necho begun\nwhile :; do sleep 1; done"
_UNTIL_GO = '#!/bin/sh\necho begun\nwhile [ ! -e "${0%/*}/go" ]; do sleep 0.1; done\n'
_STUBBORN = "#!/bin/sh\ntrap '' TERM\necho begun\nwhile :; do sleep 1; done"


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """However a test went, what its jobs ran ends with it."""
    yield
    left = [one for one in psutil.process_iter() if str(tmp_path) in str(words_of(one))]
    for one in left:
        with suppress(psutil.Error):
            one.kill()
    psutil.wait_procs(left, 60)


def program(code: str) -> JobSpec:
    return spec(code, kind=JobKind.PROGRAM, runtime="none", on_login=True)


def begun(site: Site, code: str = _FOREVER) -> Job:
    """A job whose program has said so."""
    job = site.service.submit(program(code))
    wait_until(lambda: "begun" in site.so_far(job.id), 60)
    return site.wait(job.id, JobState.RUNNING)


def words(job: Job) -> list[str]:
    """HOST BOOT KEEPER BEGAN PID BEGAN."""
    return (Path(job.job_dir) / "submitted").read_text().split()


def processes(job: Job) -> list[psutil.Process]:
    """The keeper's, and all of the script's group."""
    keeper, group = int(words(job)[2]), int(words(job)[4])
    found = []
    for pid in psutil.pids():
        try:
            if pid == keeper or os.getpgid(pid) == group:
                found.append(psutil.Process(pid))
        except (ProcessLookupError, psutil.Error):
            continue
    return [one for one in found if runs(one)]


@both_ways
def test_it_runs_on_the_login_machine_and_slurm_never_hears_of_it(site: Site) -> None:
    job = site.service.submit(program("#!/bin/sh\necho hello; umask; nice"))
    job = site.wait(job.id)
    assert (job.state, job.why) == (JobState.COMPLETED, "It has ended well.")
    assert job.slurm_id is None
    assert job.nodes == (os.uname().nodename,)
    assert job.started_s is not None
    text = site.text(job.id)
    assert "hello" in text
    below_ours = str(min(os.nice(0) + 10, 19))
    assert text.splitlines()[-2:] == ["0022", below_ours]  # what is in an image is for everybody
    assert site.slurm_jobs() == []
    assert "sbatch" not in str(site.service.status().commands)
    wait_until(lambda: not processes(job), 60)
    with pytest.raises(RequestError, match="nothing to hold"):
        site.service.hold(job.id)
    site.service.forget(job.id)
    assert not Path(job.job_dir).exists()


@both_ways
def test_it_gets_the_profiles_environment_and_nothing_of_our_own_calls(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SLURM_ENV:
        monkeypatch.delenv(name, raising=False)
    site.edit_profile(env={"SLURM_CONF": site.cluster.env["SLURM_CONF"], "LC_ALL": "POSIX"})
    site.restart()
    job = site.wait(site.service.submit(program("#!/bin/sh\nenv")).id)
    found = dict(line.split("=", 1) for line in site.text(job.id).splitlines() if "=" in line)
    assert {name: found.get(name) for name in SLURM_ENV} == {
        "LC_ALL": "POSIX",
        "SLURM_BITSTR_LEN": None,
        "SLURM_TIME_FORMAT": None,
    }


def test_a_program_that_fails_gives_its_exit_code(site: Site) -> None:
    job = site.service.submit(program("#!/bin/sh\necho no >&2; exit 7"))
    job = site.wait(job.id)
    assert (job.state, job.exit_code) == (JobState.FAILED, 7)


@over_ssh
def test_cancelling_ends_all_of_it(site: Site) -> None:
    job = begun(site)
    assert processes(job)
    site.service.cancel(job.id)
    job = site.wait(job.id)
    assert (job.state, job.why) == (JobState.CANCELLED, "Cancelled by you.")
    wait_until(lambda: not processes(job), 60)


def test_what_does_not_end_when_it_is_told_to_is_killed(site: Site) -> None:
    job = begun(site, _STUBBORN)
    site.service.cancel(job.id)
    site.service.cancel(job.id)
    job = site.wait(job.id)
    assert (job.state, job.why) == (JobState.CANCELLED, "Cancelled by you.")
    wait_until(lambda: not processes(job), 60)


@over_ssh
def test_one_that_is_cancelled_before_it_is_begun_never_runs(site: Site) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = program(_FOREVER)
        answer = pool.submit(site.service.submit, asked)
        wait_until(lambda: any(one.id == asked.id for one in site.service.jobs()))
        site.service.cancel(asked.id)
        answer.result()
    job = site.wait(asked.id)
    assert job.state is JobState.CANCELLED


def test_a_killed_group_is_told_at_once_and_with_the_reason(site: Site) -> None:
    job = begun(site)
    os.killpg(int(words(job)[4]), signal.SIGKILL)
    job = site.wait(job.id)
    assert (job.state, job.exit_code) == (JobState.FAILED, 137)
    host = os.uname().nodename
    assert str(job.why) == (
        f"It was ended on the login machine {host} by a signal (SIGKILL), and not from here."
    )
    assert job.advice is not None
    assert 'build_on = "job"' in str(job.advice)
    wait_until(lambda: not processes(job), 60)


def test_one_that_somebody_else_ends_is_not_cancelled(site: Site) -> None:
    job = begun(site)
    os.kill(int(words(job)[2]), signal.SIGTERM)
    job = site.wait(job.id)
    assert job.state is JobState.FAILED
    assert job.why is not None
    assert "(SIGTERM), and not from here" in str(job.why)


@over_ssh
def test_it_is_found_again_by_the_next_agent(site: Site) -> None:
    job = begun(site, _UNTIL_GO + "echo done")
    service = site.restart()
    assert service.job(job.id).state is JobState.RUNNING
    (Path(job.job_dir) / "go").touch()
    assert site.wait(job.id).state is JobState.COMPLETED
    assert site.text(job.id).count("begun") == 1
    assert "done" in site.text(job.id)


def test_one_of_which_nothing_is_left_is_found_out_by_the_next_agent(site: Site) -> None:
    job = begun(site)
    site.service.close()
    keeper, script = (int(words(job)[at]) for at in (2, 4))
    os.kill(keeper, signal.SIGKILL)
    os.killpg(script, signal.SIGKILL)
    site.restart()
    job = site.wait(job.id)
    assert (job.state, job.inferred) == (JobState.FAILED, True)
    host = os.uname().nodename
    assert str(job.why) == (
        f"It was killed on the login machine {host}, or that was started anew: it left no word of "
        "how it ended."
    )


def test_a_machine_that_was_started_anew_has_none_of_its_processes(site: Site) -> None:
    job = begun(site)
    old = [psutil.Process(int(words(job)[at])) for at in (2, 4)]
    site.service.close()
    host, _, *rest = words(job)
    (Path(job.job_dir) / "submitted").write_text(" ".join([host, "another-boot", *rest]) + "\n")
    site.restart()
    assert site.wait(job.id).state is JobState.FAILED
    assert all(one.is_running() for one in old)  # strangers, as far as anybody knows
    old[1].kill()
    wait_until(lambda: not old[0].is_running())


def say_elsewhere(job: Job) -> None:
    """Have its folder say that another login machine runs it."""
    _, *rest = words(job)
    (Path(job.job_dir) / "submitted").write_text(" ".join(["login9", *rest]) + "\n")


@over_ssh
def test_from_another_login_machine_it_is_waited_for(site: Site) -> None:
    job = begun(site, _UNTIL_GO)
    site.service.close()
    say_elsewhere(job)
    service = site.restart()
    wait_until(lambda: service.job(job.id).why is not None)
    here = service.job(job.id)
    assert here.state is JobState.RUNNING
    assert here.why is not None
    assert "the connection leads to" in str(here.why)
    service.cancel(job.id)
    assert "cannot be cancelled" in str(service.job(job.id).why or "")
    assert processes(job)
    (Path(job.job_dir) / "go").touch()
    assert site.wait(job.id).state is JobState.COMPLETED


@over_ssh
def test_one_that_is_taken_up_is_looked_at_whenever_its_agent_was_woken(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its watcher began to watch, too, which then knew nothing of it."""
    wanted = Watch._files_wanted

    def woken_before(self: Watch) -> Any:
        self._files_wake.wait(1.0)
        self._files_wake.clear()
        return wanted(self)

    job = begun(site, _UNTIL_GO)
    site.service.close()
    say_elsewhere(job)
    monkeypatch.setattr(Watch, "_files_wanted", woken_before)
    service = site.restart()
    wait_until(lambda: service.job(job.id).why is not None, 60)
    (Path(job.job_dir) / "go").touch()
    assert site.wait(job.id).state is JobState.COMPLETED


@over_ssh
def test_what_a_look_has_shown_stays_when_its_files_are_seen_after_it(site: Site) -> None:
    """Over SSH an agent that takes one up looks first, and then hears that it has started."""
    job = begun(site, _UNTIL_GO)
    say_elsewhere(job)
    clusters = site.service._clusters
    cluster = clusters.named(job.cluster)
    assert on_login.look(site.service._book, cluster) == []
    shown = site.service.job(job.id)
    assert "it runs on the login machine" in str(shown.why or "")
    started = JobDir(PurePosixPath(job.job_dir)).started(0)
    clusters.watch(cluster)._started(job.id, started)
    assert site.service.job(job.id) == shown
    (Path(job.job_dir) / "go").touch()
    assert site.wait(job.id).state is JobState.COMPLETED


@over_ssh
def test_a_look_that_failed_when_one_was_taken_up_is_repeated(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has to grow for that, and nobody to wake the agent."""
    look = on_login.look
    failures = iter(range(2))

    def failing(*args: Any) -> list[Job]:
        if next(failures, None) is None:
            return look(*args)
        raise ConnectionLostError("The login machine does not answer.")

    job = begun(site, _UNTIL_GO)
    site.service.close()
    say_elsewhere(job)
    monkeypatch.setattr(on_login, "look", failing)
    service = site.restart()
    wait_until(lambda: service.job(job.id).why is not None, 60)
    assert service.job(job.id).problem is None
    (Path(job.job_dir) / "go").touch()
    assert site.wait(job.id).state is JobState.COMPLETED


@over_ssh
def test_what_is_begun_twice_runs_once(site: Site) -> None:
    job = begun(site, '#!/bin/sh\necho begun >>"${0%/*}/ran"; echo begun; sleep 600')
    argv = ["sh", "-c", on_login._BEGIN_SH, "begin", on_login._KEEPER_SH, on_login._SCRIPT_SH, "1"]
    transport = site.service._clusters.named(job.cluster).transport
    folder = PurePosixPath(job.job_dir)
    said = [transport.deliver(folder, {}, argv) for _ in range(2)]
    assert {done.stdout for done in said} == {(Path(folder) / "submitted").read_bytes()}
    with ThreadPoolExecutor(4) as pool:
        other = folder.with_name("twice")
        files = {"job.sh": b"#!/bin/sh\necho ran >>ran\nsleep 1\necho >exit.0.json\n"}
        transport.deliver(other, files, ["true"])
        done = list(pool.map(lambda _: transport.deliver(other, {}, argv), range(4)))
    assert {one.stdout for one in done} == {(Path(other) / "submitted").read_bytes()}
    wait_until((Path(other) / "exit.0.json").exists)
    assert (Path(other) / "ran").read_text() == "ran\n"
    site.service.cancel(job.id)
    site.wait(job.id)
    assert (Path(folder) / "ran").read_text() == "begun\n"


def test_nothing_else_is_run_there(site: Site) -> None:
    with pytest.raises(RequestError, match="images are made"):
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
    """Of one engine; what is left by each that fails or is cancelled, `test_images.py` shows."""
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
def test_an_image_is_made_on_the_login_machine_for_the_nodes_or_it_says_where_that_failed(
    ground: Ground, tmp_path: Path
) -> None:
    first = ground.build(ground.recipe(*MADE), options={"partition": "nowhere"})
    assert first.job is not None
    assert ground.site.service.job(first.job.id).slurm_id is None
    assert "jupyter-slurm: building" in ground.site.text(first.job.id)
    assert "The image mine is there" in ground.site.text(first.job.id)
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
    assert str(job.why).startswith("The image other was not made: it failed while building.")
    assert "no luck" in ground.said(job)


@pytest.mark.parametrize("ground", [docker, apptainer], ids=["docker", "apptainer"], indirect=True)
def test_two_ask_at_once_and_cancelling_ends_the_one_that_is_made(ground: Ground) -> None:
    recipe = ground.recipe(*ENDLESS)
    with ThreadPoolExecutor(2) as pool:
        asked = [ground.image_spec(recipe) for _ in range(2)]
        first, second = pool.map(ground.site.service.make_image, asked)
    assert first.job is not None
    assert second.job is not None
    job_id = first.job.id
    assert job_id == second.job.id
    wait_until(lambda: "\nbegun\n" in ground.so_far(job_id), 120)
    ground.site.service.cancel(job_id)
    job = ground.site.wait(job_id)
    assert job.state is JobState.CANCELLED
    wait_until(lambda: not processes(job), 60)
    wait_until(lambda: [one.name for one in ground.folder.iterdir()] == [".mine.lock"], 60)


def test_pyxis_makes_its_images_in_jobs_all_the_same(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch, runtime="pyxis", build_on="login")
    try:
        asked = ImageSpec(id=spec("").id, base="ubuntu:22.04", options={"hold": ""})
        build = site.service.make_image(asked)
        assert build.job is not None
        assert build.job.slurm_id is not None
        site.service.cancel(build.job.id)
    finally:
        site.service.close()
