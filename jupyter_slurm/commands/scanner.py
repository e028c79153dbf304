"""PURE. Splits words into options, each with its value.

The one place that tells an option from a value that looks like one: in `--comment --idle 5m` the
comment is `--idle`, as sbatch itself reads it. What an option means is for the caller to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from jupyter_slurm.slurm import options as sbatch

Place = Literal["terminal", "notebook"]
"""`jupyter slurm …` or `%slurm …`."""


@dataclass(frozen=True, slots=True)
class OurOption:
    """An option that sbatch does not know."""

    metavar: str
    """"" for a flag; in brackets where the value may be left out."""
    help: str
    short: str = ""
    """A letter that means the same."""
    read: Callable[[str], Any] = str
    """Make the value of its text; raise ValueError."""
    default: Any = None
    repeated: bool = False
    """Keep all values, as a tuple; else the last."""
    required: bool = False
    only: Place | None = None
    """None: wherever its command may be used."""


OURS: Mapping[str, OurOption] = MappingProxyType(
    {
        "cluster": OurOption("NAME", "the cluster to run on; see `%slurm clusters`"),
        "image": OurOption("IMAGE", "the container image: an alias of the profile, or its name"),
        "runtime": OurOption("NAME", "how the image is run: charliecloud, none …"),
        "module": OurOption("NAMES", "environment modules to load first, separated by commas"),
        "in": OurOption("NAMES", "variables of this notebook that the cell gets"),
        "out": OurOption("NAMES", "variables that come back into this notebook"),
        "out-format": OurOption("auto|data", "how: pickled where it must be, or as data alone"),
        "env": OurOption("NAME=VALUE", "an environment variable for the cell; may be repeated"),
        "mount": OurOption("SRC[:DST[:ro]]", "a folder to see in the image; may be repeated"),
        "push": OurOption("DIR", "a folder of this machine: the job runs in a copy of it"),
        "push-exclude": OurOption(
            "PATTERN", "what --push leaves behind, as in .gitignore; may be repeated"
        ),
        "session": OurOption(
            "[NAME]", "run it at once in a session started here, or in any by its id"
        ),
        "fetch": OurOption("GLOBS", "files to bring back when the job has ended; may be repeated"),
        "name": OurOption("NAME", "what the job is called"),
        "detach": OurOption("", "give a job handle at once instead of waiting"),
        "wait": OurOption("", "wait for the end, where the setting says to detach"),
        "on-interrupt": OurOption("detach|cancel", "what interrupting the cell does to the job"),
        "attach": OurOption("", "attach to this cell's job, never submit one"),
        "fresh": OurOption("", "submit another job even if this cell's job still runs"),
        "dry-run": OurOption("", "show what would be submitted, and submit nothing"),
        "no-raise": OurOption("", "a job that fails does not fail the cell"),
    }
)
"""The options of a cell. Every command that submits a job takes them, except those it refuses."""


@dataclass(frozen=True, slots=True)
class Item:
    """An option with its value, or a word by itself."""

    words: tuple[str, ...]
    """As they were typed."""
    name: str | None = None
    """The long name without dashes, of a short option too where it is the command's own. None for
    any other short option, and for a plain word."""
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
    """Return the name and the value that a word has in it, and which option of ours it is."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return name, value if equals else None, own.get(name) or OURS.get(name)
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


def asks_for_help(
    words: Sequence[str], own: Mapping[str, OurOption] = MappingProxyType({})
) -> bool:
    """Return whether the words ask for help: `-h` as an option's value does not."""
    return any(item.words[0] in {"-h", "--help"} for item in scan(words, own))


def take(
    words: Sequence[str], name: str, own: Mapping[str, OurOption]
) -> tuple[list[str], list[str]]:
    """Return the words without the option `name`, and its values; "" where one is missing."""
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
