"""The reconciliation of our jobs with a squeue listing, which finds starts, ends and reasons for
waiting.

`watcher.py` decides when to list the queue; `ending.py` judges how a job ended.
"""

from __future__ import annotations

import time
from typing import Protocol

from jupyter_slurm.errors import CommandError, TransportError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.outcome import array_tasks
from jupyter_slurm.jobs.outcome.allocation import ask_allocation, ask_jobs, note_outputs, note_paths
from jupyter_slurm.jobs.outcome.sweep_tasks import Sweeps
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission.session_cells import ends_s
from jupyter_slurm.jobs.watching.queue_rows import (
    gpus_of,
    is_same,
    leading,
    nodes_of,
    state_named,
    waits_for,
)
from jupyter_slurm.slurm import states
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.wire import Job, JobState

_IN_THE_QUEUE = frozenset(
    "PENDING EXPEDITING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD".split()
)


class Watcher(Protocol):
    """The interface that gets the findings. `watcher.Watch` implements it."""

    def stirred(self) -> None: ...

    def files_changed(self) -> None: ...

    def is_ending(self, job_id: str) -> bool: ...

    def settle(self, job: Job, row: QueueRow | None) -> None: ...


class Comparison:
    def __init__(self, registry: JobRegistry, cluster: SlurmCluster, watch: Watcher) -> None:
        self.sweeps = Sweeps(registry, cluster)
        self._registry = registry
        self._cluster = cluster
        self._watch = watch
        self._absent_since_s: dict[str, float] = {}

    def compare(self, jobs: list[Job], rows: list[QueueRow], began_s: float) -> None:
        """Compare all live `jobs` with their `rows`. `jobs` was read at `began_s`, before the
        listing."""
        live = {job.id for job in jobs}
        self._absent_since_s = {j: s for j, s in self._absent_since_s.items() if j in live}
        by_id: dict[str, list[QueueRow]] = {}
        for row in rows:
            by_id.setdefault(row.whole_id, []).append(row)
        for job in jobs:
            with self._registry.noting_errors(job.id):
                if kind_of(job).has_tasks:
                    ours = [row for one in job.slurm_ids for row in by_id.get(one, ())]
                    self._compare_sweep(job, ours, began_s)
                    continue
                self._compare_one(job, by_id.get(job.slurm_id or ""), began_s)

    def _compare_one(self, old: Job, found: list[QueueRow] | None, began_s: float) -> None:
        ours = [row for row in found or () if self._is_same(old, row)]
        row = leading(ours) if ours else None
        nodes = _nodes(row, ours) if row is not None else ()
        job = self._registry.clear_problem(old.id)
        if row is not None:
            self._absent_since_s.pop(job.id, None)
            # The next change also saves this submission time. A new row always causes a change.
            self._registry.record(job.id).slurm_submitted_s = row.submit_s
            self._registry.observe(job.id, priority=row.priority)
            if found and row.array_job_id is not None:
                self._tasks_seen(job.id, found)
            self._row_seen(job, row, nodes, began_s)
        elif job.submitted_s is not None and began_s > job.submitted_s:
            self._row_missing(job)
        if kind_of(job).accepts_cells:
            self._tell_its_cells(self._registry.job(job.id))

    def _compare_sweep(self, old: Job, found: list[QueueRow], began_s: float) -> None:
        ours = [row for row in found if is_same(self._registry.record(old.id), row)]
        job = self._registry.clear_problem(old.id)
        if ours:
            row = leading(ours)
            self._registry.observe(job.id, priority=row.priority)
            state = job.state if job.state is JobState.RUNNING else state_named(row.state)
            with self._registry.lock():
                now = self._registry.job(job.id)
                changes = _by_row(now, row, state, now.nodes)
                changes |= {"name": now.name, "nodes": now.nodes, "started_s": now.started_s}
                if array_tasks.have_run(now.tasks):  # do not show why the remaining tasks wait
                    for name in ("reason", "why", "advice", "start_estimate_s"):
                        changes[name] = None
                if not now.state.final and not states.is_terminal(row.state):
                    self._registry.change(job.id, **changes)
        self.sweeps.table(job.id).listed(found, began_s)

    def _tasks_seen(self, job_id: str, found: list[QueueRow]) -> None:
        listed = [(one.array_task_id, one.state) for one in found]
        with self._registry.lock():  # a thread may have judged the job's end since the listing
            job = self._registry.job(job_id)
            if not job.state.final and not self._watch.is_ending(job_id):
                self._registry.change(job_id, tasks=array_tasks.merged(job.tasks, listed))

    def _is_same(self, job: Job, row: QueueRow) -> bool:
        record = self._registry.record(job.id)
        if is_same(record, row):
            return True
        # A requeue also changes the submission time. Only scontrol reports the number of requeues.
        try:
            told = ask_jobs(self._cluster, record)
        except (CommandError, TransportError):
            return False
        if not told:
            return False
        record.slurm_submitted_s = told[0].submit_s
        self._registry.change(job.id, restarts=told[0].requeues)
        return True

    def _tell_its_cells(self, session: Job) -> None:
        """Copy the session's time limit to its cells and clear their problems, since squeue does
        not list cells."""
        changes = {"problem": None, "problem_since_s": None, "session_ends_s": ends_s(session)}
        with self._registry.lock():  # a cell that ends now keeps its problem
            for record in self._registry.live(self._cluster.name):
                if record.job.session == session.id:
                    self._registry.change(record.job.id, **changes)

    def _row_missing(self, job: Job) -> None:
        """Record that a listing lacks the job. Judge the job's end after `lost_after_s` without a
        row."""
        now_s = time.monotonic()
        since_s = self._absent_since_s.setdefault(job.id, now_s)
        if now_s - since_s >= self._cluster.profile.lost_after_s:
            self._absent_since_s.pop(job.id, None)
            self._watch.settle(job, None)

    def _row_seen(self, job: Job, row: QueueRow, nodes: tuple[str, ...], began_s: float) -> None:
        if job.state.final or self._watch.is_ending(job.id):
            return
        if states.is_terminal(row.state):
            self._watch.settle(job, row)
            return
        if (
            job.state is JobState.RUNNING
            and row.state in _IN_THE_QUEUE
            and (job.state_since_s > began_s)
        ):
            return  # the listing is older than the job's files
        state = state_named(row.state)
        if (
            row.state in _IN_THE_QUEUE
            and "held" not in row.reason.lower()
            and array_tasks.have_run(self._registry.job(job.id).tasks)
        ):
            state = JobState.RUNNING  # the array is between two of its tasks
        if state is not job.state:
            self._watch.stirred()
        given = self._allocation(job) if row.state == JobState.RUNNING else {}
        with self._registry.lock():
            now = self._registry.job(job.id)
            # The job's files may have reported a start or restart since the listing. The row is
            # then outdated, but the allocation is not.
            changes = given
            if (now.state, now.restarts) == (job.state, job.restarts):
                changes = _by_row(now, row, state, nodes) | given
            if not now.state.final:
                self._registry.change(job.id, **changes)

    def _allocation(self, job: Job) -> dict[str, object]:
        """Ask once for the job's allocation. Return fields of `Job`; {} if nothing is new."""
        if job.usage is not None or job.slurm_id is None:
            return {}
        given = ask_allocation(self._cluster, self._registry.record(job.id))
        if given is None:
            return {}
        if kind_of(job).is_raw_script:
            note_outputs(self._registry, job.id, given.stdout, given.stderr)
            note_paths(self._registry, job.id, given.rows)
            self._watch.files_changed()
        return {
            "usage": given.usage,
            # A site without GPUs in AccountingStorageTRES reports 0.
            "gpus": given.gpus or job.gpus,
            "no_requeue": given.no_requeue,
        }


def _nodes(row: QueueRow, ours: list[QueueRow]) -> tuple[str, ...]:
    """Return the job's nodes; for a heterogeneous job, the nodes of all parts."""
    parts = [row] if row.array_job_id is not None else ours
    return tuple(dict.fromkeys(node for part in parts for node in nodes_of(part)))


def _by_row(job: Job, row: QueueRow, state: JobState, nodes: tuple[str, ...]) -> dict[str, object]:
    """Return fields of `Job` from the row of a live job."""
    changes: dict[str, object] = {
        "state": state,
        # The user may have renamed the job. Our names in Slurm end with the job's ID
        # (`slurm_name`).
        "name": (row.name or "").removesuffix(f".{job.id}") or job.name,
        "user": row.user,
        "partition": row.partition,
        "account": row.account,
        "qos": row.qos,
        "limit_s": int(row.limit_s) if row.limit_s is not None else None,
        "gpus": gpus_of(row) or job.gpus,
        "node_count": row.node_count,
    }
    if row.state == JobState.RUNNING:
        changes |= {
            "nodes": nodes,
            "started_s": job.started_s or row.start_s,
            "reason": None,
            "why": None,
            "advice": None,
            "start_estimate_s": None,
        }
    else:
        changes |= waits_for(row)
        if row.state in _IN_THE_QUEUE:
            changes |= {"nodes": (), **kind_of(job).on_requeue(job)}
    return changes
