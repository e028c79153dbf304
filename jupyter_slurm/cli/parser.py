"""Find the command that a command line names, and read its arguments and options. Runs none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from jupyter_slurm.cli import (
    clusters,
    completion,
    from_template,
    image,
    jobs,
    kernel,
    lab,
    local,
    new_cluster,
    remote,
    session,
    shell,
    submit,
)
from jupyter_slurm.cli.command import Command, Connect
from jupyter_slurm.cli.say import say
from jupyter_slurm.commands.arguments import find, read_arguments
from jupyter_slurm.commands.command import options_of
from jupyter_slurm.commands.scanner import asks_for_help, with_values

COMMANDS: Mapping[str, Command] = MappingProxyType(
    dict(  # which refuses a name that two of them have
        **clusters.COMMANDS,
        **completion.COMMANDS,
        **from_template.COMMANDS,
        **image.COMMANDS,
        **jobs.COMMANDS,
        **kernel.COMMANDS,
        **lab.COMMANDS,
        **local.COMMANDS,
        **new_cluster.COMMANDS,
        **remote.COMMANDS,
        **session.COMMANDS,
        **shell.COMMANDS,
        **submit.COMMANDS,
    )
)
"""By the words of the table; each module says which it does."""


def parse(words: Sequence[str]) -> Callable[[Connect], int]:
    """Return a function that runs the command of `words`. RequestError: the words are wrong."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if list(words[:1]) == ["--version"]:
        return _version
    if not words or words[0] in ("-h", "--help"):
        return partial(_help, [])
    command, behind = find(list(words), "terminal")
    own = options_of(command, "terminal")
    if asks_for_help(behind, own):
        return partial(_help, words[: len(words) - len(behind)])
    args = read_arguments(command, behind)
    args.words = with_values(args.words, os.environ)
    return partial(COMMANDS[command.name], args)


def _help(words: Sequence[str], _connect: Connect) -> int:
    from jupyter_slurm.cli.help import text  # noqa: PLC0415 - it loads argparse, for help alone

    say(text(tuple(words)))
    return 0


def _version(_connect: Connect) -> int:
    from importlib import metadata  # noqa: PLC0415 - it loads much

    say(f"jupyter-slurm {metadata.version('jupyter-slurm')}\n")
    return 0
