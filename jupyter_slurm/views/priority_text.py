"""A waiting job's priority as a table. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_slurm.wire import JobPriority

_FACTORS = "age fairshare jobsize partition qos association site tres nice".split()
NONE = "The job has no priority now. Only waiting jobs that could start have a priority."


def table(told: Sequence[JobPriority]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns, and a row per partition. Factors without points do not get a column."""
    factors = [name for name in _FACTORS if any(name in one.given for one in told)]
    rows = [
        (
            one.partition,
            str(one.priority),
            *(f"{one.given.get(name, 0):.0f}" for name in factors),
            f"{one.before} of {one.waiting - 1}",
        )
        for one in told
    ]
    return ("Partition", "Priority", *factors, "Ahead"), rows
