"""Actions on many jobs at once, and the jobs for which Slurm refused them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["JobVerb", "Refusal"]

JobVerb = Literal["cancel", "hold", "release", "requeue"]


class Refusal(Struct, frozen=True, kw_only=True):
    """A job that Slurm did not change."""

    job: str
    """Slurm's ID; our ID for a job without a Slurm ID."""
    why: str
