"""PURE: `--env NAME` in a terminal: the value is the shell's, so that no command line holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_slurm.commands.scanner import scan
from jupyter_slurm.errors import RequestError


def with_values(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Give each `--env NAME` the value that the shell exports for NAME. RequestError when it
    exports no such variable.

    >>> with_values(["--env", "TOKEN", "--env=A=b", "--gpus", "1"], {"TOKEN": "x"})
    ['--env', 'TOKEN=x', '--env=A=b', '--gpus', '1']
    """
    done: list[str] = []
    for item in scan(words):
        if item.name != "env" or item.value is None:
            done += item.words
        elif len(item.words) > 1:
            done += [item.words[0], _with_value(item.value, variables)]
        else:
            done.append(f"--env={_with_value(item.value, variables)}")
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
