"""Comparison of queue listings with the records of many jobs."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store
from jupyter_slurm.jobs.watching.comparison import Comparison
from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.wire import Job, JobState, Usage
from tests.jobs.crowd import listed
from tests.jobs.records.test_registry import record

MANY = 60


class Notes:
    """A watcher that records settled jobs."""

    def __init__(self) -> None:
        self.settled: list[str] = []

    def stirred(self) -> None: ...

    def files_changed(self) -> None: ...

    def is_ending(self, job_id: str) -> bool:
        return job_id in self.settled

    def settle(self, job: Job, row: QueueRow | None) -> None:
        self.settled.append(job.id)


class Compared:
    """A JobRegistry of many live jobs, and its Comparison."""

    def __init__(self, folder: Path) -> None:
        self.registry = JobRegistry(Store(folder))
        for number in range(MANY):
            fields: dict[str, Any] = {"usage": Usage(cpus=1), "submitted_s": 1.0}
            self.registry.add(record(f"job{number:05}", slurm_id=str(1_000_000 + number), **fields))
        self.profile = SimpleNamespace(lost_after_s=0.0)
        cluster = cast("SlurmCluster", SimpleNamespace(name="c", profile=self.profile))
        self.notes = Notes()
        self.comparison = Comparison(self.registry, cluster, self.notes)

    def compare(self, output: bytes) -> None:
        jobs = [one.job for one in self.registry.live("c")]
        self.comparison.compare(jobs, squeue.parse(output), time.time())


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    return Compared(tmp_path)


def test_same_listing_does_not_change_or_save_jobs(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared.compare(listed(MANY))
    states = [one.job.state for one in compared.registry.live("c")]
    assert states.count(JobState.RUNNING) == states.count(JobState.PENDING) == MANY // 2
    saved: list[Record] = []
    before = compared.registry.revision
    monkeypatch.setattr(compared.registry.store, "save", saved.append)
    compared.compare(listed(MANY))
    assert (compared.registry.revision, saved, compared.notes.settled) == (before, [], [])


def test_job_renamed_by_scontrol_has_its_new_name(compared: Compared) -> None:
    compared.compare(listed(MANY).replace("train-1-ä".encode(), b"job00001.job00001"))
    assert compared.registry.job("job00001").name == "job00001", "our ID is not part of the name"
    compared.compare(listed(MANY))
    assert compared.registry.job("job00001").name == "train-1-ä"


def test_end_of_an_unlisted_job_is_determined(compared: Compared) -> None:
    compared.compare(listed(MANY))
    compared.compare(listed(MANY - 1))
    assert compared.notes.settled == [f"job{MANY - 1:05}"]


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
def test_array_is_running_until_the_last_task_unless_the_remaining_tasks_are_held(
    compared: Compared, tasks: dict[str, str], reason: str, state: JobState
) -> None:
    job = compared.registry.job("job00001")
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
    compared.registry.change(job.id, state=JobState.RUNNING, started_s=1.0)
    compared.comparison.compare([compared.registry.job(job.id)], rows, time.time())
    now = compared.registry.job(job.id)
    assert (now.state, now.started_s) == (state, 1.0)
    if "RUNNING" not in tasks.values():
        assert now.reason in (reason, None)
