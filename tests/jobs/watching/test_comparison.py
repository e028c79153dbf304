"""What listings of the queue make of many jobs: little work, where little has happened."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.outcome import array_tasks
from jupyter_slurm.jobs.outcome.allocation import Allocation
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.store import Record, Store
from jupyter_slurm.jobs.watching import comparison
from jupyter_slurm.jobs.watching.comparison import Comparison
from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.wire import Job, JobKind, JobState, Problem, Usage
from tests.jobs.crowd import listed
from tests.jobs.records.test_book import record
from tests.specs import of_kind
from tests.ssh.waiting import wait_until

MANY = 60


class Notes:
    """Who watches, and what came to be known."""

    def __init__(self) -> None:
        self.settled: list[str] = []

    def stirred(self) -> None: ...

    def files_changed(self) -> None: ...

    def is_ending(self, job_id: str) -> bool:
        return job_id in self.settled

    def settle(self, job: Job, row: QueueRow | None) -> None:
        self.settled.append(job.id)


class Compared:
    """A Book of many jobs that wait or run, and what listings make of them."""

    def __init__(self, folder: Path) -> None:
        self.book = Book(Store(folder))
        for number in range(MANY):
            fields: dict[str, Any] = {"usage": Usage(cpus=1), "submitted_s": 1.0}
            self.book.add(record(f"job{number:05}", slurm_id=str(1_000_000 + number), **fields))
        self.profile = SimpleNamespace(lost_after_s=0.0)
        cluster = cast("SlurmCluster", SimpleNamespace(name="c", profile=self.profile))
        self.notes = Notes()
        self.comparison = Comparison(self.book, cluster, self.notes)

    def compare(self, output: bytes) -> None:
        jobs = [one.job for one in self.book.live("c")]
        self.comparison.compare(jobs, squeue.parse(output), time.time())


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    return Compared(tmp_path)


def test_a_listing_in_which_only_time_has_passed_changes_and_saves_nothing(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared.compare(listed(MANY))
    states = [one.job.state for one in compared.book.live("c")]
    assert states.count(JobState.RUNNING) == states.count(JobState.PENDING) == MANY // 2
    saved: list[Record] = []
    before = compared.book.revision
    monkeypatch.setattr(compared.book.store, "save", saved.append)
    compared.compare(listed(MANY, seconds_later=30))
    assert (compared.book.revision, saved, compared.notes.settled) == (before, [], [])


def test_only_those_that_have_changed_are_saved(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared.compare(listed(MANY))
    saved: list[str] = []
    monkeypatch.setattr(compared.book.store, "save", lambda one: saved.append(one.job.id))
    compared.compare(listed(MANY).replace(b"QOSMaxJobsPerUserLimit", b"AssocGrpCpuLimit"))
    assert 0 < len(saved) < MANY // 4
    reasons = {compared.book.job(job_id).reason for job_id in saved}
    assert reasons == {"AssocGrpCpuLimit"}


def test_one_that_was_renamed_in_a_terminal_has_its_new_name(compared: Compared) -> None:
    compared.compare(listed(MANY).replace("train-1-ä".encode(), b"job00001.job00001"))
    assert compared.book.job("job00001").name == "job00001", "our id is no part of it"
    compared.compare(listed(MANY))
    assert compared.book.job("job00001").name == "train-1-ä"


def test_one_that_was_forgotten_meanwhile_is_passed_over(compared: Compared) -> None:
    jobs = [one.job for one in compared.book.live("c")]
    compared.book.remove(jobs[0].id)
    compared.comparison.compare(jobs, squeue.parse(listed(MANY)), time.time())
    assert {one.job.state for one in compared.book.live("c")} == {
        JobState.RUNNING,
        JobState.PENDING,
    }


def test_one_that_is_listed_no_more_is_settled_in_the_end(compared: Compared) -> None:
    compared.compare(listed(MANY))
    compared.compare(listed(MANY - 1))
    assert compared.notes.settled == [f"job{MANY - 1:05}"]


def test_of_one_that_has_ended_otherwise_nothing_is_remembered(compared: Compared) -> None:
    compared.compare(listed(MANY))
    compared.profile.lost_after_s = 60.0
    compared.compare(listed(MANY - 1))
    compared.book.change(f"job{MANY - 1:05}", state=JobState.COMPLETED)
    compared.compare(listed(MANY - 1))
    assert compared.comparison._absent_since_s == {}


def test_what_a_job_was_given_is_kept_when_its_files_tell_meanwhile_that_it_runs(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(_: SlurmCluster, slurm_id: str) -> Allocation:
        asked.append(slurm_id)
        compared.book.change("job00002", state=JobState.RUNNING)
        return Allocation(Usage(cpus=3), 4, None)

    monkeypatch.setattr(comparison, "ask_allocation", ask)
    compared.book.change("job00002", usage=None)
    for seconds_later in (0, 30):
        compared.compare(listed(MANY, seconds_later=seconds_later))
    assert compared.book.job("job00002").usage == Usage(cpus=3)
    assert len(asked) == 1


def test_what_a_row_says_of_an_attempt_is_not_said_of_the_next(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared.compare(listed(MANY))
    again: dict[str, Any] = {"restarts": 1, "started_s": 9.0, "nodes": ("other",)}

    def begins_again(_: SlurmCluster, __: Record) -> Allocation:
        compared.book.change("job00002", **again)
        return Allocation(Usage(cpus=3), 4, None)

    monkeypatch.setattr(comparison, "ask_allocation", begins_again)
    compared.book.change("job00002", usage=None)
    compared.compare(listed(MANY))
    job = compared.book.job("job00002")
    assert {name: getattr(job, name) for name in again} == again
    assert job.usage == Usage(cpus=3)


def test_how_the_tasks_of_an_array_ended_is_not_undone_by_an_older_listing(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged, ended = array_tasks.merged, {"COMPLETED": "1"}
    end = {"state": JobState.COMPLETED, "tasks": ended}

    def end_meanwhile(*told: Any) -> dict[str, str]:
        other = threading.Thread(target=compared.book.change, args=["job00002"], kwargs=end)
        other.start()
        other.join(0.5)  # it waits for the lock, where that is held
        return merged(*told)

    monkeypatch.setattr(array_tasks, "merged", end_meanwhile)
    row = squeue.parse(listed(3))[2]
    row = row._replace(array_job_id=row.slurm_id, array_task_id="1")
    compared.comparison.compare([compared.book.job("job00002")], [row], time.time())
    wait_until(lambda: compared.book.job("job00002").state.final)
    assert compared.book.job("job00002").tasks == ended


@pytest.mark.parametrize(
    ("tasks", "reason", "state"),
    [
        ({"1": "RUNNING", "2": "PENDING"}, "JobArrayTaskLimit", JobState.RUNNING),
        ({"1": "COMPLETING", "2": "RUNNING", "3": "PENDING"}, "Resources", JobState.RUNNING),
        ({"1": "COMPLETED", "2": "PENDING"}, "Resources", JobState.RUNNING),
        ({"1": "FAILED", "2": "REQUEUED", "3": "PENDING"}, "Priority", JobState.RUNNING),
        ({"1": "COMPLETED", "2": "SUSPENDED", "3": "PENDING"}, "Priority", JobState.SUSPENDED),
        ({"1": "COMPLETED", "2": "PENDING"}, "JobHeldUser", JobState.PENDING),
        ({"1": "CANCELLED", "2": "PENDING"}, "Priority", JobState.PENDING),
        ({"1": "PENDING", "2": "PENDING"}, "Priority", JobState.PENDING),
    ],
)
def test_array_runs_from_its_first_task_to_its_last_unless_the_rest_is_held(
    compared: Compared, tasks: dict[str, str], reason: str, state: JobState
) -> None:
    job = compared.book.job("job00001")
    [row] = [one for one in squeue.parse(listed(2)) if one.slurm_id == job.slurm_id]
    rows = [
        row._replace(
            slurm_id=f"{row.slurm_id}_{task}",
            array_job_id=row.slurm_id,
            array_task_id=task,
            state=told,
            reason=reason if told == "PENDING" else "None",
        )
        for task, told in tasks.items()
    ]
    compared.book.change(job.id, state=JobState.RUNNING, started_s=1.0)
    compared.comparison.compare([compared.book.job(job.id)], rows, time.time())
    now = compared.book.job(job.id)
    assert (now.state, now.started_s) == (state, 1.0)
    if "RUNNING" not in tasks.values():
        assert now.reason in (reason, None)


def test_why_a_cell_was_refused_stays_though_its_session_is_listed(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(code="submit", message="The session has ended.")
    record = compared.book.record("job00002")
    record.job = of_kind(JobKind.SESSION, record.job)
    compared.book.change("job00004", session="job00002", slurm_id=None)

    def refused_meanwhile(_: Job) -> None:
        compared.book.change("job00004", state=JobState.REJECTED, problem=problem)

    monkeypatch.setattr(comparison, "ends_s", refused_meanwhile)
    rows = squeue.parse(listed(3))
    compared.comparison.compare([compared.book.job("job00002")], rows, time.time())
    assert compared.book.job("job00004").problem == problem
