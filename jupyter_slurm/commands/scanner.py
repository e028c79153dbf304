"""PURE. Split words into options, each with its value.

Only this module tells an option from a value that looks like one: in `--comment --idle 5m` the
comment is `--idle`, as sbatch itself reads it. The caller knows what an option means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from jupyter_slurm.commands.command import OurOption
from jupyter_slurm.commands.submitting import CELL
from jupyter_slurm.errors import RequestError
from jupyter_slurm.slurm import options as sbatch


@dataclass(frozen=True, slots=True)
class Item:
    """An option with its value, or a word by itself."""

    words: tuple[str, ...]
    """The words as typed."""
    name: str | None = None
    """The long name without dashes, also of the command's own short options. None for any other
    short option, and for a plain word."""
    value: str | None = None
    """None if the option has no value."""


def scan(
    words: Sequence[str], own: Mapping[str, OurOption] = MappingProxyType({})
) -> Iterator[Item]:
    """Yield each option with its value, by the options of the command itself (`own`), those of a
    cell and sbatch's, in this order. From `--` on all words are one item.

    >>> [item.words for item in scan(["--comment", "--out", "-n4", "--out", "x", "--", "-n"])]
    [('--comment', '--out'), ('-n4',), ('--out', 'x'), ('--', '-n')]
    """
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word == "--":
            yield Item((word, *rest))
            return
        name, value, option = _read(word, own)
        if rest and value is None and _takes_next(word, option, rest[0]):
            value = rest.popleft()
            yield Item((word, value), name, value)
        else:
            yield Item((word,), name, value)


def _read(
    word: str, own: Mapping[str, OurOption]
) -> tuple[str | None, str | None, OurOption | None]:
    """Return the name and the value in a word, and the option of ours that it is."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return name, value if equals else None, own.get(name) or CELL.options.get(name)
    if word.startswith("-"):
        for name, option in own.items():
            if option.short and option.short == word[1:2]:
                return name, word[2:] or None, option
    return None, None, None


def _takes_next(word: str, option: OurOption | None, following: str) -> bool:
    if option is None:
        return sbatch.takes_next(word)
    if option.metavar.startswith("["):
        return not following.startswith("-")
    return bool(option.metavar)


def check_list(option: Item | None, item: Item) -> None:
    """Raise RequestError for a list with a blank in it, whose rest is a word by itself."""
    word = item.words[0]
    if option is None or option.value is None or word.startswith("-"):
        return
    if option.value.endswith(",") or word.startswith(","):
        joined = f"{' '.join(option.words)}{word}".rstrip(",")
        raise RequestError(
            f"`{' '.join((*option.words, word))}` has a blank in its list.",
            hint=f"Write it without blanks: `{joined}`.",
            option=option.name or "",
        )


def asks_for_help(
    words: Sequence[str], own: Mapping[str, OurOption] = MappingProxyType({})
) -> bool:
    """Tell whether the words ask for help: `-h` as an option's value does not."""
    return any(item.words[0] in {"-h", "--help"} for item in scan(words, own))


def take(
    words: Sequence[str], name: str, own: Mapping[str, OurOption]
) -> tuple[list[str], list[str]]:
    """Return the words without the option `name`, and its values; "" for a missing one."""
    rest: list[str] = []
    given: list[str] = []
    for item in scan(words, own):
        if item.name == name:
            given.append(item.value or "")
        else:
            rest += item.words
    return rest, given


def before_arguments(
    words: Sequence[str], own: Mapping[str, OurOption] = MappingProxyType({})
) -> tuple[list[str], list[str]]:
    """Return the words before `--`, and those behind it."""
    options: list[str] = []
    for item in scan(words, own):
        if item.words[0] == "--":
            return options, list(item.words[1:])
        options += item.words
    return options, []


def with_values(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Give each `--env NAME` the value that the shell exports for NAME. RequestError when it
    exports no such variable.

    >>> with_values(["--env", "TOKEN", "--env=A=b", "--gpus", "1"], {"TOKEN": "x"})
    ['--env', 'TOKEN=x', '--env=A=b', '--gpus', '1']
    """
    done: list[str] = []
    for item in scan(words):
        if item.name != "env" or item.value is None:
            done += item.words
        elif len(item.words) > 1:
            done += [item.words[0], _with_value(item.value, variables)]
        else:
            done.append(f"--env={_with_value(item.value, variables)}")
    return done


def _with_value(text: str, variables: Mapping[str, str]) -> str:
    if "=" in text:
        return text
    if text not in variables:
        raise RequestError(
            f"--env: this shell exports no variable `{text}`.",
            hint="`export` it, or say NAME=VALUE, which other users of this machine can "
            "see while the command runs.",
            option="env",
        )
    return f"{text}={variables[text]}"
