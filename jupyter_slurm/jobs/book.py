"""The jobs that the agent knows, in memory and in the store; who waits for a change is told.

The one place where a job is changed: every change is on disk before anybody sees it, and raises
the revision. Thread-safe. Knows nothing of Slurm.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.jobs.store import Record, Store
from jupyter_slurm.wire import Job


class Book:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._changed = threading.Condition()
        self._closed = False
        self._stirs = 0
        self._records = {record.job.id: record for record in store.load()}
        self._revision = max((r.job.revision for r in self._records.values()), default=0)

    @property
    def stirs(self) -> int:
        """How often anything has changed or grown: read it, look, then wait for it to differ."""
        return self._stirs

    def stirred_since(self, stirs: int) -> Callable[[], bool]:
        """For `wait`: whether anything has since `stirs` was read."""
        return lambda: self._stirs != stirs

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def revision(self) -> int:
        return self._revision

    def add(self, record: Record) -> bool:
        """False: there is a job of that id already, and nothing was changed."""
        with self._changed:
            if record.job.id in self._records:
                return False
            self._revision += 1
            record.job = msgspec.structs.replace(record.job, revision=self._revision)
            self.store.save_synced(record)
            self._records[record.job.id] = record
            self._notify()
            return True

    def record(self, job_id: str) -> Record:
        """By our id, or by Slurm's: the newest job that has it. NotFoundError."""
        with self._changed:
            if job_id in self._records:
                return self._records[job_id]
            same = [r for r in self._records.values() if r.job.slurm_id == job_id]
        if not same:
            raise NotFoundError(
                f"There is no job {job_id!r} here.", hint="`%slurm jobs` lists those there are."
            )
        return max(same, key=lambda record: record.job.created_s)

    def job(self, job_id: str) -> Job:
        return self.record(job_id).job

    def records(self) -> list[Record]:
        """All of them, newest first."""
        with self._changed:
            return sorted(self._records.values(), key=lambda r: r.job.created_s, reverse=True)

    def live(self, cluster: str | None = None) -> list[Record]:
        """Those that have not ended, of one cluster or of all."""
        return [
            record
            for record in self.records()
            if not record.job.state.final and cluster in (None, record.job.cluster)
        ]

    def change(self, job_id: str, **changes: Any) -> Job:
        """The job, with these fields of it changed; saved only if that makes a difference."""
        with self._changed:
            record = self.record(job_id)
            old = record.job
            if "state" in changes and changes["state"] is not old.state:
                changes.setdefault("state_since_s", time.time())
            if all(getattr(old, name) == value for name, value in changes.items()):
                return old
            self._revision += 1
            record.job = msgspec.structs.replace(old, **changes, revision=self._revision)
            self.store.save(record)
            self._notify()
            return record.job

    def found(self, seen: Job, **changes: Any) -> Job:
        """`change` by what a look has shown that began when the job was as `seen`: nothing where
        its state has changed meanwhile, for then the look is older than what is known."""
        with self._changed:
            job = self.job(seen.id)
            return self.change(seen.id, **changes) if job.state is seen.state else job

    def note(self, job_id: str, **changes: Any) -> None:
        """Changes fields of the record that nobody else sees, and saves it, synced."""
        with self._changed:
            record = self.record(job_id)
            for name, value in changes.items():
                setattr(record, name, value)
            self.store.save_synced(record)

    def remove(self, job_id: str) -> None:
        with self._changed:
            record = self.record(job_id)
            del self._records[record.job.id]
            self.store.remove(record.job.id)
            self._revision += 1
            self._notify()

    def wait(self, ready: Callable[[], bool], wait_s: float) -> bool:
        """Whether `ready` came true within `wait_s`; it is asked after every change and nudge."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or ready(), wait_s)

    def nudge(self) -> None:
        """Something that is not of the record has changed: output has grown."""
        with self._changed:
            self._notify()

    def close(self) -> None:
        """Ends every wait, now and later."""
        with self._changed:
            self._closed = True
            self._notify()

    def _notify(self) -> None:
        self._stirs += 1
        self._changed.notify_all()
