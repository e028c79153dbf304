"""Observations of a job that arrive in an unlucky order."""

from __future__ import annotations

import threading
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome import ending
from jupyter_slurm.jobs.outcome.ending import Ending
from jupyter_slurm.jobs.records.registry import JobRegistry, Store
from jupyter_slurm.jobs.watching.watcher import Watch
from jupyter_slurm.profiles.profile import Storage
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.jobs.records.test_registry import record
from tests.ssh.waiting import wait_until

FOLDER = JobDir(PurePosixPath("/jobs/aaaaaaaa"))


class Desk:
    """A JobRegistry with one running job, and a cluster that does not list the job."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.registry = JobRegistry(Store(folder))
        known: dict[str, Any] = {"state": JobState.RUNNING, "job_dir": str(FOLDER.path), **changes}
        self.registry.add(record(**known))
        self.transport = SimpleNamespace(
            read=lambda *_: b"", read_many=lambda spans: [None] * len(spans), exists=lambda _: True
        )
        profile = SimpleNamespace(poll_s=0.0, exit_grace_s=0.0, storage=Storage())
        what = SimpleNamespace(name="c", profile=profile, transport=self.transport)
        self.cluster = cast("SlurmCluster", what)
        self.watch = Watch(self.registry, self.cluster)

    @property
    def job(self) -> Job:
        return self.registry.job("aaaaaaaa")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_end_of_an_attempt_does_not_end_the_next_attempt(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted or reconnected agent finds both files at once."""
    settled: list[Job] = []
    monkeypatch.setattr(desk.watch, "settle", lambda job, _: settled.append(job))
    desk.transport.read = lambda *_: b'{"slurm_id": "1", "node": "n1", "time_s": 5}'
    wanted = desk.watch._files_wanted()
    for path in (FOLDER.started(1), FOLDER.exit(0)):
        desk.watch._saw(path, *wanted[path])
    assert (desk.job.restarts, desk.job.state, settled) == (1, JobState.RUNNING, [])


@pytest.mark.parametrize("said", ["RUNNING", "COMPLETING", "PENDING"])
def test_unlisted_job_continues_while_slurm_reports_its_state(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """squeue omits the job, as in a hidden partition or a truncated answer."""
    slurm_says(desk, said, monkeypatch)
    assert not Ending(desk.registry, desk.cluster, desk.job, None, threading.Event()).run()
    assert desk.job.state == said


@pytest.mark.parametrize(
    ("before", "state"),
    [("FAILED", JobState.FAILED), ("RUNNING", JobState.LOST), ("COMPLETED", JobState.COMPLETED)],
)
def test_state_of_an_ended_array_includes_its_purged_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, state: JobState
) -> None:
    desk = Desk(tmp_path, kind=JobKind.SCRIPT, tasks={before: "0-1", "PENDING": "2"})
    slurm_says(desk, "COMPLETED", monkeypatch, array_task_id="2")
    monkeypatch.setattr(ending, "note_paths", lambda *_: None)
    monkeypatch.setattr(ending, "ask_accounting", lambda *_: [])
    assert Ending(desk.registry, desk.cluster, desk.job, None, threading.Event()).run()
    assert desk.job.state is state
    assert ("Tasks 0-1 " in str(desk.job.why or "")) is (before != "COMPLETED")


def test_silent_session_is_reported_for_its_cells(tmp_path: Path) -> None:
    """The listing has no rows for a session's cells. Without a problem, their elapsed time would
    grow."""
    desk = Desk(tmp_path, kind=JobKind.SESSION)
    for job_id, session in (("bbbbbbbb", "aaaaaaaa"), ("cccccccc", None)):
        desk.registry.add(record(job_id, state=JobState.RUNNING, session=session))

    def lost(*_: object) -> None:
        raise ConnectionLostError("The connection dropped.")

    desk.transport.read = desk.transport.read_many = desk.transport.exists = lost
    desk.watch.settle(desk.job, None)
    wait_until(lambda: desk.registry.job("bbbbbbbb").problem is not None)
    desk.watch.close()
    found = {one.job.id: one.job.problem_since_s is not None for one in desk.registry.records()}
    assert found == {"aaaaaaaa": True, "bbbbbbbb": True, "cccccccc": False}


def slurm_says(
    desk: Desk, state: str, monkeypatch: pytest.MonkeyPatch, array_task_id: str | None = None
) -> None:
    desk.registry.change("aaaaaaaa", slurm_id="1")
    row = SimpleNamespace(
        state=state,
        array_task_id=array_task_id,
        requeues=0,
        stdout=None,
        stderr=None,
        exit_code=0,
        exit_signal=0,
        end_s=9.0,
        nodelist="n1",
    )
    monkeypatch.setattr(ending, "ask_jobs", lambda *_: [row])
