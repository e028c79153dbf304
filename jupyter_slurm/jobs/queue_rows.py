"""PURE: what the rows of the queue say of a job of ours, and what is shown of any."""

from __future__ import annotations

from functools import lru_cache

from jupyter_slurm.foreign import unreadable
from jupyter_slurm.slurm import reasons, states
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.slurm.units import gpus_in_tres, parse_nodelist
from jupyter_slurm.wire import Job, JobState, QueueEntry

_MOST_GPUS = 10**9


def leading(rows: list[QueueRow]) -> QueueRow:
    """Of an array's tasks the one that says most of the whole: one that runs, else one that
    waits, else one that went wrong."""

    def rank(row: QueueRow) -> int:
        if states.is_terminal(row.state):
            return 3 if row.state == "COMPLETED" else 2
        return 0 if row.state != "PENDING" else 1

    return min(rows, key=rank)


def nodes_of(row: QueueRow) -> tuple[str, ...]:
    """Return the nodes that the job has. MalformedError: that is no list of nodes."""
    try:
        return tuple(parse_nodelist(row.nodelist or ""))
    except ValueError as exc:
        raise unreadable(exc) from exc


def gpus_of(row: QueueRow) -> int:
    """Return the GPUs of all its nodes, as far as squeue tells them."""
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


@lru_cache(maxsize=1024)
def _why(reason: str) -> str:
    """In a listing many jobs wait for the same."""
    return reasons.explain(reason).sentence


def entry_of(row: QueueRow, job: Job | None) -> QueueEntry:
    """`job`: the same one, where it is one of ours.

    squeue tells the GPUs of a node, not those that were asked for the whole job (`--gpus`): of
    these only what we have sent ourselves is known.
    """
    waits = row.state == "PENDING" and row.reason not in (None, "", "None")
    return QueueEntry(
        slurm_id=row.slurm_id,
        state=row.state,
        name=row.name or "",
        user=row.user or "",
        partition=row.partition or "",
        array_id=row.array_job_id,
        account=row.account,
        qos=row.qos,
        priority=row.priority,
        reason=row.reason if waits else None,
        why=_why(row.reason) if waits else None,
        nodes=row.nodelist,
        node_count=row.node_count,
        gpus=gpus_of(row) or (job.gpus if job else 0),
        submitted_s=row.submit_s,
        started_s=row.start_s if not waits else None,
        start_estimate_s=row.start_s if waits else None,
        elapsed_s=row.elapsed_s,
        limit_s=int(row.limit_s) if row.limit_s is not None else None,
        id=job.id if job else None,
    )
