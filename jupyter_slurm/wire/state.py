"""Job states with their words and tones, for every front end."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

__all__ = ["RAISED", "SAID_BY_CARD", "SAID_BY_STATE", "JobState", "state_word"]

Tone = Literal["waiting", "running", "done", "failed", "ended", "unknown"]
"""The tone of a state, which sets its colour and sign; `ended` is neutral."""


class JobState(StrEnum):
    """Slurm's states under Slurm's names, and five states of our own."""

    # Our own states, which Slurm does not report.
    SUBMITTING = "SUBMITTING"  # recorded; sbatch has not accepted it yet
    REJECTED = "REJECTED"  # sbatch refused the job
    UNKNOWN = "UNKNOWN"  # the cluster does not answer; see `problem`
    FINISHING = "FINISHING"  # ended, with an outcome not known yet
    LOST = "LOST"  # ended, with an outcome that cannot be known
    # Slurm's states before the end: base states, and flags that `squeue %T` prints instead.
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
    # Slurm's final states.
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
        """Return whether the state is final."""
        return self in _FINAL

    @property
    def word(self) -> str:
        """Return the word shown to users; JupyterLab translates it."""
        return STATE_WORDS[self]

    @property
    def tone(self) -> Tone:
        """Return the state's tone."""
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
"""The word for each state in the sidebar, cards, tables, `%slurm` and the terminal."""

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
"""Reasons that add nothing to the state's label."""

RAISED = r"The cell raised ([^ ]+)\."
SAID_BY_CARD = (r"Failed \(exit code [0-9]+\)\.", r"Out of memory \(peak [^)]+\)\.", RAISED)
"""Patterns of reasons that add nothing to a card."""

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
    """Return the word for a state in squeue, possibly a state that only newer releases have.

    >>> state_word("TIMEOUT"), state_word("SOMETHING_NEW")
    ('timed out', 'something new')
    """
    return STATE_WORDS.get(name) or name.lower().replace("_", " ")
