"""The types of the entries in `table.py` (commands, arguments and options), and parsers of values.
No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal

from jupyter_slurm.slurm.units import parse_time_s
from jupyter_slurm.wire import JobSpec

Place = Literal["terminal", "notebook"]
"""The place where a command runs: a terminal (`jupyter slurm …`) or a notebook (`%slurm …`)."""
OWN_GPUS = "own"
"""The value of `up --gpus` for this machine's GPUs."""


@dataclass(frozen=True, slots=True)
class OurOption:
    """An option of our own, not of sbatch."""

    metavar: str
    """The name of the value, in brackets if the value is optional; "" for a flag."""
    help: str
    short: str = ""
    """The letter of the short form."""
    read: Callable[[str], Any] = str
    """A function that converts the text. It may raise ValueError."""
    default: Any = None
    repeated: bool = False
    """Set to collect all values in a tuple; otherwise the last value wins."""
    required: bool = False
    says: str = ""
    """The field of the job's spec that the option sets."""
    only: Place | None = None
    """The only place that has the option; None for every place of its command."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument of a command."""

    name: str
    metavar: str
    help: str
    count: Literal["1", "?", "*", "+"] = "1"
    of: Literal["", "job", "cluster", "session", "lab", "path"] = ""
    """The kind of name, for completion."""
    choices: tuple[str, ...] = ()

    @property
    def is_many(self) -> bool:
        return self.count in ("*", "+")

    @property
    def is_needed(self) -> bool:
        return self.count in ("1", "+")

    @property
    def usage(self) -> str:
        metavar = "|".join(self.choices) or self.metavar
        return {"1": metavar, "?": f"[{metavar}]", "*": f"[{metavar} …]", "+": f"{metavar} …"}[
            self.count
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """A command of `jupyter slurm`, of `%slurm`, or of both."""

    name: str
    """The words of the command."""
    help: str
    arguments: tuple[Argument, ...] = ()
    options: Mapping[str, OurOption] = field(default_factory=dict)
    only: Place | None = None
    more: str = ""
    """Additional help, below the first sentence."""
    usual: str = ""
    """The default subcommand."""
    is_cell_magic: bool = False
    """Set for a cell magic (`%%NAME`), as opposed to a `%slurm` command."""
    of_job: bool = False
    """Set if the command accepts options of cells and sbatch."""
    starts: type[JobSpec] | None = None
    """The spec type of the job that the command starts without a cell or file."""
    rest: str = ""
    """The name of the arguments after `--`, if the command accepts any."""
    refused: tuple[str, ...] = ()
    """The cell options that the command rejects."""
    refusal: str = ""
    """The error for rejected options, with `{}` for the option."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Hints for rejected options, by the option's name."""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.name.split())

    def usage(self, place: Place) -> str:
        """Return the usage line."""
        parts = [*self.words, *(one.usage for one in self.arguments)]
        named = [one.name for one in self.arguments]
        for name, option in options_of(self, place).items():
            if name in named:
                continue
            dashed = f"-{option.short}" if option.short else f"--{name}"
            told = f"{dashed} {option.metavar}".rstrip()
            parts.append(told if option.required else f"[{told}]")
        parts += ["[OPTIONS]"] if self.of_job else []
        parts += [f"[-- {self.rest}]"] if self.rest else []
        return " ".join(parts)


def options_of(command: Command, place: Place) -> dict[str, OurOption]:
    """Return the command's own options in a place."""
    return {
        name: option for name, option in command.options.items() if option.only in (None, place)
    }


def options(**by_name: OurOption) -> Mapping[str, OurOption]:
    """Return options by name, with dashes instead of underscores."""
    return MappingProxyType({name.replace("_", "-"): one for name, one in by_name.items()})


def number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"`{text}` is not a number.")
    return int(text)


def since(text: str) -> date | timedelta:
    """Parse a day (`2026-01-31`) or an age (`7d`)."""
    with suppress(ValueError):
        return date.fromisoformat(text)
    with suppress(ValueError):
        if not text.isdecimal() and (seconds := parse_time_s(text)):
            return timedelta(seconds=seconds)
    raise ValueError(f"`{text}` is neither a day such as 2026-01-31 nor a duration such as 7d.")


def since_s(when: date | timedelta, now_s: float) -> float:
    """Return the time of `when`, a value from `since`. A day starts at local midnight."""
    if isinstance(when, timedelta):
        return now_s - when.total_seconds()
    return datetime(when.year, when.month, when.day).astimezone().timestamp()


def gpus(text: str) -> int | str:
    return OWN_GPUS if text == OWN_GPUS else number(text)


def lines(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"`{text}` is not a number of lines.")
    return int(text)


def idle_s(text: str) -> int:
    seconds = parse_time_s(text)
    if not seconds:
        raise ValueError(f"`{text}` is not a duration such as 30m or 2h.")
    return seconds
