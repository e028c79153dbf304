"""PURE: what the rows of the queue say of a job of ours."""

from __future__ import annotations

from jupyter_slurm.slurm import reasons, states
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.wire import JobState


def leading(rows: list[QueueRow]) -> QueueRow:
    """Of an array's tasks the one that says most of the whole: one that runs, else one that
    waits, else one that went wrong."""

    def rank(row: QueueRow) -> int:
        if states.is_terminal(row.state):
            return 3 if row.state == "COMPLETED" else 2
        return 0 if row.state != "PENDING" else 1

    return min(rows, key=rank)


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
