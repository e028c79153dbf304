"""The help of each command of `jupyter slurm`, as argparse writes it."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Mapping

from jupyter_slurm.cli.table import in_words_of_a_terminal
from jupyter_slurm.commands.arguments import below, commands, of_cells
from jupyter_slurm.commands.command import Command, OurOption, options_of

_DESCRIPTION = "Jobs on a Slurm cluster: the same ones in terminals and in notebooks."
_EPILOG = (
    "`jupyter slurm COMMAND --help` tells more of each. JUPYTER_SLURM_CLUSTER names the cluster "
    "where --cluster does not."
)


def text(words: tuple[str, ...]) -> str:
    """Return the help of the command with these words; without words, the program's."""
    parser = ArgumentParser(" ".join(("jupyter slurm", *words)), allow_abbrev=False)
    further = below(words, "terminal")
    if not words:
        parser.description, parser.epilog = _DESCRIPTION, _EPILOG
        parser.add_argument("--version", action="store_true", help="print the version")
    for command in commands("terminal"):
        if command.words == words:
            _describe(parser, command)
            if command.usual:
                _add_options(parser, options_of(further[command.usual], "terminal"))
    if further:
        below_it = parser.add_subparsers(metavar="COMMAND")
        for word, one in further.items():
            below_it.add_parser(word, help=_plain(one.help))
    return parser.format_help()


def _describe(parser: ArgumentParser, command: Command) -> None:
    parser.description = in_words_of_a_terminal(command.help)
    for one in command.arguments:
        parser.add_argument(
            one.name,
            nargs=None if one.count == "1" else one.count,
            metavar=None if one.choices else one.metavar,
            choices=one.choices or None,
            help=_plain(one.help),
        )
    parser.epilog = in_words_of_a_terminal(command.more)
    _add_options(parser, options_of(command, "terminal"))
    if command.of_job:
        parser.usage = f"jupyter slurm {command.usage('terminal')}"
        others = parser.add_argument_group("OPTIONS", "any of sbatch, under its own name, and")
        _add_options(others, of_cells(command))


def _add_options(parser: argparse._ActionsContainer, options: Mapping[str, OurOption]) -> None:
    for name, option in options.items():
        flags = [*([f"-{option.short}"] if option.short else []), f"--{name}"]
        if option.metavar:
            parser.add_argument(
                *flags,
                metavar=option.metavar,
                required=option.required,
                help=_plain(option.help),
            )
        else:
            parser.add_argument(*flags, action="store_true", help=_plain(option.help))


def _plain(said: str) -> str:
    """Return the text for argparse, which replaces `%` by values."""
    return in_words_of_a_terminal(said).replace("%", "%%")
