"""The jobs that the agent knows, in memory and in the store; those that wait for a change are told.

The one place where a job is changed: every change is on disk before anybody sees it, and raises
the revision. Thread-safe. Knows nothing of Slurm.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.jobs.records.events import following
from jupyter_slurm.jobs.records.journal import Journal, News, Revisions
from jupyter_slurm.jobs.records.store import Batch, Record, Store
from jupyter_slurm.wire import Job

_UNWANTED_KEPT = 1_000


class Book:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._changed = threading.Condition()
        self._closed = False
        self._stirs = 0
        found = sorted(store.load(), key=lambda record: record.job.revision)
        for record in found:  # the process that pushed has ended
            record.job = msgspec.structs.replace(record.job, transfer=None)
        self._records = Journal[Record](lambda record: record.job.revision)
        self._records.update((record.job.id, record) for record in found)
        # Counted on, so that of a job's file and a batch it is known which is newer.
        self.revisions = Revisions(found[-1].job.revision if found else 0)
        self._records.remembers_since = self.revisions.latest
        self._live = {r.job.id: r for r in found if not r.job.state.final}
        self._unwanted: deque[str] = deque(maxlen=_UNWANTED_KEPT)

    @property
    def stirs(self) -> int:
        """How often anything has changed or grown: read it, look, then wait for it to differ."""
        return self._stirs

    def stirred_since(self, stirs: int) -> Callable[[], bool]:
        """Return a condition for `wait`: anything has changed or grown since `stirs` was read."""
        return lambda: self._stirs != stirs

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def revision(self) -> int:
        return self.revisions.latest

    def add(self, record: Record) -> bool:
        """Add the record; False: that id is taken, and nothing was changed."""
        with self._changed:
            if record.job.id in self._records:
                return False
            self.revisions.latest += 1
            record.job = msgspec.structs.replace(record.job, revision=self.revision)
            if record.job.id in self._unwanted:
                record.job = msgspec.structs.replace(record.job, cancel_requested_s=time.time())
            record.events = following((), None, record.job, time.time())
            self.store.save_synced(record)
            self._enter(record)
            return True

    def unwanted(self, job_id: str) -> None:
        """Remember that the end of an unknown job was asked for: its submission may still come."""
        with self._changed:
            self._unwanted.append(job_id)

    def _enter(self, record: Record) -> None:
        job_id = record.job.id
        self._records.put(job_id, record)
        if record.job.state.final:
            self._live.pop(job_id, None)
        else:
            self._live[job_id] = record
        self._notify()

    def record(self, job_id: str) -> Record:
        """Return a record by our id or Slurm's: of that, the newest job, a live one first. The ID
        of any part of a heterogeneous job (`153+1`) means the job. NotFoundError; RequestError:
        jobs of several clusters have it."""
        with self._changed:
            if job_id in self._records:
                return self._records[job_id]
            whole_id = job_id.partition("+")[0]
            same = [r for r in self._records.values() if r.job.slurm_id == whole_id]
        if not same:
            raise NotFoundError(
                f"There is no job {job_id!r} here.", hint="`%slurm jobs` lists yours."
            )
        same = [record for record in same if not record.job.state.final] or same
        if len({record.job.cluster for record in same}) > 1:
            jobs = ", ".join(f"{one.job.id} on {one.job.cluster}" for one in same)
            raise RequestError(
                f"{job_id} is Slurm's id of jobs of several clusters: {jobs}.",
                hint="The id of eight letters means one of them.",
            )
        return max(same, key=lambda record: record.job.created_s)

    def job(self, job_id: str) -> Job:
        return self.record(job_id).job

    def records(self) -> list[Record]:
        """Return all records, newest first."""
        with self._changed:
            return sorted(self._records.values(), key=lambda r: r.job.created_s, reverse=True)

    def live(self, cluster: str | None = None) -> list[Record]:
        """Return those that have not ended, of one cluster or of all, newest first."""
        with self._changed:
            found = [r for r in self._live.values() if cluster in (None, r.job.cluster)]
        return sorted(found, key=lambda r: r.job.created_s, reverse=True)

    def by_slurm_id(self, cluster: str) -> dict[str, list[Record]]:
        """Map each of Slurm's ids on that cluster to all jobs that have had it, newest first."""
        found: dict[str, list[Record]] = {}
        for record in self.records():
            if record.job.slurm_id and record.job.cluster == cluster:
                found.setdefault(record.job.slurm_id, []).append(record)
        return found

    def news(self, revision: int | None) -> tuple[int, News[Job]]:
        """Return the revision of now, and what has changed after `revision` (None: all)."""
        with self._changed:
            whole, records, gone = self._records.since(revision)
            return self.revision, News(whole, tuple(one.job for one in records), gone)

    def change(self, job_id: str, **changes: Any) -> Job:
        """Change and return the job, with these fields; save only what makes a difference."""
        with self._changed:
            record = self.record(job_id)
            old = record.job
            if "state" in changes and changes["state"] is not old.state:
                changes.setdefault("state_since_s", time.time())
            if all(getattr(old, name) == value for name, value in changes.items()):
                return old
            self.revisions.latest += 1
            record.change(self.revision, time.time(), **changes)
            self.store.save(record)
            self._enter(record)
            return record.job

    def note_cancels(self, requested_s: Mapping[str, float | None]) -> None:
        """Change when the end of each of these jobs was asked for, at the cost of one file. Leave
        those as they are that have ended."""
        with self._changed:
            live = {job_id: when for job_id, when in requested_s.items() if job_id in self._live}
            if not live:
                return
            self.revisions.latest += 1
            now_s = time.time()
            batch = Batch(revision=self.revision, time_s=now_s, cancel_requested_s=live)
            self.store.save_batch(batch)
            for job_id, when in live.items():
                record = self._live[job_id]
                record.change(self.revision, now_s, cancel_requested_s=when)
                self._enter(record)

    def found(self, seen: Job, **changes: Any) -> Job:
        """Change the job by a look that began when it was as `seen`. Do nothing where its state has
        changed meanwhile: the look is then older than what is known."""
        with self._changed:
            job = self.job(seen.id)
            return self.change(seen.id, **changes) if job.state is seen.state else job

    def note(self, job_id: str, **changes: Any) -> None:
        """Change fields of the record that no client sees, and save it, synced."""
        with self._changed:
            record = self.record(job_id)
            for name, value in changes.items():
                setattr(record, name, value)
            self.store.save_synced(record)

    def change_each(self, changed: Callable[[Record], Mapping[str, Any] | None]) -> None:
        """Save each record for which `changed`, which may alter it, returns changes of its job."""
        with self._changed:
            for record in [*self._records.values()]:
                changes = changed(record)
                if changes is not None:
                    self.revisions.latest += 1
                    record.change(self.revision, time.time(), **changes)
                    self.store.save(record)
                    self._enter(record)

    def remove(self, job_id: str) -> None:
        with self._changed:
            record = self.record(job_id)
            self.revisions.latest += 1
            self._records.remove(record.job.id, self.revision)
            self._live.pop(record.job.id, None)
            self.store.remove(record.job.id)
            self._notify()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep all others from looking or changing anything meanwhile; for what is quick."""
        with self._changed:
            yield

    def wait(self, ready: Callable[[], bool], wait_s: float) -> bool:
        """Return whether `ready` came true within `wait_s`; ask it after every change or nudge."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or ready(), wait_s)

    def nudge(self) -> None:
        """Wake the waiting calls: something outside the record has changed; output has grown."""
        with self._changed:
            self._notify()

    def close(self) -> None:
        """End every wait, now and later."""
        with self._changed:
            self._closed = True
            self._notify()

    def _notify(self) -> None:
        self._stirs += 1
        self._changed.notify_all()
