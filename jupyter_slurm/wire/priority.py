"""The priorities of waiting jobs."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["JobPriority", "Priorities"]


class JobPriority(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A waiting job of this user's in one of its partitions; an array is one job."""

    slurm_id: str
    partition: str
    priority: int
    before: int
    """The number of jobs that wait in the partition and are before it, as far as Slurm shows them
    to this user."""
    waiting: int
    """The number of jobs that wait there, this one too."""
    given: dict[str, float] = field(default_factory=dict)
    """The share of each factor in the priority, by Slurm's names (`age`, `fairshare`, `jobsize`,
    `partition`, `qos`, `association`, `site`, `tres`, `nice`); without those that give nothing."""
    id: str | None = None
    """Our id, where the job is one of ours."""
    name: str | None = None


class Priorities(Struct, frozen=True, kw_only=True):
    """This user's waiting jobs, the highest priority first, and what is to be said of them."""

    jobs: tuple[JobPriority, ...]
    said: tuple[str, ...] = ()
    """Sentences: of one job, if one was asked for; else why there is none."""
