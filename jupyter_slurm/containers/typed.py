"""A container's command line as a person would type it on the node, for reading. Pure.

What is run is `Runtime.launch`'s, which looks up more there than anybody would type (groups, CPUs,
limits); each runtime says by `typed` what its own comes down to.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from jupyter_slurm.containers.runtime import Box, Typed

_WIDTH = 76


def quoted(*words: str) -> str:
    """A piece of words that mean themselves."""
    return shlex.join(words)


def folder(box: Box) -> str:
    """The box's folder as a piece; of the home the tilde is left to the shell."""
    workdir = box.workdir or "~"
    if workdir.startswith("/"):
        return quoted(workdir)
    below = workdir.removeprefix("~").lstrip("/")
    return f"~/{quoted(below)}" if below not in {"", "."} else "~"


def made(folders: Iterable[str]) -> tuple[str, ...]:
    """The command that makes them."""
    return ("mkdir -p --", *map(quoted, folders))


def typed_text(commands: Typed) -> str:
    """A line for each command, and for each piece of one that is long.

    >>> print(typed_text((("cd /a",), ("docker run", "--user " + "9" * 70, "image true"))))
    cd /a
    docker run \\
      --user 9999999999999999999999999999999999999999999999999999999999999999999999 \\
      image true
    """
    short = (" ".join(pieces) for pieces in commands)
    return "\n".join(
        line if len(line) <= _WIDTH else " \\\n  ".join(pieces)
        for line, pieces in zip(short, commands, strict=True)
    )
