"""PURE: the words before the cursor -> the completions of the word at it, by `table.py`.

This does not know names of clusters, jobs and files: it only says that one is wanted.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_slurm.commands.arguments import below, of_cells
from jupyter_slurm.commands.command import Command, OurOption, Place, options_of
from jupyter_slurm.commands.scanner import scan
from jupyter_slurm.commands.submitting import CELL
from jupyter_slurm.slurm.options import OPTIONS

_OF_SCRIPTS = ("cluster", "name", "push", "push-exclude", "fetch", "dry-run")
"""Our options that a batch script can have."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The completions that fit at the cursor."""

    words: tuple[tuple[str, str], ...] = ()
    """Each with a description."""
    value: str = ""
    """Or the option whose value is at the cursor, or what the word names ("job", "path" …)."""


def split(line: str) -> tuple[list[str], str]:
    """Split the text before the cursor into words and the beginning of one.

    >>> split("jupyter slurm push 'a b' --excl")
    (['jupyter', 'slurm', 'push', 'a b'], '--excl')
    """
    try:
        words = shlex.split(line)
    except ValueError:  # within quotes
        words = line.split()
    return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])


def in_line(before: Sequence[str], last: str, place: Place) -> Wanted:
    """Return what may follow `jupyter slurm` or `%slurm` and the words `before`."""
    command, rest = None, list(before)
    further = below((), place)
    while rest and rest[0] in further:
        command, *rest = further[rest[0]], *rest[1:]
        further = below(command.words, place)
    if command is None or (further and not rest and not last.startswith("-")):
        found = () if rest else tuple((word, "command") for word in further)
        return Wanted(found)
    command = further.get(command.usual, command)
    return _in_command(command, rest, last, options_of(command, place))


def _in_command(
    command: Command, before: Sequence[str], last: str, own: Mapping[str, OurOption]
) -> Wanted:
    known = {**of_cells(command), **own}
    option = _option_of_value(before, last, known, of_sbatch=command.of_job)
    if option is not None:
        return Wanted(value=option)
    items = list(scan(before, own))
    plain = [item for item in items if not item.words[0].startswith("-")]
    arguments = [one for one in command.arguments for _ in range(1 + one.is_many * len(plain))]
    if not last.startswith("-") and len(plain) < len(arguments):
        argument = arguments[len(plain)]
        if argument.choices:
            return Wanted(tuple((choice, "value") for choice in argument.choices))
        return Wanted(value=argument.of)
    theirs = _of_sbatch(in_cell=True) if command.of_job else ()
    return Wanted((*((f"--{name}", "option") for name in known), *theirs))


def in_cell(before: Sequence[str], last: str, *, script: bool = False) -> Wanted:
    """Return what may follow `%%slurm` or `%%sbatch` and the words `before`."""
    option = _option_of_value(before, last, CELL.options, of_sbatch=True)
    if option is not None:
        return Wanted(value=option)
    ours = tuple((f"--{name}", "option") for name in (_OF_SCRIPTS if script else CELL.options))
    return Wanted((*ours, *_of_sbatch(in_cell=not script)))


def choices(option: str) -> tuple[str, ...]:
    """Return the values of an option if they are few and fixed, else ()."""
    if option in CELL.options:
        metavar = CELL.options[option].metavar
        return tuple(metavar.split("|")) if "|" in metavar else ()
    return OPTIONS[option].choices if option in OPTIONS else ()


def _of_sbatch(*, in_cell: bool) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"--{name}", "option of sbatch")
        for name, one in sorted(OPTIONS.items())
        if one.reserved is None and not (in_cell and one.not_in_cell)
    )


def _option_of_value(
    before: Sequence[str], last: str, known: Mapping[str, OurOption], *, of_sbatch: bool
) -> str | None:
    """Return the long name of the option whose value stands at the cursor."""
    if last.startswith("--") and "=" in last:
        return last[2:].partition("=")[0]
    if last.startswith("-") or not before or not before[-1].startswith("-"):
        return None
    word = before[-1]
    for name, option in known.items():
        if word in (f"--{name}", f"-{option.short}"):
            return name if option.metavar else None
    for name, theirs in OPTIONS.items() if of_sbatch else ():
        if word in (f"--{name}", f"-{theirs.short}"):
            return name if theirs.kind != "flag" else None
    return None
