"""Rows of the last squeue listing for jobs without a record and for tasks of arrays.

For a job with a record, the row is its `Job`, which `comparison.py` updates. `watcher.py` runs
squeue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec

from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.outcome import array_tasks
from jupyter_slurm.jobs.records.change_log import ChangeLog, Delta
from jupyter_slurm.jobs.records.registry import JobRegistry, Record
from jupyter_slurm.jobs.watching.on_demand import Viewers
from jupyter_slurm.jobs.watching.queue_rows import gpus_of, leading, the_same
from jupyter_slurm.slurm import reasons, squeue, states
from jupyter_slurm.slurm.squeue import QueueRow, RawRow
from jupyter_slurm.wire import Job, ListedJob, Problem, QueueStatus, Row

_ENDED_KEPT = 300

Ours = Mapping[str, Sequence[Record]]
"""Records by Slurm's ID, from `JobRegistry.by_slurm_id`."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """A listed job or array, and the keys of its rows."""

    printed: tuple[str, ...]
    candidates: tuple[tuple[str, float | None], ...]
    """The IDs and submission times of our jobs that may be this job."""
    job_id: str | None
    """Our ID of the job; None without a record."""
    keys: tuple[str, ...]


class Difference(NamedTuple):
    """The changes made by a listing."""

    jobs: dict[str, _Listed]
    changed: list[ListedJob]
    gone: list[str]


class Table:
    """Rows by key, without I/O. Another thread may read during `compare`, but not during `put`."""

    def __init__(self, cluster: str, since: int = 0) -> None:
        """`since` is the first revision."""
        self._cluster = cluster
        self._jobs: dict[str, _Listed] = {}
        self._rows = ChangeLog[tuple[int, ListedJob]](lambda row: row[0])
        self._rows.remembers_since = since

    def compare(self, listed: Iterable[RawRow], ours: Ours, user: str | None = None) -> Difference:
        """Return the changes made by a new listing. `ours` contains our records by Slurm's ID.
        Slurm may have reused an ID for another user's job. `user` is the owner of our jobs. If
        `user` is None, all listed jobs belong to the user, and rows of ended jobs are kept."""
        by_id: dict[str, list[RawRow]] = {}
        for raw in listed:
            by_id.setdefault(raw.whole_id, []).append(raw)
        jobs: dict[str, _Listed] = {}
        rows: dict[str, ListedJob] = {}
        for whole_id, raws in by_id.items():
            mine = user is None or raws[0].user == user
            known = ours.get(whole_id, ()) if mine else ()
            printed = tuple(raw.text for raw in raws)
            candidates = tuple((one.job.id, one.job.submitted_s) for one in known)
            old = self._jobs.get(whole_id)
            if old is not None and (old.printed, old.candidates) == (printed, candidates):
                jobs[whole_id] = old
                continue
            if mine and not known:  # squeue may list a job before sbatch's answer arrives
                known = ours.get("", ())
            read = [squeue.read(raw) for raw in raws]
            found = [job for row in read if (job := the_same(row, known)) is not None]
            job = found[0] if found else None
            if job is not None:
                listed_row = partial(listed_job, cluster=self._cluster, mine=True, array=job)
                tasks = [row for row in read if row.array_job_id and _lives(row)]
                made = [listed_row(row) for row in tasks]
            else:
                made = self._others(read, mine=mine, keeps_ended=user is None)
            rows |= {row.key: row for row in made}
            keys = tuple(row.key for row in made)
            jobs[whole_id] = _Listed(printed, candidates, job.id if job else None, keys)
        changed = [row for key, row in rows.items() if self._known(key) != row]
        listed_keys = {key for one in jobs.values() for key in one.keys}
        unlisted = [key for key in self._rows if key not in listed_keys]
        ended = [key for key in unlisted if self._stays(key, ours)] if user is None else []
        kept = set(ended[-_ENDED_KEPT:])
        return Difference(jobs, changed, [key for key in unlisted if key not in kept])

    def _others(self, read: list[QueueRow], *, mine: bool, keeps_ended: bool) -> list[ListedJob]:
        """Return the rows of a job or array without a record."""
        rows = [listed_job(row, self._cluster, mine=mine) for row in read]
        live = [row for row in rows if _lives(row)]
        if read[0].array_job_id is None:
            return rows if keeps_ended else live
        if not (live or keeps_ended):
            return []
        whole = whole_array(rows, {})
        before = self._known(whole.key)
        if before is not None and before.submitted_s == whole.submitted_s:
            whole = whole_array(rows, before.tasks)
        return [whole, *(msgspec.structs.replace(row, array=whole.key) for row in live)]

    def _known(self, key: str) -> ListedJob | None:
        found = self._rows.get(key)
        return None if found is None else found[1]

    def _stays(self, key: str, ours: Ours) -> bool:
        """Return whether an unlisted job has ended and still has no record."""
        row = self._rows[key][1]
        records = ours.get(row.slurm_id or "", ())
        submitted = [one.job.submitted_s for one in records]
        return states.is_terminal(row.state) and row.submitted_s not in submitted

    def put(self, difference: Difference, revision: int) -> None:
        self._jobs, changed, gone = difference
        for row in changed:
            self._rows.put(row.key, (revision, row))
        for key in gone:
            self._rows.remove(key, revision)

    def since(self, revision: int | None) -> Delta[ListedJob]:
        """Return the rows that changed after `revision`, and the removed keys."""
        whole, rows, gone = self._rows.since(revision)
        return Delta(whole, tuple(row for _, row in rows), gone)


def rows_of(listed: Iterable[RawRow], ours: Ours, user: str, cluster: str) -> list[Row]:
    """Return a row per listed job, in the order of the listing."""
    found = Table(cluster).compare(listed, ours, user)
    others = {row.key: row for row in found.changed}
    records = {one.job.id: one.job for some in ours.values() for one in some}
    rows: list[Row] = []
    for one in found.jobs.values():
        if one.job_id is not None:
            job = records[one.job_id]
            rows.append(msgspec.structs.replace(job, user=job.user or user))
        rows += [others[key] for key in one.keys if others[key].array is None]
    return rows


@lru_cache(maxsize=1024)
def _why(reason: str, *, is_mine: bool) -> str:
    """Explain the reason. The result is cached, since many jobs wait for the same reason."""
    of_anybody = None if is_mine else reasons.OF_ANYBODY.get(reason)
    return of_anybody or reasons.explain(reason).sentence


def listed_job(row: QueueRow, cluster: str, *, mine: bool, array: Job | None = None) -> ListedJob:
    """Return the row of a job without a record, or of tasks of `array`."""
    array_id = None if array is None else array.id
    waits = row.state == "PENDING" and row.reason not in (None, "", "None")
    return ListedJob(
        cluster=cluster,
        slurm_id=row.slurm_id,
        id=array_id,
        array=array_id,
        mine=mine,
        name=_task_name(row, array) if array else row.name,
        state=row.state,
        user=row.user,
        partition=row.partition,
        account=row.account,
        qos=row.qos,
        priority=row.priority,
        reason=row.reason if waits else None,
        why=_why(row.reason, is_mine=mine) if waits else None,
        nodes=(row.nodelist,) if row.nodelist else (),
        node_count=row.node_count,
        gpus=gpus_of(row),
        submitted_s=row.submit_s,
        started_s=row.start_s if row.nodelist and not waits else None,
        ended_s=row.end_s if states.is_terminal(row.state) else None,
        start_estimate_s=row.start_s if waits else None,
        limit_s=int(row.limit_s) if row.limit_s is not None else None,
    )


def _task_name(row: QueueRow, array: Job) -> str:
    """Return the name of a task without our ID. Each array of a sweep has its own ID."""
    return array.name if kind_of(array).has_tasks else row.name.removesuffix(f".{array.id}")


def whole_array(listed: Iterable[ListedJob], known: Mapping[str, str]) -> ListedJob:
    """Return the row of an array without a record, from its listed tasks and the `known` states of
    all tasks (`Job.tasks`)."""
    rows = list(listed)
    first = leading(rows)
    split = [(row.slurm_id or "").partition("_") for row in rows]
    tasks = array_tasks.merged(
        known, [(part[2], row.state) for part, row in zip(split, rows, strict=True)]
    )
    running = [row for row in rows if row.started_s is not None and row.ended_s is None]
    state = first.state
    if state == "PENDING" and "Held" not in (first.reason or "") and array_tasks.have_run(tasks):
        state = "RUNNING"  # the array is between two of its tasks
    starts = [row.started_s for row in rows if row.started_s is not None]
    ends = [row.ended_s for row in rows if row.ended_s is not None]
    is_over = states.is_terminal(state)
    return msgspec.structs.replace(
        first,
        slurm_id=split[0][0],
        state=state,
        tasks=tasks,
        nodes=(),
        node_count=sum(row.node_count or 0 for row in running) or None,
        gpus=sum(row.gpus for row in running),
        submitted_s=min((row.submitted_s or 0.0 for row in rows), default=None),
        started_s=min(starts, default=None),
        ended_s=max(ends, default=None) if is_over else None,
    )


def _lives(row: QueueRow | ListedJob) -> bool:
    return not states.is_terminal(row.state)


class Listing(Viewers):
    """A table and its viewers, guarded by the JobRegistry's lock."""

    def __init__(
        self, registry: JobRegistry, cluster: str, poll_s: float, begin: Callable[[bool], None]
    ) -> None:
        super().__init__(poll_s)
        self.cluster = cluster
        self.table = Table(cluster, since=registry.revision)
        self.change_count = 0
        """The number of status changes."""
        self.closed = False
        self._registry = registry
        self._begin = begin

    def view(self) -> AbstractContextManager[None]:
        """Count a viewer. Listing begins with the first viewer."""
        return self.viewing(lambda: self._begin(not self.due_s))

    def status(self) -> QueueStatus:
        return QueueStatus(
            cluster=self.cluster,
            asked_s=self.asked_s,
            problem=self.problem,
            interval_s=self.interval_s,
        )

    def answered(self, rows: Iterable[RawRow], ours: Ours, user: str | None) -> None:
        difference = self.table.compare(rows, ours, user)
        with self._registry.lock():
            if difference.changed or difference.gone:
                self.table.put(difference, self._registry.next_revision())
            else:
                self.table.put(difference, self._registry.revision)
            self._note(None)

    def failed(self, problem: Problem) -> None:
        with self._registry.lock():
            self._note(problem)

    def close(self) -> None:
        """Make waiting calls return. Later calls use a new `Listing`."""
        with self._registry.lock():
            self.closed = True
            self._registry.notify()

    def _note(self, problem: Problem | None) -> None:
        if self.tried(problem):
            self.change_count += 1
            self._registry.notify()


class ClusterQueue:
    """The queue of one cluster, with the tables of this user's jobs and of all users' jobs.

    `begin(now)` is called for the first viewer; `now` is set if the last listing is outdated.
    """

    def __init__(
        self, registry: JobRegistry, cluster: str, poll_s: float, begin: Callable[[bool], None]
    ) -> None:
        self.mine = Listing(registry, cluster, poll_s, begin)
        self.everyone = Listing(registry, cluster, poll_s, begin)

    @property
    def has_viewers(self) -> bool:
        return self.mine.has_viewers or self.everyone.has_viewers

    @property
    def due_s(self) -> float:
        """Seconds until squeue may run again for viewers."""
        both = (self.mine, self.everyone)
        return min((one.due_s for one in both if one.has_viewers), default=0.0)

    def answered(self, rows: list[RawRow], user: str, ours: Ours, *, everyone: bool) -> None:
        """Update the tables from a squeue listing of this user's jobs or of all users' jobs. For
        `ours` see `Table.compare`."""
        self.mine.answered([row for row in rows if row.user == user], ours, None)
        if everyone:
            self.everyone.answered(rows, ours, user)

    def failed(self, problem: Problem) -> None:
        """Record that squeue failed."""
        self.mine.failed(problem)
        self.everyone.failed(problem)

    def close(self) -> None:
        self.mine.close()
        self.everyone.close()
