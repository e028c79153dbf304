"""PURE: what was spent on a cluster, as people read it (`usage`): rows and lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jupyter_slurm.formatting import moment
from jupyter_slurm.views.preview_text import number
from jupyter_slurm.wire import Quota, Spending, Spent

HOURS: Mapping[str, str] = {"cpu": "CPU-hours", "gres/gpu": "GPU-hours", "node": "node-hours"}


def head(told: Spending) -> tuple[str, ...]:
    billing = ("Billing-hours",) if told.weighed else ()
    return ("Account", "Who", "Jobs", HOURS["cpu"], HOURS["gres/gpu"], *billing, *_units(told))


def rows(told: Spending) -> list[tuple[str, ...]]:
    """Return a row under `head` for each account and user."""
    return [_row(one, told) for one in told.spent]


def lines(told: Spending) -> Iterator[str]:
    """Yield from when on that is, what is not in it, and what is left."""
    since = moment(told.since_s, told.asked_s)
    if not told.accounting:
        yield (
            f"{told.cluster} keeps no accounting, so Slurm does not know what ended jobs have used."
        )
        yield "Its administrators can switch that on (slurmdbd, `AccountingStorageType`)."
        return
    if not told.spent:
        yield f"Nothing was spent on {told.cluster} since {since}."
    else:
        yield f"Spent on {told.cluster} since {since}, by what the jobs had, used or not."
    unpriced = sum(one.unpriced for one in told.spent if one.user) or sum(
        one.unpriced for one in told.spent
    )
    if unpriced:
        yield (
            f"The profile has no price for the partitions of {unpriced} of the jobs, which are "
            f"not in the {told.unit or 'cost'}."
        )
    yield from map(_left, told.quotas)


def _units(told: Spending) -> tuple[str, ...]:
    priced = any(one.units is not None for one in told.spent)
    return (told.unit or "Cost",) if priced else ()


def _row(one: Spent, told: Spending) -> tuple[str, ...]:
    billing = (number(one.billing_hours),) if told.weighed else ()
    units = ("" if one.units is None else number(one.units),) if _units(told) else ()
    return (
        one.account,
        one.user or "all who are shown",
        f"{one.jobs:,}",
        number(one.cpu_hours),
        number(one.gpu_hours),
        *billing,
        *units,
    )


def _left(one: Quota) -> str:
    """Say what is left of a quota.

    >>> _left(Quota(account="lab", user="", tres="cpu", limit_hours=1000, used_hours=250))
    'Account lab: 750 of 1,000 CPU-hours are left, as Slurm counts them.'
    """
    left = max(0.0, one.limit_hours - one.used_hours)
    what = "MiB-hours of memory"
    if one.tres != "mem":
        what = HOURS.get(one.tres, f"{one.tres}-hours")
    whose = "You with account" if one.user else "Account"
    return (
        f"{whose} {one.account}: {number(left)} of {number(one.limit_hours)} {what} are left, as "
        "Slurm counts them."
    )
