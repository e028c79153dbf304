"""Which terminal is asked for; its bytes are no matter of the wire."""

from __future__ import annotations

from msgspec import Struct


class TerminalRequest(Struct, frozen=True, kw_only=True):
    """The terminal of a job of kind TERMINAL, the messages of one of kind KERNEL (in the frames of
    node/kernel_frames.py), or a terminal beside what a job runs."""

    job_id: str
    """Ours, or Slurm's."""
    code: str
    """What runs in one that is made for this: sh text."""
    beside: bool = False
    """Another one, also where the job has one of its own."""
