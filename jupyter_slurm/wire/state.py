"""The states of a job."""

from __future__ import annotations

from enum import StrEnum


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


_FINAL = frozenset(
    JobState(name)
    for name in (
        "REJECTED LOST COMPLETED CANCELLED FAILED TIMEOUT DEADLINE NODE_FAIL BOOT_FAIL PREEMPTED "
        "OUT_OF_MEMORY"
    ).split()
)
