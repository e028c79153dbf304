"""An option's value may look like an option, wherever the option may be given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.commands import headless, image_line, line, shell
from jupyter_slurm.commands.arguments import job_spec, named, read_arguments
from jupyter_slurm.commands.line import Request
from jupyter_slurm.commands.scanner import asks_for_help, before_arguments, scan, with_values
from jupyter_slurm.commands.submitting import (
    CELL,
    IMAGE_CELL,
    LAB_START,
    RUN,
    SESSION_START,
    SHELL,
)
from jupyter_slurm.jobs.kinds import kind_for
from jupyter_slurm.kernel import spec as kernel_spec
from jupyter_slurm.slurm.options import OPTIONS
from jupyter_slurm.wire import LabSpec, SessionSpec, SpecT


def started(made: type[SpecT], words: list[str]) -> tuple[Request, SpecT]:
    args = read_arguments(named(kind_for(made).command), words)
    return job_spec(made, args, job_id="abcdefgh")


PLACES: dict[str, Callable[[list[str]], Request]] = {
    "%%slurm": line.parse,
    "%%slurm --": line.parse_with_arguments,
    "submit": headless.request,
    "run": lambda words: headless.own_program(
        read_arguments(RUN, ["image", *words]), job_id="abcdefgh"
    )[0],
    "session start": lambda words: started(SessionSpec, words)[0],
    "lab start": lambda words: started(LabSpec, words)[0],
    "shell": lambda words: shell.parse(read_arguments(SHELL, words)).request,
    "kernel add": kernel_spec.parse,
    "%%slurm_image": lambda words: (
        image_line.parse_image(IMAGE_CELL, read_arguments(IMAGE_CELL, ["env", *words])).request
    ),
}
NAMES = sorted({*CELL.options, *OPTIONS, "idle", "job", "new", "keep", "from", "env-file"})
LOOKS_LIKE = st.one_of(
    st.sampled_from(["--", "-n4", "-J", "-"]),
    st.sampled_from(NAMES).map("--{}".format),
    st.tuples(st.sampled_from(NAMES), st.text("ab= \"$'é", max_size=5)).map(
        "--{0[0]}={0[1]}".format
    ),
)
OTHERS = [["--partition", "debug"], ["-c", "2"], ["--exclusive"], ["--time=30m"]]


@pytest.mark.parametrize("place", PLACES)
@given(value=LOOKS_LIKE, others=st.permutations(OTHERS), at=st.integers(0, len(OTHERS)))
def test_any_value_in_any_order_gives_the_same_request(
    place: str, value: str, others: list[list[str]], at: int
) -> None:
    usual = PLACES[place]([word for words in OTHERS for word in words]).options
    words = [*others[:at], ["--comment", value], *others[at:]]
    request = PLACES[place]([word for one in words for word in one])
    assert request.options == {**usual, "comment": value}
    assert request.arguments == ()


@pytest.mark.parametrize(
    ("words", "idle_s"),
    [
        (["--comment", "--idle", "--time", "5m"], 1800),
        (["--idle", "5m", "--comment", "--idle"], 300),
        (["--comment=--idle", "--idle=5m"], 300),
    ],
)
def test_an_idle_time_is_told_from_a_comment(words: list[str], idle_s: int | None) -> None:
    assert read_arguments(SESSION_START, words).idle == idle_s


def test_what_a_command_has_of_its_own_is_no_value_of_a_flag() -> None:
    request, made = started(LabSpec, ["--exclusive", "--idle", "1h", "--comment", "--idle"])
    assert made.idle_s == 3600
    assert request.options["comment"] == "--idle"
    assert read_arguments(LAB_START, ["--comment", "--idle"]).idle is None


def test_a_shell_is_in_a_job_where_job_is_no_value() -> None:
    parsed = shell.parse(read_arguments(SHELL, ["--comment", "--job", "--", "--comment", "--job"]))
    assert (parsed.job_id, parsed.command) == (None, ("--comment", "--job"))


@given(st.lists(st.one_of(LOOKS_LIKE, st.text(max_size=4))))
def test_no_word_is_lost_or_made(words: Sequence[str]) -> None:
    assert [word for item in scan(words) for word in item.words] == list(words)
    before, behind = before_arguments(words)
    assert [*before, *(["--"] if len(before) + len(behind) < len(words) else []), *behind] == words


@pytest.mark.parametrize(
    ("words", "asked"),
    [("-J -h", False), ("--comment --help", False), ("x -h", True), ("x -- -h", False)],
)
def test_help_is_asked_for_by_an_option_alone(words: str, asked: bool) -> None:
    assert asks_for_help(words.split()) is asked


@pytest.mark.parametrize("place", ["--comment --env TOKEN", "-- --env TOKEN"])
def test_a_shells_variable_is_put_in_for_the_option_alone(place: str) -> None:
    words = place.split()
    assert with_values(words, {"TOKEN": "x"}) == words
