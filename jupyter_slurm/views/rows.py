"""Rows for a list of jobs, for the terminal, notebooks and the widget. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_slurm.errors import LoginNeededError
from jupyter_slurm.formatting import duration, joined, moment
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.views.card import (
    colour,
    has_unseen_output,
    known_s,
    left_s,
    symbol,
    task_counts,
    tasks,
)
from jupyter_slurm.views.table import Table
from jupyter_slurm.views.transfer_card import progress_text
from jupyter_slurm.wire import SAID_BY_STATE, JobState, ListedJob, Row, SweepJob, state_word

HEAD = (
    "ID",
    "Slurm",
    "Cluster",
    "User",
    "Partition",
    "Name",
    "State",
    "Time",
    "GPUs",
    "Nodes",
    "Note",
)
_HOUR_S, _DAY_S = 3600, 86400


def cells(row: Row, now_s: float) -> tuple[str, ...]:
    """Return a job's cells for a table with the columns `HEAD`."""
    return (
        row.id or "",
        row.slurm_id or "",
        row.cluster,
        row.user or "",
        row.partition or "",
        row.name,
        f"{symbol(state_of(row))} {state_word(row.state)}",
        time(row, now_s),
        str(row.gpus or ""),
        ", ".join(row.nodes),
        note(row, now_s),
    )


def job_table(found: Sequence[Row], now_s: float, caption: str = "") -> Table:
    return Table(HEAD, tuple(cells(row, now_s) for row in found), caption, found)


def state_of(row: Row) -> JobState:
    """Return the state; UNKNOWN for a state that only newer releases of Slurm have."""
    return JobState.__members__.get(row.state, JobState.UNKNOWN)


def row_colour(row: Row) -> str:
    return colour(state_of(row))


def time(row: Row, now_s: float) -> str:
    """Return the run time, with the limit of a running job. For a session, lab or kernel with a
    limit, return the remaining time."""
    if row.started_s is None:
        return ""
    if state_of(row).final:
        return "" if row.ended_s is None else duration(row.ended_s - row.started_s)
    if not isinstance(row, ListedJob):
        left = left_s(row, now_s) if kind_of(row).is_service else None
        if left is not None:
            return f"{duration(max(0.0, left))} left"
        now_s = known_s(row, now_s)
    ran = _clock(now_s - row.started_s)
    return ran if row.limit_s is None else f"{ran} / {duration(row.limit_s)}"


def _clock(seconds: float) -> str:
    """Return a duration as Slurm prints it.

    >>> _clock(95), _clock(3723), _clock(90000)
    ('1:35', '1:02:03', '1-01:00:00')
    """
    whole = max(0, int(seconds))
    days, rest = divmod(whole, _DAY_S)
    minutes = f"{rest // 60 % 60}:{rest % 60:02}"
    if whole < _HOUR_S:
        return minutes
    clock = f"{rest // _HOUR_S}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{rest // _HOUR_S:02}{clock[clock.index(':') :]}" if days else clock


def note(row: Row, now_s: float) -> str:
    """Return the problem, or the progress of an array and the reason for waiting or ending."""
    is_over = state_of(row).final
    progress = task_counts if isinstance(row, SweepJob) else tasks
    far = progress(row.tasks) if row.tasks and not is_over else None
    # The column `State` has the state's word.
    is_said = is_over and (row.why in SAID_BY_STATE or row.state == JobState.COMPLETED)
    why = None if is_said else row.why
    if not isinstance(row, ListedJob):
        if row.transfer is not None:
            return f"Pushing: {progress_text(row.transfer, now_s)}"
        if row.problem is not None and not is_over:
            needs_login = row.problem.code == LoginNeededError.code
            how = f"Log in: %slurm login {row.cluster}" if needs_login else None
            return joined(row.problem.message, how)
        if not why and has_unseen_output(row):
            return "not fetched"
    starts = None
    if row.start_estimate_s is not None and row.started_s is None and not is_over:
        starts = f"Starts about {moment(row.start_estimate_s, now_s)}."
    return joined(joined(far, why, between="; "), starts)
