"""The use of a cluster by a user and their accounts, and their limits."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Quota", "Spending", "Spent"]


class Spent(Struct, frozen=True, kw_only=True):
    """Counts what the jobs of an account have held, whether they used it or not."""

    account: str
    user: str
    """"": all users together, as far as Slurm shows them."""
    jobs: int
    cpu_hours: float
    gpu_hours: float
    billing_hours: float
    """In Slurm's `billing`."""
    units: float | None = None
    """The site's charge, in `Spending.unit`; None: the profile has no price."""
    unpriced: int = 0
    """The number of jobs that are not in `units`, since their partition has no price."""


class Quota(Struct, frozen=True, kw_only=True):
    """Limits how much of a resource an account may use in all."""

    account: str
    user: str
    """"": all users together."""
    tres: str
    """Slurm's name: `cpu`, `gres/gpu`, `billing` …; of `mem` it is MiB."""
    limit_hours: float
    used_hours: float
    """The use that Slurm counts, which may leave out old use."""


class Spending(Struct, frozen=True, kw_only=True):
    cluster: str
    since_s: float
    asked_s: float
    accounting: bool
    """False: Slurm keeps no accounting there, so that nothing is known."""
    unit: str = ""
    weighed: bool = False
    """Whether the cluster weighs resources, so that `billing` is more than the CPUs."""
    spent: tuple[Spent, ...] = ()
    quotas: tuple[Quota, ...] = ()
