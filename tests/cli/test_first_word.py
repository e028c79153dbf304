"""Commands whose first word says which one is meant."""

from __future__ import annotations

from typing import Any, cast

import pytest

from jupyter_slurm.cli.first_word import by_first_word
from jupyter_slurm.errors import RequestError

CONNECT = cast("Any", None)
COMMANDS = {
    "add": lambda words, _: len(words),
    "list": lambda words, _: 10 + len(words),
    "remove": lambda words, _: 20 + len(words),
}


def run(*words: str) -> int:
    return by_first_word("kernel", words, COMMANDS, "usage: kernel\n", CONNECT)


def test_the_first_word_has_the_others() -> None:
    assert (run("add", "--gpus", "1"), run("list"), run("remove", "far")) == (2, 10, 21)


def test_without_a_word_or_with_a_wrong_one_it_says_which_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (run(), run("add", "--help")) == (2, 0)
    assert capsys.readouterr().out == "usage: kernel\n" * 2
    with pytest.raises(RequestError, match="`kernel start`: it is add, list or remove"):
        run("start")
