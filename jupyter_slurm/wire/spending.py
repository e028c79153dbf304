"""The use of a cluster by a user and their accounts."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Spending", "Spent"]


class Spent(Struct, frozen=True, kw_only=True):
    """The resources that an account's jobs held, used or not."""

    account: str
    user: str
    """"": all users together, as far as Slurm shows them."""
    jobs: int
    cpu_hours: float
    gpu_hours: float
    units: float | None = None
    """The site's charge, in `Spending.unit`; None: the profile has no price."""
    unpriced: int = 0
    """The number of jobs that are not in `units`, because their partition has no price."""


class Spending(Struct, frozen=True, kw_only=True):
    cluster: str
    since_s: float
    asked_s: float
    accounting: bool
    """False: Slurm keeps no accounting, so the use is unknown."""
    unit: str = ""
    spent: tuple[Spent, ...] = ()
