"""PURE: `--env NAME` in a terminal: the value is the shell's, so that no command line holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from jupyter_slurm.errors import RequestError

_ENV = "--env"


def with_values(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """The words with the value of each variable that is named alone. RequestError: there is none.

    >>> with_values(["--env", "TOKEN", "--env=A=b", "--gpus", "1"], {"TOKEN": "x"})
    ['--env', 'TOKEN=x', '--env=A=b', '--gpus', '1']
    """
    done: list[str] = []
    left = iter(words)
    for word in left:
        name, equals, text = word.partition("=")
        if name != _ENV:
            done.append(word)
        elif equals:
            done.append(f"{_ENV}={_with_value(text, variables)}")
        else:
            done += [word, *(_with_value(one, variables) for one in islice(left, 1))]
    return done


def _with_value(text: str, variables: Mapping[str, str]) -> str:
    if "=" in text:
        return text
    if text not in variables:
        raise RequestError(
            f"--env: this shell exports no variable `{text}`.",
            hint="`export` it, or say NAME=VALUE, which other users of this machine can see while "
            "the command runs.",
            option="env",
        )
    return f"{text}={variables[text]}"
