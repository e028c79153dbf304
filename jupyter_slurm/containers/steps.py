"""The steps that make an image, as a setup script; and commands as a Dockerfile. Pure values and
text; nothing here knows where the steps come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

SETUP = "setup"
"""The script's name beside a Dockerfile that runs it."""
INSIDE = "/jupyter-slurm-setup"
"""The script's path in the image while it runs. Not below /tmp, which may be the node's."""


@dataclass(frozen=True, slots=True)
class Run:
    """POSIX sh text; the first of its commands that fails ends everything."""

    text: str


@dataclass(frozen=True, slots=True)
class Set:
    """A variable; `value` is a word of POSIX sh without command substitution. If not `kept`, it
    holds only while the image is made."""

    name: str
    value: str
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Enter:
    """The folder for the steps that follow, which make it. A word, as in `Set`."""

    folder: str


Step = Run | Set | Enter


def as_dockerfile(base: str, commands: Sequence[str]) -> str:
    """Return a Dockerfile in which each command is POSIX sh, and a layer of its own."""
    # As JSON nothing in it means anything to the builder.
    runs = [json.dumps(["/bin/sh", "-c", f"set -e\n{text}"]) for text in commands]
    return "".join([f"FROM {base}\n", *(f"RUN {run}\n" for run in runs)])


def script_dockerfile(base: str) -> str:
    """Return a Dockerfile that runs the script `SETUP` beside it."""
    remove = json.dumps(["/bin/sh", "-c", f"rm -f {INSIDE}"])
    return f"FROM {base}\nCOPY {SETUP} {INSIDE}\nRUN {json.dumps([INSIDE])}\nRUN {remove}\n"


def as_script(steps: Sequence[Step]) -> str:
    """Return one POSIX sh script that does them all. See `kept_variables` for variables."""
    lines = ["#!/bin/sh", "set -e"]
    for step in steps:
        match step:
            case Run():
                lines.append(f"(\n{step.text}\n)")
            case Set():
                lines.append(f"export {step.name}={step.value}")
            case Enter():
                lines.append(f"mkdir -p -- {step.folder} && cd -- {step.folder}")
    return "\n".join(lines) + "\n"


def kept_variables(steps: Sequence[Step]) -> list[Set]:
    return [step for step in steps if isinstance(step, Set) and step.kept]
