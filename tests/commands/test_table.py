"""Every command of the table, parsed in each front end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_slurm.commands.arguments import find, of_job, read_arguments
from jupyter_slurm.commands.command import Argument, Command, OurOption, Place, options_of, since
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.commands.submitting import CELL, IMAGE_CELL
from jupyter_slurm.commands.table import SECTIONS
from jupyter_slurm.errors import RequestError
from jupyter_slurm.slurm.options import OPTIONS

LEAVES = [one for section in SECTIONS.values() for one in section if not one.usual] + [IMAGE_CELL]
PLACES: tuple[Place, ...] = ("terminal", "notebook")
NAMES = sorted({*CELL.options, *OPTIONS, *(name for one in LEAVES for name in one.options)})
TEXT = st.one_of(
    st.text("ab= \"$'é-", max_size=5),
    st.sampled_from(["-h", "-n4", "-f", "--help"]),
    st.sampled_from(NAMES).map("--{}".format),
    st.sampled_from(NAMES).map("--{}=x".format),
).filter(lambda text: text != "--")
VALUES: dict[Callable[[str], Any], st.SearchStrategy[str]] = {
    str: TEXT,
    **{
        option.read: st.sampled_from(["5", "30", "120"])
        for one in LEAVES
        for option in one.options.values()
        if option.read is not str
    },
    since: st.sampled_from(["7d", "12h", "2026-01-31"]),
}
OTHERS = [
    (["--partition", "debug"], ("partition", "debug")),
    (["-c", "2"], ("cpus-per-task", "2")),
    (["--exclusive"], ("exclusive", None)),
    (["--time=30m"], ("time", "30m")),
]


def read(command: Command, words: list[str], place: Place) -> Arguments:
    found, behind = find([*command.words, *words], place)
    assert found is command
    return read_arguments(found, behind, place)


@st.composite
def asked_for(draw: st.DrawFn, command: Command, place: Place) -> tuple[list[str], dict[str, Any]]:
    """Generate words for a command in any order, and the expected values."""
    expected: dict[str, Any] = {}
    parts = [[part] for argument in command.arguments for part in draw(_given(argument, expected))]
    own = draw(st.permutations(list(options_of(command, place).items())))
    options: list[list[str]] = []
    for name, option in own:
        if name not in expected and (option.required or draw(st.booleans())):
            options += draw(_option(name, option, expected))
    if command.of_job:
        text = draw(TEXT.filter(bool))
        others = [*draw(st.permutations(OTHERS)), ([f"--comment={text}"], ("comment", text))]
        expected["options"] = [option for _, option in others]
        options = _mixed(draw, [words for words, _ in others], options)
    return [word for part in _mixed(draw, parts, options) for word in part], expected


def _mixed(draw: st.DrawFn, ones: list[list[str]], others: list[list[str]]) -> list[list[str]]:
    """Return both lists merged, each in its own order."""
    of_ones = [True] * len(ones) + [False] * len(others)
    left = (iter(others), iter(ones))
    return [next(left[turn]) for turn in draw(st.permutations(of_ones))]


@st.composite
def _given(draw: st.DrawFn, argument: Argument, expected: dict[str, Any]) -> list[str]:
    word = (
        st.sampled_from(argument.choices)
        if argument.choices
        else st.sampled_from("a b=c é".split())
    )
    words = draw(st.lists(word, min_size=1, max_size=3 if argument.is_many else 1))
    expected[argument.name] = tuple(words) if argument.is_many else words[0]
    return words


@st.composite
def _option(
    draw: st.DrawFn, name: str, option: OurOption, expected: dict[str, Any]
) -> list[list[str]]:
    field = name.replace("-", "_")
    dashed = f"-{option.short}" if option.short and draw(st.booleans()) else f"--{name}"
    if not option.metavar:
        expected[field] = True
        return [[dashed]]
    values = draw(st.lists(VALUES[option.read], min_size=1, max_size=3))
    read = tuple(map(option.read, values))
    expected[field] = read if option.repeated else read[-1]
    joined = dashed if dashed.startswith("--") else f"--{name}"
    return [
        [f"{joined}={value}"] if value.startswith("-") or draw(st.booleans()) else [dashed, value]
        for value in values
    ]


@settings(max_examples=300)
@given(command=st.sampled_from(LEAVES), data=st.data())
def test_order_and_front_end_do_not_change_parsed_options(
    command: Command, data: st.DataObject
) -> None:
    for place in PLACES:
        if command.only not in (None, place):
            continue
        words, expected = data.draw(asked_for(command, place))
        if command is IMAGE_CELL:
            args = read_arguments(command, words, place)
        else:
            args = read(command, words, place)
        assert {name: getattr(args, name) for name in expected} == expected
        if command.only is None and not place_of_its_own(command):
            assert read(command, words, "terminal") == read(command, words, "notebook")


def place_of_its_own(command: Command) -> bool:
    return any(option.only for option in command.options.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("logs", "Missing job ID."),
        ("logs x y", "`y` is an extra argument"),
        ("logs x --task y", "`y` is not a number"),
        ("logs x --task", "--task: expected one argument"),
        ("connections --cluster x", "has no option `--cluster`"),
        ("lab extend", "required: --time"),
        ("session start x", "Put code below the line"),
        ("session start --session", "is for a cell, not for a session"),
        ("lab begin", "Unknown command"),
        ("push x --exclude=--", "cannot have the value"),
        ("salloc --nodes 2", "`salloc` is not supported"),
    ],
)
def test_invalid_arguments_are_rejected(words: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        read_whole(words.split())


def read_whole(words: list[str]) -> None:
    command, behind = find(words, "notebook")
    args = read_arguments(command, behind, "notebook")
    if command.of_job:
        of_job(command, args.words)


def test_arguments_after_two_dashes_are_not_options() -> None:
    command, behind = find(["push", "--exclude=-x", "--", "--odd", "-f"], "notebook")
    args = read_arguments(command, behind, "notebook")
    assert (args.local, args.remote, args.exclude) == ("--odd", "-f", ("-x",))
