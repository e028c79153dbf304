"""Write `docs/reference.md`, every command and option, from the tables that the parsers use.

`python -m tests.recorded.reference` writes that file anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from jupyter_slurm.commands.command import Command, OurOption, Place
from jupyter_slurm.commands.submitting import CELL
from jupyter_slurm.commands.table import SECTIONS
from jupyter_slurm.slurm.options import OPTIONS

FILE = Path(__file__).parents[2] / "docs" / "reference.md"
_TYPED: Mapping[Place, str] = {"terminal": "jupyter slurm", "notebook": "%slurm"}
_HEAD = (
    "# Every command\n\n"
    "`jupyter slurm …` in a terminal, `%slurm …` in a notebook. `[OPTIONS]` are "
    "[those of a job](#options-of-a-job).\n\n"
    "Both speak the language that LANGUAGE, LC_ALL, LC_MESSAGES or LANG names, as far as there is "
    "a catalogue; help and JSON stay English.\n\n"
    "This page is made by `python -m tests.recorded.reference`.\n"
)
_OPTIONS = (
    "## Options of a job\n\n"
    "Cells (`%%slurm`) take all of these, and so does every command with `[OPTIONS]`, but for "
    "those that mean nothing there: it says so.\n"
)
_SBATCH = """\

Options of sbatch, under Slurm's own names:
"""


def whole() -> str:
    return "".join(line + "\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for title, section in SECTIONS.items():
        yield f"## {title}\n"
        for command in section:
            yield from _command(command)
    yield _OPTIONS
    yield from _table(CELL.options)
    yield _SBATCH
    yield from ("| option | |", "|---|---|")
    for name, one in sorted(OPTIONS.items()):
        if one.reserved is None:
            left = f"`-{one.short}`, `--{name}`" if one.short else f"`--{name}`"
            only = "" if one.not_in_cell is None else " (batch scripts only)"
            yield f"| {left} | {_cell(one.help)}{only} |"


def _command(command: Command) -> Iterator[str]:
    places = [place for place in _TYPED if command.only in (None, place)]
    yield f"### {command.name}\n\n{command.help[0].upper()}{command.help[1:]}.\n"
    if command.usual:
        yield f"By itself it is `{command.name} {command.usual}`.\n"
        return
    yield "```"
    yield from (f"{_TYPED[place]} {command.usage(place)}" for place in places)
    yield "```\n"
    if command.more:
        yield f"{command.more}\n"
    arguments = {one.metavar or "|".join(one.choices): one.help for one in command.arguments}
    if arguments or command.options:
        yield from ("| | |", "|---|---|")
        yield from (f"| {_code(metavar)} | {_cell(text)} |" for metavar, text in arguments.items())
        yield from _rows(command.options, tells_place=command.only is None)
        yield ""


def _table(options: Mapping[str, OurOption]) -> Iterator[str]:
    yield from ("| option | |", "|---|---|")
    yield from _rows(options)


def _rows(options: Mapping[str, OurOption], *, tells_place: bool = True) -> Iterator[str]:
    for name, one in options.items():
        short = f"`-{one.short}`, " if one.short else ""
        only = f" ({one.only} only)" if one.only and tells_place else ""
        yield f"| {short}{_code(f'--{name} {one.metavar}'.rstrip())} | {_cell(one.help)}{only} |"


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(whole(), encoding="utf-8")
