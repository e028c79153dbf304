"""The look-up of commands in `table.py`, the parsing of their arguments, and their help. No I/O."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jupyter_slurm.commands import line
from jupyter_slurm.commands.command import Command, OurOption, Place, options_of
from jupyter_slurm.commands.parsing import (
    Arguments,
    JobOption,
    Parser,
    add_of_cells,
    add_of_sbatch,
    add_own,
    as_words,
    before_dashes,
    field,
    in_words_of_a_terminal,
    is_option,
    job_options,
    not_an_option,
    plain_help,
    read_options,
)
from jupyter_slurm.commands.submitting import CELL
from jupyter_slurm.commands.table import SECTIONS
from jupyter_slurm.errors import RequestError
from jupyter_slurm.slurm.options import OPTIONS, suggest
from jupyter_slurm.wire import SpecT

_ALLOCATING = ("salloc", "srun")
"""Slurm's commands for interactive allocations."""
_DESCRIPTION = "Run jobs on Slurm clusters, from terminals and notebooks."
_EPILOG = (
    "Show details with `jupyter slurm COMMAND --help`. The environment variable "
    "JUPYTER_SLURM_CLUSTER sets the default of --cluster."
)


def sections(place: Place) -> dict[str, list[Command]]:
    """Return the commands for terminals or notebooks, by section title."""
    there = {
        title: [command for command in section if command.only in (None, place)]
        for title, section in SECTIONS.items()
    }
    return {title: section for title, section in there.items() if section}


def commands(place: Place) -> list[Command]:
    return [command for section in sections(place).values() for command in section]


def below(words: tuple[str, ...], place: Place) -> dict[str, Command]:
    """Return the subcommands of the command `words`, by their last word."""
    return {
        command.words[-1]: command for command in commands(place) if command.words[:-1] == words
    }


def starting(made: type[object]) -> Command | None:
    """Return the command that starts a job with this kind of spec; None if a cell starts it."""
    everything = (command for section in SECTIONS.values() for command in section)
    return next((command for command in everything if command.starts is made), None)


def of_cells(command: Command) -> dict[str, OurOption]:
    """Return the cell options that the command accepts."""
    if not command.of_job:
        return {}
    return {
        name: one
        for name, one in CELL.options.items()
        if name not in command.refused and name not in command.options
    }


def find(words: list[str], place: Place) -> tuple[Command, list[str]]:
    """Return the command at the start of the words, and the other words. Raises RequestError."""
    found: Command | None = None
    there = below((), place)
    while there:
        word = words[0] if words else ""
        if found is not None and (not word or word.startswith("-")):
            return there[found.usual], words
        if word not in there:
            raise _no_command(word, found, there)
        found, words = there[word], words[1:]
        there = below(found.words, place)
    assert found is not None
    return found, words


def _no_command(word: str, found: Command | None, there: Mapping[str, Command]) -> RequestError:
    typed = " ".join(("%slurm", *(found.words if found else ())))
    if word in _ALLOCATING and found is None:
        return RequestError(
            f"`{word}` is not supported.",
            hint="Open a terminal in an allocation with `%slurm shell OPTIONS`, or start a session "
            "for cells with `%slurm session start OPTIONS`.",
        )
    near = suggest(word, tuple(there))
    return RequestError(
        f"Unknown command `{typed} {word}`.",
        hint=f"Did you mean `{typed} {near}`?" if near in there else f"Use {', '.join(there)}.",
    )


def read_arguments(command: Command, words: Sequence[str], place: Place = "terminal") -> Arguments:
    """Parse the arguments of a command. Raise a RequestError that names the invalid word."""
    unset = {field(name): _unset(option) for name, option in command.options.items()}
    args = Arguments(typed={}, options=[], rest=(), **unset)
    before, after = before_dashes(words)
    left = read_options(command, before, place, args)
    if command.of_job and left and (not command.arguments or any(map(is_option, left))):
        raise not_an_option(left, args.options)
    if wrong := next(filter(is_option, left), None):
        raise RequestError(f"`%slurm {command.name}` has no option `{wrong}`.")
    if command.rest:
        args.rest = tuple(after)
    else:
        left += after
    is_needed = any(argument.is_needed for argument in command.arguments)
    if is_needed and not left and args.options and args.options[-1][0] == "session":
        name, value = args.options.pop()  # in `submit --session FILE` the value is FILE
        args.options.append((name, None))
        left = [value] if value is not None else []
    _assign(args, left, command, place)
    return args


def _unset(option: OurOption) -> Any:
    if option.repeated:
        return ()
    return option.default if option.metavar else False


def _assign(args: Arguments, words: Sequence[str], command: Command, place: Place) -> None:
    """Assign positional words to the arguments, in order. argparse cannot do this if there are
    options between the words."""
    usage = f"`{'%%' if command.is_cell_magic else '%slurm '}{command.usage(place)}`"
    left = tuple(words)
    for argument in command.arguments:
        given, left = (left, ()) if argument.is_many else (left[:1], left[1:])
        if not given and argument.is_needed:
            what = "job ID" if argument.of == "job" else argument.usage
            raise RequestError(f"Missing {what}.", hint=usage)
        if argument.choices and given[0] not in argument.choices:
            raise RequestError(f"`{given[0]}` is not {argument.usage}.", hint=usage)
        if argument.is_many:
            setattr(args, argument.name, given)
        elif given or not hasattr(args, argument.name):
            setattr(args, argument.name, given[0] if given else None)
    if left:
        raise RequestError(f"`{left[0]}` is an extra argument.", hint=usage)


def of_job(command: Command, words: Sequence[str]) -> line.Request:
    """Parse the job options of the command. Raises RequestError."""
    for name, _ in job_options(words):
        if name in command.refused:
            hint = command.instead.get(name)
            raise RequestError(command.refusal.format(name), option=name, hint=hint)
    return line.parse(words)


def job_spec(
    made: type[SpecT],
    args: Arguments,
    *,
    job_id: str,
    notebook: str | None = None,
    before: Sequence[str] = (),
) -> tuple[line.Request, SpecT]:
    """Return the request and spec of a job to start. The options `before` apply to every job. Raise
    a RequestError that names the invalid word."""
    command = starting(made)
    assert command is not None
    request = of_job(command, line.after(before, args.words))
    own = {
        option.says: getattr(args, field(name))
        for name, option in command.options.items()
        if option.says
    }
    usual_name = command.words[0]
    spec = line.spec(
        made, request, "", job_id=job_id, notebook=notebook, usual_name=usual_name, **own
    )
    return request, spec


def take(command: Command, words: Sequence[str], name: str) -> tuple[list[str], list[str]]:
    """Return the words without the option `name`, and its values. Raises RequestError."""
    args = read_arguments(command, words)
    options = [*args.options, *args.typed.items()]
    rest = as_words(option for option in options if option[0] != name)
    return rest, [value or "" for one, value in options if one == name]


def with_values(options: Iterable[JobOption], variables: Mapping[str, str]) -> list[JobOption]:
    """Give each `--env NAME` the value exported by the shell. Raise RequestError if the shell does
    not export NAME.

    >>> with_values([("env", "TOKEN"), ("env", "A=b"), ("gpus", "1")], {"TOKEN": "x"})
    [('env', 'TOKEN=x'), ('env', 'A=b'), ('gpus', '1')]
    """
    return [
        (name, _with_value(value, variables) if name == "env" and value else value)
        for name, value in options
    ]


def _with_value(text: str, variables: Mapping[str, str]) -> str:
    if "=" in text:
        return text
    if text not in variables:
        raise RequestError(
            f"--env: the shell does not export `{text}`.",
            hint="Export it, or use NAME=VALUE, which other users of this machine can see.",
            option="env",
        )
    return f"{text}={variables[text]}"


# --- help and completion ----------------------------------------------------------------------

Completer = Callable[..., Iterable[str]]
"""A completer for argcomplete, called with the beginning of a word as `prefix`."""
Completers = Callable[[str], Completer]
"""A function that returns the completer for an option or a kind of argument."""
_OF_SCRIPTS = ("cluster", "name", "after", "push", "push-exclude", "fetch", "dry-run")
"""Our options that batch scripts accept."""


def help_text(words: tuple[str, ...]) -> str:
    """Return the help of a command or, without words, of the program."""
    parser = Parser(" ".join(("jupyter slurm", *words)), allow_abbrev=False)
    command = next((one for one in commands("terminal") if one.words == words), None)
    if command is not None:
        _describe(parser, command, "terminal")
    else:
        parser.description, parser.epilog = _DESCRIPTION, _EPILOG
        parser.add_argument("--version", action="store_true", help="print the version")
    if further := below(words, "terminal"):
        inner = parser.add_subparsers(metavar="COMMAND")
        for word, one in further.items():
            inner.add_parser(word, help=plain_help(one.help))
    return parser.format_help()


def _describe(parser: Parser, command: Command, place: Place) -> list[argparse.Action]:
    """Add a command's arguments, options and help texts to a parser. Return the actions that take
    values."""
    parser.description = in_words_of_a_terminal(command.help)
    parser.epilog = in_words_of_a_terminal(command.more)
    actions = [
        parser.add_argument(
            one.name,
            nargs=None if one.count == "1" else one.count,
            metavar=None if one.choices else one.metavar,
            choices=one.choices or None,
            help=plain_help(one.help),
        )
        for one in command.arguments
    ]
    shown = below(command.words, place)[command.usual] if command.usual else command
    actions += add_own(parser, options_of(shown, place))
    if command.of_job:
        parser.usage = f"jupyter slurm {command.usage(place)}"
        others = parser.add_argument_group(
            "OPTIONS", "any option of sbatch, and the following options"
        )
        actions += add_of_cells(others, of_cells(command))
    return actions


def completing_parser(place: Place, completers: Completers) -> Parser:
    """Return the parser of all commands, for completion."""
    parser = Parser(allow_abbrev=False)
    _add_below(parser, (), place, completers)
    return parser


def _add_below(
    parser: Parser, words: tuple[str, ...], place: Place, completers: Completers
) -> None:
    further = below(words, place)
    if not further:
        return
    inner = parser.add_subparsers(metavar="COMMAND")
    for word, command in further.items():
        made = inner.add_parser(word, help=plain_help(command.help), allow_abbrev=False)
        names = {argument.name: argument.of for argument in command.arguments}
        for action in _describe(made, command, place):
            if action.choices is None:
                of = action.option_strings[-1][2:] if action.option_strings else names[action.dest]
                action.completer = completers(of)  # type: ignore[attr-defined]
        if command.of_job:
            _add_sbatch(made, completers, (*command.options, *CELL.options, "help"))
        _add_below(made, command.words, place, completers)


def cell_parser(completers: Completers, *, script: bool) -> Parser:
    """Return the parser for the line of a cell or a batch script, for completion."""
    parser = Parser(add_help=False, allow_abbrev=False)
    ours = {name: one for name, one in CELL.options.items() if not script or name in _OF_SCRIPTS}
    for action in add_of_cells(parser, ours):
        action.completer = completers(action.dest)  # type: ignore[attr-defined]
    _add_sbatch(parser, completers, CELL.options, script=script)
    return parser


def _add_sbatch(
    parser: Parser, completers: Completers, taken: Iterable[str], *, script: bool = False
) -> None:
    useless = (
        name for name, one in OPTIONS.items() if one.reserved or (one.not_in_cell and not script)
    )
    for action in add_of_sbatch(parser, (*taken, *useless)):
        action.completer = completers(action.dest)  # type: ignore[attr-defined]


def choices(option: str) -> tuple[str, ...]:
    """Return the values of an option if they are few and fixed, otherwise ()."""
    if option in CELL.options:
        metavar = CELL.options[option].metavar
        return tuple(metavar.split("|")) if "|" in metavar else ()
    return OPTIONS[option].choices if option in OPTIONS else ()
