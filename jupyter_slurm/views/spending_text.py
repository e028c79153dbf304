"""Rows and lines for `usage`. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_slurm.formatting import moment
from jupyter_slurm.views.preview_text import number
from jupyter_slurm.wire import Spending, Spent


def head(told: Spending) -> tuple[str, ...]:
    units = (told.unit or "Cost",) if _is_priced(told) else ()
    return ("Account", "User", "Jobs", "CPU-hours", "GPU-hours", *units)


def rows(told: Spending) -> list[tuple[str, ...]]:
    """Return a row under `head` for each account and user."""
    return [_row(one, is_priced=_is_priced(told)) for one in told.spent]


def lines(told: Spending) -> Iterator[str]:
    """Yield the period, and the jobs missing from the table."""
    since = moment(told.since_s, told.asked_s)
    if not told.accounting:
        yield f"{told.cluster} has no accounting, so usage is unknown."
        return
    yield (
        f"Allocated on {told.cluster} since {since}."
        if told.spent
        else f"No jobs on {told.cluster} since {since}."
    )
    if unpriced := sum(one.unpriced for one in told.spent if one.user):
        yield f"The charges omit {unpriced} of your jobs, because their partitions have no price."


def _row(one: Spent, *, is_priced: bool) -> tuple[str, ...]:
    units = ("" if one.units is None else number(one.units),) if is_priced else ()
    return (
        one.account,
        one.user or "all",
        f"{one.jobs:,}",
        number(one.cpu_hours),
        number(one.gpu_hours),
        *units,
    )


def _is_priced(told: Spending) -> bool:
    return any(one.units is not None for one in told.spent)
