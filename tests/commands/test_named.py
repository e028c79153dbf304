"""Commands in the messages of packages below the front ends. Every front end must have these
commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jupyter_slurm
from jupyter_slurm.commands.arguments import commands
from jupyter_slurm.commands.command import Place

BELOW = "agent jobs transport containers slurm profiles wire".split()
PLACES: tuple[Place, ...] = ("terminal", "notebook")
NAMED = re.compile(r"(?<!%)(%slurm|jupyter slurm) ([a-z ]+)")


def literals() -> Iterator[tuple[str, str]]:
    """Yield every string in the packages below the front ends, except docstrings, and its file."""
    package = Path(jupyter_slurm.__file__).parent
    for file in (one for name in BELOW for one in (package / name).rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        remarks = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node not in remarks:
                yield str(node.value), str(file.relative_to(package))


def places_of(words: str) -> set[Place]:
    """Return the front ends that have the command at the start of these words."""
    there: dict[str, set[Place]] = {}
    for place in PLACES:
        for one in commands(place):
            there.setdefault(one.name, set()).add(place)
    known = [name for name in there if f"{words} ".startswith(f"{name} ")]
    return there[max(known, key=len)] if known else set()


def test_commands_in_messages_exist_in_every_front_end() -> None:
    named = [(found, file) for text, file in literals() for found in NAMED.findall(text)]
    wrong = [
        (file, before, words)
        for (before, words), file in named
        if places_of(words) != (set(PLACES) if before == "%slurm" else {"terminal"})
    ]
    assert named
    assert wrong == []
