"""PURE: the waiting jobs with what each factor gives to their priority, as a table's rows."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_slurm.wire import JobPriority, Priorities

HEAD = ("ID", "Slurm", "Name", "Partition", "Priority", "Before it")
_FACTORS = "age fairshare jobsize partition qos association site tres nice".split()


def table(told: Priorities) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and the rows; a factor that gives nothing to any job has no column."""
    factors = [name for name in _FACTORS if any(name in one.given for one in told.jobs)]
    columns = (*HEAD[:-1], *factors, HEAD[-1])
    return columns, [_row(one, factors) for one in told.jobs]


def _row(one: JobPriority, factors: Sequence[str]) -> tuple[str, ...]:
    return (
        one.id or "",
        one.slurm_id,
        one.name or "",
        one.partition,
        str(one.priority),
        *(f"{one.given.get(name, 0):.0f}" for name in factors),
        f"{one.before} of {one.waiting - 1}",
    )
