"""One thing that is done to many jobs of a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from jupyter_slurm.wire.problem import Problem

__all__ = ["Action", "ActionState", "ActionVerb", "Refusal"]

ActionVerb = Literal["cancel", "hold", "release", "requeue"]


class ActionState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class Refusal(Struct, frozen=True, kw_only=True):
    """A job to which it could not be done."""

    job: str
    """Slurm's id; ours where the job has none."""
    why: str


class Action(Struct, frozen=True, kw_only=True):
    """What is done to many jobs, each task of an array being one, and how far that is."""

    id: str
    cluster: str
    verb: ActionVerb
    state: ActionState
    jobs: int
    done: int = 0
    """The number of jobs that Slurm was asked about so far, with those it refused."""
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    """Those refused; in `Changes` the first of them."""
    began_s: float
    ended_s: float | None = None
    problem: Problem | None = None
    """Why it FAILED; the jobs that are not done are as they were, as far as is known."""
