"""The words after `shell`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pytest

from jupyter_slurm.commands import shell
from jupyter_slurm.commands.arguments import read_arguments
from jupyter_slurm.commands.shell import Shell
from jupyter_slurm.commands.submitting import SHELL
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import JobKind


def parse(words: Sequence[str], before: Sequence[str] = ()) -> Shell:
    return shell.parse(read_arguments(SHELL, words), before)


def test_options_of_a_cell_are_those_of_the_job() -> None:
    wanted = parse("--gpus 1 --image py:3 --keep 2h".split(), ["--mem", "1G"])
    spec = wanted.spec("abcdefgh")
    assert (spec.kind, spec.name, spec.image, spec.keep_s) == (
        JobKind.TERMINAL,
        "shell",
        "py:3",
        7200,
    )
    assert spec.options == {"gpus": "1", "mem": "1G"}
    assert spec.code.startswith("#!/bin/sh\n")
    assert wanted.job_id is None


def test_a_command_is_run_in_place_of_the_shell_word_for_word() -> None:
    wanted = parse(["--gpus=1", "--", "top", "-d", "it's 1", "--job", "x"])
    assert wanted.code == "#!/bin/sh\nexec top -d 'it'\"'\"'s 1' --job x\n"
    assert wanted.job_id is None


@pytest.mark.parametrize("words", ["--job 12", "--job=12", "--new --job 12"])
def test_into_a_job_the_options_of_every_cell_do_not_count(words: str) -> None:
    wanted = parse(words.split(), ["--gpus", "8"])
    assert wanted.job_id == "12"
    assert wanted.terminal("abcdefgh").beside is ("new" in words)


@pytest.mark.parametrize(
    ("words", "beside", "node", "number", "again"),
    [
        ("--job 12", False, None, None, "jupyter slurm shell --job 12"),
        ("--job 12 --terminal 2", False, None, 2, "jupyter slurm shell --job 12 --terminal 2"),
        ("--job 12 --node n2", False, "n2", None, "jupyter slurm shell --job 12 --node n2"),
        ("--job 12 --node n2 --new", True, "n2", None, "… --job 12 --node n2 --new"),
        ("--job 12 --node a'b -- htop -d 'x y'", True, "a'b", None, None),
    ],
)
def test_which_terminal_of_a_job_is_said_by_number_node_or_as_a_new_one(
    words: str, beside: bool, node: str | None, number: int | None, again: str | None
) -> None:
    words = words.replace("a'b", "'a'\"'\"'b'")
    wanted = parse(shlex.split(words))
    request = wanted.terminal("12")
    assert (request.beside, request.node, request.number) == (beside, node, number)
    typed = wanted.words_into("12")
    assert parse(shlex.split(typed)[3:]) == wanted
    if again is not None:
        assert typed == again.replace("…", "jupyter slurm shell")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--job 12 --gpus 1", "`--gpus` is for a job that is submitted"),
        ("--job 12 --keep 1h", "`--keep` is for a job that is submitted"),
        ("--job", "--job needs a value"),
        ("--new", "--new is for another terminal in a job"),
        ("--terminal 2", "--terminal is for a terminal that a job has"),
        ("--node n2", "--node is for a node of a job that runs"),
        ("--job 12 --terminal two", "takes a number, not `two`"),
        ("--job 12 --terminal 2 --new", "it takes no --new"),
        ("--job 12 --terminal 2 --node n2", "it takes no --node"),
        ("--job 12 --terminal 2 -- htop", "it takes no COMMAND"),
        ("--keep soon", "'soon' is not a time"),
        ("--detach", "--detach means nothing for a terminal"),
        ("--out=x", "--out means nothing for a terminal"),
        ("--gpuz 1", "--gpuz"),
        ("htop", "htop"),
    ],
)
def test_words_that_cannot_be_are_named(words: str, named: str) -> None:
    with pytest.raises(RequestError, match=named):
        parse(words.split())
