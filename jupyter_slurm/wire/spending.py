"""Usage of a cluster by a user and the user's accounts."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Spending", "Spent"]


class Spent(Struct, frozen=True, kw_only=True):
    """Resources allocated to an account's jobs, even if unused."""

    account: str
    user: str
    """The user; "" for all users that Slurm shows."""
    jobs: int
    cpu_hours: float
    gpu_hours: float
    units: float | None = None
    """The site's charge, in `Spending.unit`; None if the profile has no price."""
    unpriced: int = 0
    """The number of jobs that `units` omits because their partition has no price."""


class Spending(Struct, frozen=True, kw_only=True):
    cluster: str
    since_s: float
    asked_s: float
    accounting: bool
    """False if Slurm has no accounting, so usage is unknown."""
    unit: str = ""
    spent: tuple[Spent, ...] = ()
