"""Failures of jobs and clusters, each with its state and message."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_slurm.commands.steering import steer_each
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.wire import JobKind, JobState
from tests.jobs.conftest import IMPATIENT, Site, over_ssh, spec
from tests.ssh.waiting import wait_until

LONG = "import time\nprint('up', flush=True)\ntime.sleep(600)"
SAVES = """
import time
print('up', flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    saved = 42
    print('saved')
"""

MakeSite = Callable[..., Site]


def running(site: Site, code: str = LONG, **changes: object) -> str:
    """Return the ID of a job after its cell has printed the first line."""
    job = site.service.submit(spec(code, **changes))
    cursor, text = "", ""
    while "up" not in text:
        chunk = site.service.logs(job.id, cursor, wait_s=30)
        cursor = chunk.cursor
        text += "".join(getattr(output, "text", "") for output in chunk.outputs)
        assert "up" in text or not chunk.end, (chunk.job, text)
    return job.id


# --- the controller ---


@over_ssh
def test_recovered_controller_gets_each_job_once_and_then_cancellations(
    private_site: MakeSite,
) -> None:
    site = private_site(**IMPATIENT)
    asked, unwanted = spec("print('ran')"), spec(LONG)
    site.cluster.stop_controller()
    submitting = [
        threading.Thread(target=site.service.submit, args=(one,)) for one in (asked, unwanted)
    ]
    for one in submitting:
        one.start()
    # sbatch is killed at the profile's timeout, with its request in the controller's queue.
    wait_until(
        lambda: {job.id for job in site.service.jobs() if job.problem} == {asked.id, unwanted.id}
    )
    assert site.service.job(asked.id).state is JobState.SUBMITTING
    assert site.service.cancel(unwanted.id).state is JobState.SUBMITTING
    site.cluster.cont_controller()
    assert site.wait(asked.id).state is JobState.COMPLETED
    assert site.wait(unwanted.id).state is JobState.CANCELLED
    for one in submitting:
        one.join()
    assert site.text(asked.id) == "ran\n"
    assert len(site.slurm_jobs()) == 2


@over_ssh
def test_next_agent_also_waits_for_a_dead_controller(
    private_site: MakeSite,
) -> None:
    site = private_site(**IMPATIENT)
    site.cluster.kill_controller()
    cut_off, asked = spec("print('ran')"), spec("print('ran')")
    threading.Thread(target=site.service.submit, args=(cut_off,), daemon=True).start()
    wait_until(lambda: bool(site.service.jobs()))
    site.restart()
    submitting = threading.Thread(target=site.service.submit, args=(asked,))
    submitting.start()
    wait_until(
        lambda: {job.id for job in site.service.jobs() if job.problem} == {cut_off.id, asked.id}
    )
    problem = site.service.job(asked.id).problem
    assert problem is not None
    assert problem.code == "controller"
    assert problem.hint
    site.cluster.start_controller()
    for one in (cut_off, asked):
        assert site.wait(one.id).state is JobState.COMPLETED
    submitting.join()
    assert len(site.slurm_jobs()) == 2


@over_ssh
def test_job_waits_until_the_profile_names_slurm_conf(
    site: Site,
) -> None:
    site.edit_profile(env={})
    job = site.service.submit(spec("print('ran')"))
    assert job.problem is not None
    assert job.state is JobState.SUBMITTING
    assert "SLURM_CONF" in str(job.problem.hint or "")
    unwanted = site.service.submit(spec(LONG))
    assert site.service.cancel(unwanted.id).state is JobState.CANCELLED
    since_s = site.service.connections()[0].since_s
    site.edit_profile()
    assert site.wait(job.id).state is JobState.COMPLETED
    assert site.text(job.id) == "ran\n"
    assert len(site.slurm_jobs()) == 1
    # The connection stayed open, so no second login was needed.
    assert site.service.connections()[0].since_s == since_s


def test_unresponsive_controller_is_reported_and_does_not_end_jobs(
    private_site: MakeSite,
) -> None:
    site = private_site(**IMPATIENT)
    job_id = running(site)
    ends = running(site, "import time\nprint('up', flush=True)\ntime.sleep(1)\n6 * 7")
    site.cluster.kill_controller()
    assert site.wait(ends).state is JobState.COMPLETED
    wait_until(lambda: site.service.job(job_id).problem is not None)
    job = site.service.job(job_id)
    assert job.state is JobState.RUNNING
    assert job.problem_since_s is not None
    site.cluster.start_controller()
    wait_until(lambda: site.service.job(job_id).problem is None)
    site.service.cancel(job_id)
    assert site.wait(job_id).state is JobState.CANCELLED


def test_another_users_job_with_a_reused_id_is_not_changed(
    private_site: MakeSite,
) -> None:
    """A controller that has lost its state reuses job IDs."""
    site = private_site(nodes=1)
    waits = site.service.submit(spec("1", options={"hold": ""}))
    waits = site.wait(waits.id, JobState.PENDING)
    runs = site.service.job(running(site))
    theirs = _ids_given_out_anew(site, waits.slurm_id, runs.slurm_id)
    [(_, told)] = steer_each(site.service, "cancel", [waits.id])
    assert "cancellation requested" not in str(told)
    site.service.cancel(waits.id)
    queue = site.service.queue()
    assert {row.slurm_id: row.id for row in queue} == dict.fromkeys(theirs)
    ended = site.wait(waits.id)
    assert (ended.state, ended.inferred) == (JobState.CANCELLED, True)
    lost = site.wait(runs.id)
    assert (lost.state in (JobState.CANCELLED, JobState.LOST), lost.inferred) == (True, True)
    assert "cancelled" not in str(lost.why or ""), "the user who cancelled it is unknown"
    assert {site.cluster.job_state(one) for one in theirs} == {"PENDING"}
    assert not set(theirs) & set(site.service.details(runs.id).record.values())


def _ids_given_out_anew(site: Site, *slurm_ids: str | None) -> list[str]:
    """Delete the controller's state. Submit held jobs of another user, which get these IDs."""
    site.cluster.kill_controller()
    shutil.rmtree(site.cluster.daemons.paths.state)
    site.cluster.daemons.paths.state.mkdir()
    site.cluster.start_controller()
    hold = ("--hold", "--output=/dev/null")
    theirs = [site.cluster.submit(*hold, stdin="#!/bin/sh\n") for _ in slurm_ids]
    assert theirs == list(slurm_ids)
    return theirs


# --- ended by Slurm or the user ---


def test_cancelled_cell_can_save_and_return_variables(site: Site) -> None:
    job_id = running(site, SAVES, names_out=("saved",))
    site.service.cancel(job_id)
    site.wait(job_id)
    assert "saved" in site.text(job_id)
    assert site.service.result(job_id).names == ("saved",)


def test_signal_before_the_time_limit_interrupts_the_cell(site: Site) -> None:
    job_id = running(site, SAVES, names_out=("saved",), options={"signal": "USR1@60"})
    slurm_id = site.service.job(job_id).slurm_id or ""
    site.cluster.run("scancel", "--batch", "--signal=USR1", slurm_id)
    job = site.wait(job_id)
    assert job.state is JobState.COMPLETED
    assert "SIGUSR1" in (job.warning or "")
    assert "saved" in site.text(job_id)


def test_job_beyond_its_time_limit_ends_as_timeout(site: Site) -> None:
    job_id = running(site, options={"time": "1"})
    site.cluster.end_time_of(site.service.job(job_id).slurm_id or "")
    job = site.wait(job_id, limit_s=150)
    assert job.state is JobState.TIMEOUT
    assert "time limit" in str(job.why or "").lower()
    assert job.advice


def test_job_beyond_its_memory_limit_ends_as_out_of_memory(site: Site) -> None:
    code = "import time\nprint('up', flush=True)\nhog = b'x' * (600 << 20)\ntime.sleep(60)"
    job_id = running(site, code, options={"mem": "100M"})
    job = site.wait(job_id)
    assert job.state is JobState.OUT_OF_MEMORY
    assert "memory" in str(job.why or "")
    assert "--mem" in str(job.advice or "")


def test_held_job_shows_the_reason_and_runs_when_released(site: Site) -> None:
    job = site.service.submit(spec("print(1)", options={"hold": ""}))
    wait_until(lambda: site.service.job(job.id).reason is not None)
    held = site.service.job(job.id)
    assert held.state is JobState.PENDING
    assert held.reason == "JobHeldUser"
    assert "On hold" in str(held.why or "")
    site.service.release(job.id)
    assert site.wait(job.id).state is JobState.COMPLETED


def test_requeued_job_runs_again_and_marks_its_output(site: Site) -> None:
    code = (
        "import os, time\n"
        "attempt = os.environ.get('SLURM_RESTART_COUNT', '0')\n"
        "print('up', attempt, flush=True)\n"
        "if attempt == '0': time.sleep(600)\n"
        "attempt"
    )
    job_id = running(site, code, options={"requeue": ""}, names_out=("attempt",))
    slurm_id = site.service.job(job_id).slurm_id or ""
    site.service.requeue(job_id)
    site.wait(job_id, JobState.REQUEUED, JobState.PENDING)
    # Slurm delays a requeued job by two minutes. The test changes the start time, but not to the
    # second of the job's end, because slurmd treats credentials of that second as revoked.
    site.cluster.run("scontrol", "update", f"JobId={slurm_id}", "StartTime=now+3")
    job = site.wait(job_id, limit_s=180)
    assert (job.state, job.restarts) == (JobState.COMPLETED, 1)
    assert site.text(job_id) == "up 0\nup 1\n"
    assert "attempt 2" in site.text(job_id, "stderr")


# --- disks ---


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 400 KiB, little more than a job needs."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_full_disk_at_submission_submits_nothing(
    slurm_cluster: object, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(slurm_cluster, tmp_path / "s", monkeypatch, job_root=str(small_disk / "jobs"))  # type: ignore[arg-type]
    (small_disk / "filler").write_bytes(b"x" * (300 << 10))
    asked = spec("'" + "x" * 100_000 + "'")
    with pytest.raises(JupyterSlurmError):
        site.service.submit(asked)
    assert site.slurm_jobs() == []
    site.service.close()


def test_full_disk_during_a_job_is_reported(
    slurm_cluster: object, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(slurm_cluster, tmp_path / "s", monkeypatch, job_root=str(small_disk / "jobs"))  # type: ignore[arg-type]
    job = site.run("print('up', flush=True)\nfor _ in range(100): print('x' * 10_000)")
    # A disk that is full at the runner's last record fails the job. Shortly before, it only loses
    # output.
    assert job.state is JobState.FAILED or job.warning
    assert "disk" in f"{job.why} {job.advice} {job.warning}"
    assert site.text(job.id).startswith("up\n")
    site.service.close()


# --- jobs purged by Slurm; `test_accounting.py` tests those with accounting ---


def test_purged_jobs_are_lost_unless_their_files_show_the_end(
    private_site: MakeSite, tmp_path: Path
) -> None:
    site = private_site(extra_conf=("MinJobAge=2",))
    good, bad = site.service.submit(spec("6 * 7")), site.service.submit(spec("1 / 0"))
    waits = f"#!/bin/sh\nuntil [ -e '{tmp_path}/unwatched' ]; do sleep 0.1; done"
    script = site.service.submit(spec(waits, kind=JobKind.SCRIPT))
    cancelled = site.service.submit(spec("1", options={"hold": ""}))
    site.service.close()
    (tmp_path / "unwatched").touch()
    site.cluster.run("scancel", cancelled.slurm_id or "")
    site.wait_until_slurm_forgets()
    site.restart()
    assert site.wait(good.id).state is JobState.COMPLETED
    assert site.wait(bad.id).state is JobState.FAILED
    assert site.service.result(bad.id).ename == "ZeroDivisionError"
    assert site.wait(script.id).state is JobState.LOST
    never = site.wait(cancelled.id)
    assert (never.state, never.inferred) == (JobState.LOST, True)
    assert "no trace of a start" in str(never.why or "")


# --- restarts ---


@over_ssh
def test_restarted_service_resumes_a_running_job(site: Site) -> None:
    job_id = running(site, "import time\nprint('up', flush=True)\ntime.sleep(2)\n6 * 7")
    site.restart()
    assert site.wait(job_id).state is JobState.COMPLETED
    assert site.text(job_id) == "up\n"
