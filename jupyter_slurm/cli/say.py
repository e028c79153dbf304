"""Write the command line's own words to stdout and stderr; `terminal.py` writes a job's output.

All of `cli/` but `terminal.py` writes through these, because names and sentences may come from
a cluster and must not steer the terminal. Sentences show commands as in a terminal.
"""

from __future__ import annotations

import sys

from jupyter_slurm.cli.table import in_words_of_a_terminal
from jupyter_slurm.readable import visible_lines


def say(text: str) -> None:
    """Write data, its newlines included, to stdout."""
    sys.stdout.write(visible_lines(text))


def note(text: str) -> None:
    """Write sentences, their newlines included, to stderr."""
    sys.stderr.write(visible_lines(in_words_of_a_terminal(text)))


def tell(text: str) -> None:
    """Write sentences and a newline to stdout."""
    say(f"{in_words_of_a_terminal(text)}\n")


def remark(text: str) -> None:
    """Write sentences and a newline to stderr."""
    note(f"{text}\n")
