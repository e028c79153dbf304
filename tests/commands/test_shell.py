"""The arguments of `shell`."""

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


def test_cell_options_apply_to_the_allocation() -> None:
    wanted = parse("--gpus 1 --image py:3".split(), ["--mem", "1G"])
    spec = wanted.spec("abcdefgh")
    assert (spec.kind, spec.name, spec.image) == (JobKind.PROGRAM, "shell", "py:3")
    assert spec.options == {"gpus": "1", "mem": "1G"}
    assert spec.code.startswith("#!/bin/sh\n")
    assert wanted.job_id is None
    assert parse(["-J", "mine"]).spec("abcdefgh").name == "mine"


def test_command_replaces_the_shell() -> None:
    wanted = parse(["--gpus=1", "--", "top", "-d", "it's 1", "--job", "x"])
    assert wanted.code == "#!/bin/sh\nexec top -d 'it'\"'\"'s 1' --job x\n"
    assert wanted.job_id is None


@pytest.mark.parametrize(
    "words", ["--job 12", "--job 12 --node 'a b'", "--job 12 -- htop -d 'x y'", "--gpus 1 -- top"]
)
def test_terminal_command_parses_to_the_same_request(words: str) -> None:
    args = read_arguments(SHELL, shlex.split(words))
    typed = shlex.split(shell.command_line(args, ["--mem", "1G"]))
    assert typed[:3] == ["jupyter", "slurm", "shell"]
    assert parse(typed[3:]) == shell.parse(args, ["--mem", "1G"])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--job 12 --gpus 1", "`--gpus` needs a new allocation"),
        ("--job", "--job: expected one argument"),
        ("--node n2", "--node needs --job ID"),
        ("--detach", "--detach does not apply to a terminal"),
        ("--push .", "--push does not apply to a terminal"),
        ("--out=x", "--out does not apply to a terminal"),
        ("--gpuz 1", "--gpuz"),
        ("htop", "htop"),
    ],
)
def test_invalid_arguments_are_rejected(words: str, named: str) -> None:
    with pytest.raises(RequestError, match=named):
        parse(words.split())
