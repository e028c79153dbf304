"""The states of a job, the word for each, and how it goes: one list for every front end."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

__all__ = ["RAISED", "SAID_BY_CARD", "SAID_BY_STATE", "JobState", "state_word"]

Tone = Literal["waiting", "running", "done", "failed", "ended", "unknown"]
"""How a job goes, for colours and signs; `ended` is neither well nor badly."""


class JobState(StrEnum):
    """Slurm's states under Slurm's names, and five of ours for what Slurm has no word for."""

    # Ours, before and beside Slurm's.
    SUBMITTING = "SUBMITTING"  # recorded here; not known yet whether sbatch has accepted it
    REJECTED = "REJECTED"  # sbatch refused it, there is no job
    UNKNOWN = "UNKNOWN"  # the cluster does not answer; `problem` says since when and why
    FINISHING = "FINISHING"  # it has ended; not known yet how
    LOST = "LOST"  # its end is not known and never will be
    # Slurm's, not ended (base states and the flags that `squeue %T` prints in their place).
    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    STOPPED = "STOPPED"
    SIGNALING = "SIGNALING"
    RESIZING = "RESIZING"
    EXPEDITING = "EXPEDITING"
    STAGE_OUT = "STAGE_OUT"
    COMPLETING = "COMPLETING"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    # Slurm's, ended.
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    DEADLINE = "DEADLINE"
    NODE_FAIL = "NODE_FAIL"
    BOOT_FAIL = "BOOT_FAIL"
    PREEMPTED = "PREEMPTED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"

    @property
    def final(self) -> bool:
        """Tell whether nothing will change any more."""
        return self in _FINAL

    @property
    def word(self) -> str:
        """Return the word that users see; JupyterLab translates it."""
        return STATE_WORDS[self]

    @property
    def tone(self) -> Tone:
        """Return how the job goes."""
        return _TONES.get(self, "failed" if self.final else "waiting")


STATE_WORDS: Mapping[str, str] = MappingProxyType(
    {
        JobState.SUBMITTING: "submitting",
        JobState.REJECTED: "refused",
        JobState.UNKNOWN: "unknown",
        JobState.FINISHING: "finishing",
        JobState.LOST: "lost",
        JobState.PENDING: "waiting",
        JobState.CONFIGURING: "starting",
        JobState.RUNNING: "running",
        JobState.SUSPENDED: "suspended",
        JobState.STOPPED: "stopped",
        JobState.SIGNALING: "running",
        JobState.RESIZING: "running",
        JobState.EXPEDITING: "requeued",
        JobState.STAGE_OUT: "finishing",
        JobState.COMPLETING: "finishing",
        JobState.REQUEUED: "requeued",
        JobState.REQUEUE_FED: "requeued",
        JobState.REQUEUE_HOLD: "on hold",
        JobState.SPECIAL_EXIT: "on hold",
        JobState.RESV_DEL_HOLD: "on hold",
        JobState.REVOKED: "elsewhere",
        JobState.COMPLETED: "done",
        JobState.CANCELLED: "cancelled",
        JobState.FAILED: "failed",
        JobState.TIMEOUT: "timed out",
        JobState.DEADLINE: "missed deadline",
        JobState.NODE_FAIL: "node failed",
        JobState.BOOT_FAIL: "boot failed",
        JobState.PREEMPTED: "preempted",
        JobState.OUT_OF_MEMORY: "out of memory",
    }
)
"""A state -> its word in sidebar, card, tables, `%slurm` and terminal."""

SAID_BY_STATE = frozenset(
    {
        "Cancelled.",
        "Next in line, waiting for resources.",
        "On hold (by you).",
        "Other jobs are ahead of it in the queue.",
        "Out of memory.",
        "Time limit reached.",
    }
)
"""The reasons that say no more than the state's word."""

RAISED = r"The cell raised ([^ ]+)\."
SAID_BY_CARD = (r"Failed \(exit code [0-9]+\)\.", r"Out of memory \(peak [^)]+\)\.", RAISED)
"""Patterns of reasons that say no more than a card shows beside its state's word."""

_FINAL = frozenset(
    JobState(name)
    for name in (
        "REJECTED LOST COMPLETED CANCELLED FAILED TIMEOUT DEADLINE NODE_FAIL BOOT_FAIL PREEMPTED "
        "OUT_OF_MEMORY"
    ).split()
)
_RUNS: tuple[JobState, ...] = (
    JobState.RUNNING,
    JobState.COMPLETING,
    JobState.FINISHING,
    JobState.STAGE_OUT,
    JobState.SIGNALING,
    JobState.RESIZING,
    JobState.CONFIGURING,
)
_TONES: Mapping[JobState, Tone] = MappingProxyType(
    {
        **dict.fromkeys(_RUNS, "running"),
        JobState.COMPLETED: "done",
        JobState.CANCELLED: "ended",
        JobState.REVOKED: "ended",
        JobState.UNKNOWN: "unknown",
        JobState.LOST: "unknown",
    }
)


def state_word(name: str) -> str:
    """Return the word for a state of squeue's, which a newer Slurm may have added.

    >>> state_word("TIMEOUT"), state_word("SOMETHING_NEW")
    ('timed out', 'something new')
    """
    return STATE_WORDS.get(name) or name.lower().replace("_", " ")
