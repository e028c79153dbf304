"""What the command line itself says, on stdout and stderr. What a job prints is `terminal.py`'s.

Everything else in `cli/` writes through these two: names and sentences come from elsewhere too,
and none of them may steer the terminal.
"""

from __future__ import annotations

import sys

from jupyter_slurm.readable import visible_lines


def say(text: str) -> None:
    """Write `text`, its newlines included, to stdout."""
    sys.stdout.write(visible_lines(text))


def note(text: str) -> None:
    """Write `text`, its newlines included, to stderr."""
    sys.stderr.write(visible_lines(text))
