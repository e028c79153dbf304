"""Cluster usage by a user and their accounts."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Spending", "Spent"]


class Spent(Struct, frozen=True, kw_only=True):
    """Resources allocated to an account's jobs, used or not."""

    account: str
    user: str
    """"": all users, as far as Slurm shows them."""
    jobs: int
    cpu_hours: float
    gpu_hours: float
    units: float | None = None
    """The site's charge, in `Spending.unit`; None: no price in the profile."""
    unpriced: int = 0
    """The number of jobs missing from `units`, because their partition has no price."""


class Spending(Struct, frozen=True, kw_only=True):
    cluster: str
    since_s: float
    asked_s: float
    accounting: bool
    """False: Slurm has no accounting, so usage is unknown."""
    unit: str = ""
    spent: tuple[Spent, ...] = ()
