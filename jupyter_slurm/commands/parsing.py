"""The parsing of a line into words and options. `{name}` stands for the value of a variable.
argparse parsers, built from the table of commands, read the options. No I/O."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any, NoReturn, cast

from jupyter_slurm.commands.command import Command, OurOption, Place, options_of
from jupyter_slurm.commands.submitting import CELL
from jupyter_slurm.errors import RequestError
from jupyter_slurm.formatting import joined
from jupyter_slurm.slurm import options as sbatch
from jupyter_slurm.slurm.option_table import ALIASES

JobOption = tuple[str, str | None]
"""The long name of an option of a cell or of sbatch, and the option's value; None for an option
without a value."""
_ABOUT_OPTION = re.compile(r"argument (?:-\w/)?--([\w-]+): (.*)", re.DOTALL)
"""A pattern for argparse's messages about an option."""
_BY_EQUALS = frozenset(
    name
    for name, option in sbatch.OPTIONS.items()
    if option.value_optional and name not in CELL.options
)
"""Options that take a value only after `=`. argparse would also take the next word, which sbatch
never does."""
_BY_EQUALS_FORMS = frozenset(
    word
    for name in _BY_EQUALS
    for word in (f"--{name}", f"-{sbatch.OPTIONS[name].short}")
    if word != "-None"
)
_OF_PYXIS = MappingProxyType(
    {
        "--container-image": "Use --image IMAGE.",
        "--container-mounts": "Use --mount SRC:DST, once for each folder.",
        "--container-mount-home": "Omit it, since the home is already mounted in every container.",
        "--container-workdir": "Use --chdir DIR.",
        "--container-entrypoint": "Run the image's own program with `%slurm run IMAGE`.",
        "--container-save": "Build an image with `%%slurm_image`, or use --container-name.",
        "--container-env": "Use --env NAME=VALUE, which overrides the image's value.",
        "--container-writable": "Omit it, since every container is already writable.",
    }
)
"""Hints for pyxis options that have another name in jupyter-slurm, or no effect."""
_LONGEST = 32 * 1024
"""The maximum line length in characters, because shlex takes quadratic time."""
_FIELD = r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[[^\[\]{}]*\])*(?::[^{}]*)?"
"""A field such as `x`, `job.id`, `rates[0]` or `rate:.2f`. Keep it consistent with form.ts."""
_CALCULATION = r"[^\W\d]\w*\s*[-+*/%@(!<>=|&^][^{}]*"
_BRACES = re.compile(
    rf"\{{\{{({_FIELD})\}}\}}|\{{({_FIELD})\}}"
    rf"|\{{\{{({_CALCULATION})\}}\}}|\{{({_CALCULATION})\}}"
)
_PARTS = re.compile(r"\.(\w+)|\[([^\]]*)\]")


def words_of(line: str, namespace: Mapping[str, object]) -> list[str]:
    """Split a line into words, with each `{name}` replaced by its value. Raises RequestError."""
    return expand(split(line), namespace)


def split(line: str) -> list[str]:
    """Split a line into words by the shell's quoting rules, without any expansion.

    >>> split("--comment 'a b' --export X=$HOME")
    ['--comment', 'a b', '--export', 'X=$HOME']
    """
    if len(line) > _LONGEST:
        raise RequestError(
            f"This line has {len(line):,} characters; the limit is {_LONGEST:,}.",
            hint="Move long values to a file or the cell.",
        )
    try:
        return shlex.split(line)
    except ValueError as exc:
        raise RequestError(
            f"Cannot parse this line: {str(exc).lower()}.",
            hint="Close every quote. Escape a literal quote with a backslash.",
        ) from exc


def expand(words: Sequence[str], namespace: Mapping[str, object]) -> list[str]:
    """Replace each `{name}`, `{name.attribute}`, `{name[item]}` and `{name:format}` with its value
    as text. A word always stays a single word. `{{name}}` is the text `{name}`; other braces and
    `$` are unchanged. Raise RequestError if a field has no value, or is an expression with an
    existing variable.

    >>> expand(["--time={minutes}", "{{a}}", "{1}"], {"minutes": 5})
    ['--time=5', '{a}', '{1}']
    """

    def value(match: re.Match[str]) -> str:
        doubled, field, kept, calculated = match.groups()
        if doubled is not None:
            return f"{{{doubled}}}"
        if field is not None:
            return _value_of(field, namespace)
        text: str = kept or calculated
        if re.split(r"\W", text, maxsplit=1)[0] not in namespace:
            return match[0]
        if kept is not None:
            return f"{{{kept}}}"
        raise RequestError(
            f"`{{{text}}}`: an option cannot contain an expression.",
            hint=f"Assign the value to a variable first. For literal text, write `{{{{{text}}}}}`.",
        )

    return [_BRACES.sub(value, word) for word in words]


def _value_of(field: str, namespace: Mapping[str, object]) -> str:
    """Return the text for a field in braces. Raises RequestError."""
    as_text = f"For literal text, write `{{{{{field}}}}}`."
    path, colon, form = field.partition(":")
    match = re.match(r"\w+", path)
    name = unicodedata.normalize("NFKC", match[0] if match else "")
    if name not in namespace:
        near = sbatch.suggest(name, tuple(namespace))
        like = f"Did you mean `{near}`?" if near in namespace else None
        raise RequestError(
            f"`{{{field}}}`: unknown variable `{name}`.",
            hint=joined(like, as_text),
        )
    value = namespace[name]
    try:
        for attribute, item in _PARTS.findall(path):
            value = getattr(value, attribute) if attribute else cast("Any", value)[_item(item)]
        return format(value, form) if colon else str(value)
    except Exception as exc:  # an attribute of any object may raise any exception
        raise RequestError(f"`{{{field}}}` has no value: {exc}.", hint=as_text) from exc


def _item(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as exc:
        told = (
            f"`[{text}]` is not a number or a quoted string. Quote the whole word to keep inner "
            "quotes, as in `'{a[\"b\"]}'`"
        )
        raise ValueError(told) from exc


class Arguments(SimpleNamespace):
    """A command's arguments and options by name, with `_` for `-`."""

    typed: dict[str, str]
    """The text of each of the command's own options, as typed."""
    options: list[JobOption]
    """The job options."""
    rest: tuple[str, ...]
    """The words after `--`."""

    @property
    def words(self) -> list[str]:
        """Return the job options as words."""
        return as_words(self.options)


def field(name: str) -> str:
    """Return the attribute of `Arguments` for an option."""
    return name.replace("-", "_")


def as_words(options: Iterable[JobOption]) -> list[str]:
    """Return job options as words, under their long names.

    >>> as_words([("gpus", "1"), ("hold", None), ("comment", "-x"), ("exclusive", "user")])
    ['--gpus', '1', '--hold', '--comment=-x', '--exclusive=user']
    """
    words: list[str] = []
    for name, value in options:
        if value is None:
            words.append(f"--{name}")
        elif not value or value.startswith("-") or name in _BY_EQUALS:
            words.append(f"--{name}={value}")
        else:
            words += [f"--{name}", value]
    return words


class Parser(argparse.ArgumentParser):
    """An argparse parser that reports errors as RequestError."""

    def error(self, message: str) -> NoReturn:
        found = _ABOUT_OPTION.fullmatch(message.rstrip("."))
        if found is None:
            raise RequestError(
                f"{message.rstrip('.')}.", hint=(self.usage or "").replace("%%", "%") or None
            )
        raise RequestError(
            f"--{found[1]}: {found[2]}.",
            hint=f"Write `--{found[1]}=VALUE` if the value begins with `-`.",
            option=found[1],
        )


class _StoreOwnOption(argparse.Action):
    """An argparse action that stores the value of a command's own option."""

    def __init__(self, *, name: str, option: OurOption, **others: Any) -> None:
        super().__init__(default=argparse.SUPPRESS, required=option.required, **others)
        self._name = name
        self._option = option

    def __call__(self, _parser: object, args: Any, value: Any, _word: str | None = None) -> None:
        if not self._option.metavar:
            setattr(args, self.dest, True)
            return
        args.typed[self._name] = value
        try:
            value = self._option.read(value)
        except ValueError as exc:
            raise argparse.ArgumentError(self, str(exc)) from exc
        before = getattr(args, self.dest)
        setattr(args, self.dest, (*before, value) if self._option.repeated else value)


class _StoreJobOption(argparse.Action):
    """An argparse action that stores an option of a cell or of sbatch."""

    def __call__(self, _parser: object, args: Any, value: Any, _word: str | None = None) -> None:
        if value == "" and self.dest in CELL.options:
            raise argparse.ArgumentError(self, "expected one argument")
        args.options.append((self.dest, value if self.nargs is None else value or None))


def add_own(
    to: argparse._ActionsContainer, options: Mapping[str, OurOption]
) -> list[argparse.Action]:
    """Add a command's own options to a parser."""
    return [
        to.add_argument(
            *([f"-{option.short}"] if option.short else []),
            f"--{name}",
            action=_StoreOwnOption,
            name=name,
            option=option,
            dest=field(name),
            nargs=None if option.metavar else 0,
            metavar=option.metavar or None,
            help=plain_help(option.help),
        )
        for name, option in options.items()
    ]


def add_of_cells(
    to: argparse._ActionsContainer, options: Mapping[str, OurOption]
) -> list[argparse.Action]:
    """Add cell options to a parser."""
    return [
        to.add_argument(
            f"--{name}",
            action=_StoreJobOption,
            dest=name,
            nargs=_nargs(option.metavar),
            metavar=_metavar(option.metavar),
            default=argparse.SUPPRESS,
            help=plain_help(option.help),
        )
        for name, option in options.items()
    ]


def _nargs(metavar: str) -> str | int | None:
    if not metavar:
        return 0
    return "?" if _may_lack_value(metavar) else None


def _metavar(metavar: str) -> str | None:
    return (metavar[1:-1] if _may_lack_value(metavar) else metavar) or None


def _may_lack_value(metavar: str) -> bool:
    return metavar.startswith("[")


def add_of_sbatch(to: argparse._ActionsContainer, taken: Iterable[str]) -> list[argparse.Action]:
    """Add sbatch's options to a parser, without help texts. Skip names that are already taken."""
    hidden = set(taken)
    return [
        to.add_argument(
            *([f"-{option.short}"] if option.short else []),
            *(f"--{one}" for one in (name, *_aliases(name)) if one not in hidden),
            action=_StoreJobOption,
            dest=name,
            nargs=0 if option.kind == "flag" else "?" if option.value_optional else None,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
        for name, option in sbatch.OPTIONS.items()
        if name not in hidden
    ]


def _aliases(name: str) -> list[str]:
    return [alias for alias, of in ALIASES.items() if of == name]


def plain_help(text: str) -> str:
    """Return the help text with terminal commands, and with `%` escaped for argparse."""
    return in_words_of_a_terminal(text).replace("%", "%%")


def in_words_of_a_terminal(text: str) -> str:
    """Replace notebook commands in a text with terminal commands.

    >>> in_words_of_a_terminal("`%slurm jobs` lists them; %%slurm")
    '`jupyter slurm jobs` lists them; %%slurm'
    """
    return re.sub(r"(?<!%)%slurm ", "jupyter slurm ", text)


def read_options(
    command: Command, words: Sequence[str], place: Place, args: Arguments
) -> list[str]:
    """Store the options among the words in `args`; return the other words. Raises RequestError."""
    for word in words:
        if word.startswith("-") and (word.partition("=")[2] == "--" or word[2:] == "--"):
            raise RequestError(f"`{word}`: an option cannot have the value `--`.")  # as in argparse
    by_equals = _BY_EQUALS_FORMS if command.of_job else frozenset[str]()
    _, left = _parser(command, place).parse_known_args(
        [f"{word}=" if word in by_equals else word for word in words], args
    )
    return left


@cache
def _parser(command: Command, place: Place) -> Parser:
    usage = f"`%slurm {command.usage(place)}`"
    parser = Parser(usage=usage, add_help=False, allow_abbrev=False)
    own = {} if command is CELL else options_of(command, place)
    add_own(parser, own)
    if command.of_job:
        # Add rejected options too, because `arguments.of_job` explains the rejection.
        cells = {name: one for name, one in CELL.options.items() if name not in own}
        add_of_cells(parser, cells)
        add_of_sbatch(parser, {**own, **cells})
    return parser


def job_options(words: Sequence[str]) -> list[JobOption]:
    """Return the job options in these words. Raise RequestError for an unknown word."""
    args = Arguments(typed={}, options=[], rest=())
    left = read_options(CELL, words, "terminal", args)
    if left:
        raise not_an_option(left, args.options)
    return args.options


def before_dashes(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before and after `--`.

    >>> before_dashes(["-n4", "--", "a", "--", "b"])
    (['-n4'], ['a', '--', 'b'])
    """
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


def is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def not_an_option(left: Sequence[str], options: Sequence[JobOption]) -> RequestError:
    """Return the error for words that do not belong to any job option, with the nearest option."""
    word = next(filter(is_option, left), left[0])
    name = word.partition("=")[0]
    if is_option(word):
        if name in _OF_PYXIS:
            return RequestError(
                f"The pyxis option `{name}` is not supported.",
                hint=_OF_PYXIS[name],
                option=name[2:],
            )
        near = sbatch.suggest(name, tuple(CELL.options))
        return RequestError(
            f"sbatch has no option `{name}`.",
            hint=f"Did you mean `{near}`?" if near else None,
            option=name.lstrip("-"),
        )
    for option, value in options:
        if value is not None and (value.endswith(",") or word.startswith(",")):
            return RequestError(
                f"`--{option} {value} {word}` has a blank in a list.",
                hint=f"Remove the blank: `--{option} {value}{word}`.",
                option=option,
            )
    return RequestError(
        f"`{word}` does not belong to any option of sbatch.",
        hint="Put code below the line, and start options with `--`.",
    )
