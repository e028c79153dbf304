"""PURE. Find commands in `table.py`, and read the words after one by its arguments and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from jupyter_slurm.commands import line
from jupyter_slurm.commands.command import Command, OurOption, Place, options_of
from jupyter_slurm.commands.scanner import Item, scan
from jupyter_slurm.commands.submitting import CELL
from jupyter_slurm.commands.table import SECTIONS
from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.kinds import kind_for
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.wire import SpecT


def sections(place: Place) -> dict[str, list[Command]]:
    """Return the commands that may be used there, below the titles of their sections."""
    there = {
        title: [command for command in section if command.only in (None, place)]
        for title, section in SECTIONS.items()
    }
    return {title: section for title, section in there.items() if section}


def commands(place: Place) -> list[Command]:
    return [command for section in sections(place).values() for command in section]


def below(words: tuple[str, ...], place: Place) -> dict[str, Command]:
    """Return the commands one word further, by that word."""
    return {
        command.words[-1]: command for command in commands(place) if command.words[:-1] == words
    }


def named(name: str) -> Command:
    """Return the command of that name, which must mean the same in every place."""
    return next(one for section in SECTIONS.values() for one in section if one.name == name)


def of_cells(command: Command) -> dict[str, OurOption]:
    """Return the options of a cell that the command takes."""
    if not command.of_job:
        return {}
    return {
        name: one
        for name, one in CELL.options.items()
        if name not in command.refused and name not in command.options
    }


_OF_SLURM = ("salloc", "srun")
"""Slurm's commands that people type for an allocation where they can work."""


class Arguments(SimpleNamespace):
    """The value of each argument and option of a command, with `_` for `-`. If the command takes a
    job's options too, `words` has those. `rest` has the words behind `--`; `typed` has the text of
    each given option, the last one's."""

    typed: dict[str, str]
    words: list[str]
    rest: tuple[str, ...]


def find(words: list[str], place: Place) -> tuple[Command, list[str]]:
    """Return the command that the words begin with, and the words behind it. RequestError."""
    found: Command | None = None
    there = below((), place)
    while there:
        word = words[0] if words else ""
        if found is not None and (not word or word.startswith("-")):
            return there[found.usual], words
        if word not in there:
            typed = " ".join(("%slurm", *(found.words if found else ())))
            if word in _OF_SLURM and found is None:
                raise RequestError(
                    f"`{word}` is Slurm's word for an allocation, and is not run from here.",
                    hint="`%slurm shell OPTIONS` opens a terminal in an allocation, `%slurm "
                    "session start OPTIONS` keeps one for the cells of a notebook.",
                )
            near = suggest(word, tuple(there))
            raise RequestError(
                f"`{typed} {word}`: there is no such word.",
                hint=f"Did you mean `{typed} {near}`?"
                if near in there
                else f"There are: {', '.join(there)}.",
            )
        found, words = there[word], words[1:]
        there = below(found.words, place)
    assert found is not None
    return found, words


def read_arguments(command: Command, words: Sequence[str], place: Place = "terminal") -> Arguments:
    """Read the words behind a command. RequestError names the wrong word."""
    known = options_of(command, place)
    args = Arguments(
        typed={}, words=[], rest=(), **{_field(name): _unset(one) for name, one in known.items()}
    )
    _place(args, _take(args, words, command, known), command, place)
    for name, option in known.items():
        if option.required and getattr(args, _field(name)) is None:
            raise RequestError(
                f"`{command.name}` needs --{name} {option.metavar}.",
                hint=_usage(command, place),
            )
    return args


def _take(
    args: Arguments, words: Sequence[str], command: Command, known: Mapping[str, OurOption]
) -> list[str]:
    """Take the options; return the other words, which are for the arguments."""
    plain: list[str] = []
    for item in scan(words, known):
        if item.name is not None and item.name in known:
            _set(args, item.name, known[item.name], item.value)
        elif item.words[0] == "--" and command.rest:
            args.rest = item.words[1:]
        elif _is_plain(item, command):
            plain += item.words[item.words[0] == "--" :]
        elif command.of_job:
            args.words += item.words
        else:
            raise RequestError(f"`%slurm {command.name}` has no option `{item.words[0]}`.")
    is_needed = any(argument.is_needed for argument in command.arguments)
    if not plain and is_needed and _may_lack_value(args.words[-2:-1]):
        plain = [args.words.pop()]  # `submit --session FILE`: the session needs no name
    return plain


def _may_lack_value(words: Sequence[str]) -> bool:
    """Tell whether the words name an option of a cell whose value may be left out."""
    return any(
        word == f"--{name}" and option.metavar.startswith("[")
        for word in words
        for name, option in CELL.options.items()
    )


def _is_plain(item: Item, command: Command) -> bool:
    """Tell whether the item is for an argument. If the command has none, `line.py` reports what is
    wrong."""
    first = item.words[0]
    is_word = first in ("-", "--") or not first.startswith("-")
    return is_word and not (command.of_job and not command.arguments)


def of_job(command: Command, words: Sequence[str]) -> line.Request:
    """Read the options of a job that the command asks for. RequestError."""
    for item in scan(words):
        if item.name in command.refused:
            hint = command.instead.get(item.name)
            raise RequestError(command.refusal.format(item.name), option=item.name, hint=hint)
    return line.parse(words)


def job_spec(
    made: type[SpecT],
    args: Arguments,
    *,
    job_id: str,
    notebook: str | None = None,
    before: Sequence[str] = (),
) -> tuple[line.Request, SpecT]:
    """Make the job that the command of its kind asks for, with the options `before` for every job.
    RequestError names the wrong word."""
    command = named(kind_for(made).command)
    request = of_job(command, line.after(before, args.words))
    own = {
        option.says: getattr(args, _field(name))
        for name, option in command.options.items()
        if option.says
    }
    return request, line.spec(made, request, "", job_id=job_id, notebook=notebook, **own)


def _field(name: str) -> str:
    return name.replace("-", "_")


def _unset(option: OurOption) -> Any:
    if option.repeated:
        return ()
    return option.default if option.metavar else False


def _set(args: Arguments, name: str, option: OurOption, text: str | None) -> None:
    if not option.metavar:
        if text is not None:
            raise RequestError(f"--{name} takes no value, not `{text}`.", option=name)
        setattr(args, _field(name), True)
        return
    if text is None:
        raise RequestError(
            f"--{name} needs a value: --{name} {option.metavar}.",
            option=name,
        )
    read: Callable[[str], Any] = option.read
    try:
        value = read(text)
    except ValueError as exc:
        raise RequestError(f"--{name}: {exc}", option=name) from exc
    args.typed[name] = text
    before = getattr(args, _field(name))
    setattr(args, _field(name), (*before, value) if option.repeated else value)


def _place(args: Arguments, plain: Sequence[str], command: Command, place: Place) -> None:
    """Assign the words that are not options to the arguments, in order."""
    usage, left = _usage(command, place), tuple(plain)
    for argument in command.arguments:
        given, left = (left, ()) if argument.is_many else (left[:1], left[1:])
        if not given and argument.is_needed:
            if command.is_cell_magic:
                raise RequestError(
                    f"`%%{command.name}` needs {argument.usage}.",
                    hint=usage,
                )
            raise RequestError(
                f"Missing {'job ID' if argument.of == 'job' else argument.usage}.",
                hint=usage,
            )
        if argument.choices and given[0] not in argument.choices:
            raise RequestError(f"`{given[0]}` is not {argument.usage}.", hint=usage)
        if argument.is_many:
            setattr(args, argument.name, given)
        elif given or not hasattr(args, argument.name):
            setattr(args, argument.name, given[0] if given else None)
    if left:
        if command.of_job:
            of_job(command, args.words)  # an unknown option explains more than the word behind it
        raise RequestError(f"`{left[0]}` is one word too many.", hint=usage)


def _usage(command: Command, place: Place) -> str:
    return f"`{'%%' if command.is_cell_magic else '%slurm '}{command.usage(place)}`"
