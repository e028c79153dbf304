"""The priorities of waiting jobs."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["JobPriority"]


class JobPriority(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The priority of a waiting job in one of its partitions; an array is one job."""

    slurm_id: str
    partition: str
    priority: int
    before: int
    """The number of jobs ahead in the partition, as far as this user is allowed to see them."""
    waiting: int
    """The number of waiting jobs in the partition, including this one."""
    given: dict[str, float] = field(default_factory=dict)
    """Points by factor, in Slurm's names (`age`, `fairshare`, `jobsize`, `partition`, `qos`,
    `association`, `site`, `tres`, `nice`), without zeros."""
