"""Write the command line's own words to stdout and stderr; `terminal.py` writes a job's output.

All of `cli/` but `terminal.py` writes through these two, because names and sentences may come from
a cluster and must not steer the terminal.
"""

from __future__ import annotations

import sys

from jupyter_slurm.cli.table import in_words_of_a_terminal
from jupyter_slurm.readable import visible_lines
from jupyter_slurm.wire import Text, said


def say(text: str) -> None:
    """Write `text`, its newlines included, to stdout."""
    sys.stdout.write(visible_lines(text))


def note(text: str) -> None:
    """Write `text`, its newlines included, to stderr, with commands as in a terminal."""
    sys.stderr.write(visible_lines(in_words_of_a_terminal(text)))


def tell(text: Text, /, **args: object) -> None:
    """Write a sentence on a line of its own to stdout."""
    say(f"{in_words_of_a_terminal(said(text, **args))}\n")


def remark(text: Text, /, **args: object) -> None:
    """Write the same to stderr."""
    note(f"{said(text, **args)}\n")
