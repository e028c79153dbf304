"""Functions that write our own text to stdout and stderr. `terminal.py` writes a job's output.

All other modules of `cli/` use these functions, because names and sentences may come from a cluster
and must not control the terminal. Sentences show commands in the form for a terminal.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import msgspec

from jupyter_slurm.commands.parsing import in_words_of_a_terminal
from jupyter_slurm.formatting import visible_lines

_NOT_ASCII = re.compile(r"[^\x20-\x7e\n]+")


def say(text: str) -> None:
    """Write data to stdout, without an added newline."""
    sys.stdout.write(visible_lines(text))


def note(text: str) -> None:
    """Write sentences to stderr, without an added newline."""
    sys.stderr.write(visible_lines(in_words_of_a_terminal(text)))


def tell(text: str) -> None:
    """Write sentences and a newline to stdout."""
    say(f"{in_words_of_a_terminal(text)}\n")


def remark(text: str) -> None:
    """Write sentences and a newline to stderr."""
    note(f"{text}\n")


def say_json(value: Any) -> None:
    """Write the value as indented JSON to stdout.

    Unprintable characters are escaped, so that they cannot control a terminal."""
    raw = msgspec.json.encode(value, enc_hook=str)
    say(_NOT_ASCII.sub(_escaped, msgspec.json.format(raw, indent=2).decode()) + "\n")


def _escaped(found: re.Match[str]) -> str:
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in found[0])
