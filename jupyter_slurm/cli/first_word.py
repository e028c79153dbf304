"""Commands whose first word says which one is meant: `lab start`, `kernel add`. What these do is
their own modules'."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.say import say
from jupyter_slurm.commands.scanner import asks_for_help
from jupyter_slurm.errors import RequestError

Commands = Mapping[str, Callable[[Sequence[str], Connect], int]]
"""First word -> what takes the others, and gives the exit code."""


def by_first_word(
    name: str, words: Sequence[str], commands: Commands, usage: str, connect: Connect
) -> int:
    """Runs one of the commands below `name`, or prints their usage. RequestError: there is no such
    one."""
    if not words or asks_for_help(words):
        say(usage)
        return 0 if words else 2
    word, *rest = words
    command = commands.get(word)
    if command is None:
        *first, last = commands
        raise RequestError(f"`{name} {word}`: it is {', '.join(first)} or {last}.")
    return command(rest, connect)
