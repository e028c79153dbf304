"""Functions that match rows of squeue and sacct to jobs, and read values of squeue rows. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.submission.options import comment_token, has_token
from jupyter_slurm.slurm import reasons, states
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.slurm.units import gpus_in_tres, parse_nodelist
from jupyter_slurm.untrusted_json import unreadable
from jupyter_slurm.wire import Job, JobState

if TYPE_CHECKING:
    from jupyter_slurm.jobs.records.registry import Record, TaskArray
    from jupyter_slurm.slurm.sacct import AcctRow
    from jupyter_slurm.slurm.scontrol import ControlRow

_MOST_GPUS = 10**9
_CLOCKS_DIFFER_S = 300.0
"""Seconds by which the controller's clock may differ from ours."""
_HasStateT = TypeVar("_HasStateT", bound="_HasState")


def is_same(record: Record, row: QueueRow | ControlRow) -> bool:
    """Return whether a row with the job's Slurm ID is that job. A controller that has lost its
    state reuses IDs.

    Our token identifies a job. If a site's job_submit plugin has rewritten name and comment, the
    submission time identifies the job. A requeue changes the time (`_job_requeue_op` in
    src/slurmctld/job_mgr.c).
    """
    if any(is_of_array(one, row) for one in record.arrays) or bears_id(record.job.id, row):
        return True
    return not has_token(row.comment or "") and _is_submission(record, row)


def is_of_array(array: TaskArray, row: QueueRow | ControlRow) -> bool:
    """Return whether a row with the array's Slurm ID is that array of a sweep."""
    if bears_id(array.token, row):
        return True
    if has_token(row.comment or "") or array.submitted_s is None or row.submit_s is None:
        return False
    return abs(row.submit_s - array.submitted_s) < _CLOCKS_DIFFER_S


def is_requeued(record: Record, row: ControlRow) -> bool:
    """Return whether the row, with another submission time, is the job after a requeue. The job's
    files may already have reported the requeue."""
    job = record.job
    is_again = row.requeues > 0 and row.requeues >= job.restarts
    return is_again and row.name == job.name and not has_token(row.comment or "")


def bears_id(job_id: str, row: QueueRow | ControlRow) -> bool:
    """Return whether the row has the token of our job. A plugin may have appended to the comment,
    with or without a blank."""
    comment, name = row.comment or "", row.name or ""
    return comment_token(job_id) in comment or name.endswith(f".{job_id}")


def is_accounted(record: Record, row: AcctRow) -> bool:
    """Return whether an accounting row is the job. Accounting rows do not contain the comment."""
    job = record.job
    if _is_submission(record, row):
        return True
    if not kind_of(job).is_raw_script:
        tokens = (job.id, *(one.token for one in record.arrays))
        return row.name.endswith(tuple(f".{token}" for token in tokens))
    return row.name == job.name and (row.submit_s or 0.0) > job.created_s - _CLOCKS_DIFFER_S


def _is_submission(record: Record, row: QueueRow | ControlRow | AcctRow) -> bool:
    """Return whether the row's submission time matches the job. While Slurm's time is unknown, any
    time around sbatch's answer matches, since the ID was new then."""
    job = record.job
    known_s = record.slurm_submitted_s
    if known_s is not None or row.submit_s is None or job.submitted_s is None:
        return known_s is not None and row.submit_s == known_s
    earliest_s, latest_s = job.created_s - _CLOCKS_DIFFER_S, job.submitted_s + _CLOCKS_DIFFER_S
    return earliest_s < row.submit_s < latest_s


def the_same(row: QueueRow, candidates: Iterable[Record]) -> Job | None:
    """Return the job of a queue row, if any. `candidates` are the jobs to which Slurm has given the
    row's ID."""
    return next((record.job for record in candidates if is_same(record, row)), None)


def the_accounted(row: AcctRow, candidates: Iterable[Record]) -> Job | None:
    """Return the job of an accounting row, if any."""
    return next((record.job for record in candidates if is_accounted(record, row)), None)


class _HasState(Protocol):
    @property
    def state(self) -> str: ...


def leading(rows: Iterable[_HasStateT]) -> _HasStateT:
    """Return the row that represents a whole array. Prefer a running task, then another live task,
    a waiting task, a failed task and a completed task."""

    def rank(row: _HasStateT) -> int:
        if states.is_terminal(row.state):
            return 4 if row.state == "COMPLETED" else 3
        return {"RUNNING": 0, "PENDING": 2}.get(row.state, 1)

    return min(rows, key=rank)


def nodes_of(row: QueueRow) -> tuple[str, ...]:
    """Return the job's nodes. Raise MalformedError if the row's node list is invalid."""
    try:
        return tuple(parse_nodelist(row.nodelist or ""))
    except ValueError as exc:
        raise unreadable(exc) from exc


def gpus_of(row: QueueRow) -> int:
    """Return the GPUs on all nodes, as far as squeue reports them."""
    return min(gpus_in_tres(row.gres or "") * (row.node_count or 1), _MOST_GPUS)


def state_named(name: str) -> JobState:
    try:
        return JobState(name)
    except ValueError:
        return JobState.UNKNOWN


def waits_for(row: QueueRow) -> dict[str, object]:
    reason = row.reason if row.reason and row.reason != "None" else None
    if reason is None:
        return {"reason": None, "why": None, "advice": None, "start_estimate_s": row.start_s}
    said = reasons.explain(
        reason,
        job_id=row.slurm_id,
        partition=row.partition,
        qos=row.qos,
        account=row.account,
        dependency=row.dependency,
    )
    return {
        "reason": reason,
        "why": said.sentence,
        "advice": said.advice,
        "start_estimate_s": row.start_s,
    }
