"""Rows -> the text of a table, values -> JSON. PURE; both are safe to print on a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from jupyter_slurm.readable import padded, visible, width

_NOT_ASCII = re.compile(r"[^\x20-\x7e\n]+")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with columns as wide as their longest cell, without empty columns.

    >>> print(table(["ID", "Note", "State"], [["a", "", "RUNNING"]]), end="")
    ID  STATE
    a   RUNNING
    """
    clean = [[visible(cell) for cell in row] for row in rows]
    kept = [at for at in range(len(head)) if not rows or any(row[at] for row in clean)]
    lines = [[line[at] for at in kept] for line in ([name.upper() for name in head], *clean)]
    widths = [max(width(line[at]) for line in lines) for at in range(len(kept))]
    return "".join("  ".join(map(padded, line, widths)).rstrip() + "\n" for line in lines)


def in_words_of_a_terminal(text: str) -> str:
    """Return the text with the commands of notebooks as they are typed in a terminal.

    >>> in_words_of_a_terminal("`%slurm jobs` lists them; %%slurm")
    '`jupyter slurm jobs` lists them; %%slurm'
    """
    return re.sub(r"(?<!%)%slurm ", "jupyter slurm ", text)


def as_json(value: Any) -> str:
    """Return the value as wire JSON, indented, with a newline at its end.

    Unprintable characters are escaped, so that they cannot control a terminal."""
    raw = msgspec.json.encode(value, enc_hook=str)
    text = msgspec.json.format(raw, indent=2).decode()
    return _NOT_ASCII.sub(_escaped, text) + "\n"


def _escaped(found: re.Match[str]) -> str:
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in found[0])
