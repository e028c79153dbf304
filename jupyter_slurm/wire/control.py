"""What can be done to many jobs at once, and the jobs that refuse it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["JobVerb", "Refusal"]

JobVerb = Literal["cancel", "hold", "release", "requeue"]


class Refusal(Struct, frozen=True, kw_only=True):
    """A job that stays as it was."""

    job: str
    """Slurm's ID; ours if the job has none."""
    why: str
