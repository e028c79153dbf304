"""Parsing, checks and formatting of users' sbatch options.

The package checks only values that it uses or rewrites, and values for which Slurm's messages are
unclear. sbatch checks all others.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from .option_table import ALIASES, EXCLUSIVE, OPTIONS, Option
from .units import (
    format_memory,
    format_time,
    gpus_in_tres,
    gpus_of_option,
    parse_array,
    parse_memory_mib,
    parse_time_s,
)

__all__ = [
    "OPTIONS",
    "Option",
    "OptionError",
    "check_option",
    "check_together",
    "left_of",
    "parse_options",
    "sbatch_args",
    "suggest",
    "with_slurm_ids",
]

_GPUS = frozenset({"gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task"})
_GIVE_WAY = (
    *((group, group) for group in EXCLUSIVE),
    # A default number of nodes could conflict with the given nodes (sbatch: "invalid number of
    # nodes (-N 2-1)").
    (("nodelist", "nodefile"), ("nodes", "nodelist", "nodefile")),
    # These options count cores, and a default cpus-per-task would multiply them.
    (("ntasks", "ntasks-per-node"), ("cpus-per-task",)),
    # These options place tasks, and a default would conflict with them (sbatch: "can't run 1
    # processes on 2 nodes, setting nnodes to 1").
    (("nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu"), ("ntasks", "ntasks-per-node")),
    # With a default --time-min, Slurm could lower the given time limit.
    (("time",), ("time-min",)),
)
"""Groups of options, each with the defaults that do not apply if the user gives an option of the
group."""
_COUNT = re.compile(r"[1-9][0-9]*")
_NUMBER = re.compile(r"[0-9]+")
_GPUS_VALUE = re.compile(r"(?:[^\s:,=]+[:=])?[0-9]+(?:,[^\s:,=]+[:=][0-9]+)*")
_SIGNAL = re.compile(r"(?P<to>(?:[RB]{1,2}:)?)(?:SIG)?(?P<name>[A-Z0-9]+)(?P<before>(?:@[0-9]+)?)")
_OURS = r"(?-i:(?!afterany)[a-z2-7]{8})"
"""A pattern for our job IDs. sbatch gets Slurm's IDs instead."""
_JOB = rf"(?:[0-9]+|{_OURS})(?:_(?:[0-9]+|\*)|\+[0-9]+)?(?:\+[0-9]+)?"
_AFTER = (
    rf"(?:after(?:any|burstbuffer|corr|notok|ok)?(?::{_JOB})+|singleton|expand:[0-9]+|{_JOB}"
    rf"(?::{_JOB})*)"
)
_DEPENDENCY = re.compile(rf"{_AFTER}(?:(?:,{_AFTER})*|(?:\?{_AFTER})*)", re.IGNORECASE)
_OUR_ID = re.compile(rf"(?<![a-z0-9])(?![0-9]{{8}}){_OURS}(?![a-z0-9])", re.IGNORECASE)


class OptionError(ValueError):
    """The error for `word`, which sbatch would refuse. `suggestion`: the nearest valid word;
    `together`: the names of options that exclude each other."""

    def __init__(
        self,
        word: str,
        message: str,
        suggestion: str | None = None,
        together: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.word = word
        self.message = message
        self.suggestion = suggestion
        self.together = tuple(together)

    @property
    def option(self) -> str:
        """Return the option's name if the word starts with two dashes; otherwise ""."""
        return self.word[2:].partition("=")[0] if self.word.startswith("--") else ""


def parse_options(words: Sequence[str]) -> dict[str, str]:
    """Parse `--name value`, `--name=value`, `-n4` and `-n 4`. Return the checked values by long
    name ("" for flags).

    Of repeated options, the last one wins, as in sbatch. Names are not completed. Raise OptionError
    for an unknown option, a missing or malformed value, or a word that does not belong to an
    option.

    >>> parse_options(["-n4", "--time=30m", "--gres", "gpu:1", "--hold"])
    {'ntasks': '4', 'time': '00:30:00', 'gres': 'gpu:1', 'hold': ''}
    """
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            found = [_long(word, rest)]
        elif word.startswith("-") and len(word) > 1 and word != "--":
            found = list(_short(word, rest))
        else:
            raise OptionError(word, f"`{word}` does not belong to any option of sbatch.")
        for name, value in found:
            options[name] = check_option(name, value)
    return options


def _long(word: str, rest: Iterator[str]) -> tuple[str, str]:
    given, equals, value = word[2:].partition("=")
    option = _option(f"--{given}", ALIASES.get(given, given))
    if option.kind == "flag":
        if equals:
            raise OptionError(word, f"--{given} takes no value, but `{value}` was given.")
        return option.name, ""
    if equals:
        if not value and option.value_optional:
            raise OptionError(
                word,
                f"--{given}= has no value: add a value, or use --{given} alone.",
            )
        return option.name, value
    if option.value_optional:  # getopt(3) never takes the next word as its value
        return option.name, ""
    return option.name, _next(word, rest)


def _short(word: str, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the options in a word. A word may combine flags (`-HO`), and a value may directly
    follow its option."""
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        name = next((option.name for option in OPTIONS.values() if option.short == letter), None)
        if name is None:
            raise OptionError(word, f"sbatch has no option `-{letter}`.", suggest(word))
        option = OPTIONS[name]
        if option.kind == "flag":
            yield name, ""
            continue
        if letters or option.value_optional:
            yield name, letters
        else:
            yield name, _next(word, rest)
        return


def _next(word: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise OptionError(word, f"`{word}` needs a value.")
    return value


def _option(word: str, name: str) -> Option:
    option = OPTIONS.get(name)
    if option is None:
        raise OptionError(word, f"sbatch has no option `{word}`.", suggest(word))
    return option


def check_option(name: str, value: str) -> str:
    """Return the value for sbatch (`00:30:00` for `30m`); "" for a flag.

    `name` is the long name. Raise OptionError for an unknown or reserved option, or for a malformed
    value; the message describes valid values.
    """
    option = _option(f"--{name}", name)
    word = f"--{name}={value}" if value else f"--{name}"
    if option.reserved is not None:
        raise OptionError(
            word,
            f"--{name} cannot be used: {option.reserved}",
        )
    if "\0" in value:
        raise OptionError(word, f"--{name}: a value cannot contain a NUL character.")
    try:
        return _checked(option, value)
    except ValueError as exc:
        raise OptionError(word, f"--{name}={value}: {exc}.") from exc


def _checked(option: Option, value: str) -> str:
    if option.kind == "flag":
        if value:
            raise ValueError("this option takes no value")
        return ""
    if not value and option.value_optional:
        return ""
    if option.kind == "choice":
        return _choice(option, value)
    if option.kind == "choices":
        return ",".join(_choice(option, part) for part in value.split(","))
    return _CHECKS[option.kind](value)


def _choice(option: Option, value: str) -> str:
    for choice in option.choices:
        if choice.lower() == value.strip().lower():
            return choice
    raise ValueError(f"write one of {', '.join(option.choices)}")


def _array(value: str) -> str:
    parse_array(value)
    return value.strip()


def _signal(value: str) -> str:
    """Return the value in the form that the batch script can rewrite."""
    match = _SIGNAL.fullmatch(value.strip().upper())
    if match is None:
        raise ValueError("write a signal and seconds before the end, like USR1@120 or B:TERM@60")
    return f"{match['to']}{match['name']}{match['before']}"


def _matched(pattern: re.Pattern[str], form: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        word = value.strip()
        if not pattern.fullmatch(word):
            raise ValueError(f"write {form}")
        return word

    return check


_CHECKS: Final[Mapping[str, Callable[[str], str]]] = {
    "text": str,
    "time": lambda value: format_time(parse_time_s(value)),
    "memory": lambda value: format_memory(parse_memory_mib(value)),
    "count": _matched(_COUNT, "a whole number from 1"),
    "number": _matched(_NUMBER, "a whole number"),
    "gpus": _matched(_GPUS_VALUE, "a number (2) or a type and a number (a100:2)"),
    "dependency": _matched(
        _DEPENDENCY, "afterok:123, afterany:12:13 or singleton; join them by , or ?"
    ),
    "array": _array,
    "signal": _signal,
}
"""Functions that return the value for sbatch, by kind. Their ValueErrors describe valid values."""


def with_slurm_ids(dependency: str, slurm_id: Callable[[str], str]) -> str:
    """Replace our IDs in a checked value of --dependency by Slurm's IDs, which `slurm_id` returns.

    >>> with_slurm_ids("afterok:k3j5x2m7+5:12,singleton", lambda ours: "34")
    'afterok:34+5:12,singleton'
    """
    return _OUR_ID.sub(lambda match: slurm_id(match[0]), dependency)


def left_of(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults that still apply with the given options.

    >>> left_of({"time": "1:00", "gpus": "1", "qos": "low"}, {"time": "5", "gres": "gpu:2"})
    {'qos': 'low'}
    """
    gone = set(given)
    for options, give_way in _GIVE_WAY:
        if not given.keys().isdisjoint(options):
            gone.update(give_way)
    left = {name: value for name, value in defaults.items() if name not in gone}
    if any(_asks_for_gpus(*option) for option in given.items()):
        left = {name: value for name, value in left.items() if not _asks_for_gpus(name, value)}
    return left


def _asks_for_gpus(name: str, value: str) -> bool:
    return name in _GPUS or (name in ("gres", "tres-per-task") and gpus_in_tres(value) > 0)


def check_together(options: Mapping[str, str]) -> None:
    """Raise OptionError for mutually exclusive options (--mem and --mem-per-cpu)."""
    for group in EXCLUSIVE:
        given = [f"--{name}" for name in group if name in options]
        if len(given) > 1:
            raise OptionError(
                given[-1],
                f"{', '.join(given)} exclude each other. Use one of them.",
                together=group,
            )
    if gpus_in_tres(options.get("gres", "")) and "gpus-per-node" in options:
        raise OptionError(
            "--gpus-per-node",
            "--gres=gpu and --gpus-per-node exclude each other. Use one of them.",
            together=("gres", "gpus-per-node"),
        )
    least = _NUMBER.match(options.get("nodes", ""))
    gpus, nodes = gpus_of_option(options.get("gpus", "")), int(least[0]) if least else 1
    if 0 < gpus < nodes:
        raise OptionError(
            f"--gpus={options['gpus']}",
            f"--gpus {gpus} is fewer than one for each of {nodes} nodes. Use --gpus for the number "
            "in the whole job, or --gpus-per-node for the number on each node.",
            together=("gpus", "nodes"),
        )


def suggest(word: str, extra: Sequence[str] = ()) -> str | None:
    """Return the nearest valid word, or None. Compare a word that starts with dashes to the long
    names of options and to `extra`, and return the result with dashes. Compare a bare word to
    `extra`, or by default to the options' bare names.

    >>> suggest("--partitoin"), suggest("squeu", ["squeue", "sinfo"]), suggest("--zzz")
    ('--partition', 'squeue', None)
    """
    bare = word.lstrip("-").partition("=")[0]
    if not bare:
        return None
    names = [name for name, option in OPTIONS.items() if option.reserved is None]
    dashes = "--" if word.startswith("-") else ""
    candidates = [*extra, *names] if dashes or not extra else list(extra)
    starts = [name for name in candidates if name.startswith(bare)]
    near = starts[:1] if len(starts) == 1 else difflib.get_close_matches(bare, candidates, n=1)
    return f"{dashes}{near[0].lstrip('-')}" if near and dashes else next(iter(near), None)


def sbatch_args(options: Mapping[str, str]) -> list[str]:
    """Return the options as words of an argv, which need no quoting."""
    return [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]
