"""The steps that make an image, as a setup script; and commands as a Dockerfile. Pure values and
text; nothing here knows where the steps come from."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

SETUP = "setup"
"""The script's name beside a Dockerfile that runs it."""
INSIDE = "/jupyter-slurm-setup"
"""The script's path in the image while it runs. Not below /tmp, which may be the node's."""
FILES = "files"
"""The name of the folder beside the script with the files that the recipe takes along."""


@dataclass(frozen=True, slots=True)
class Run:
    """POSIX sh text; the first of its commands that fails ends everything."""

    text: str
    line: str = field(default="", compare=False)
    """The line of the recipe, as it says itself before it runs; "": the tool says it."""

    @property
    def script(self) -> str:
        """Return the text; before it, print the line, as a shell's trace does."""
        said = f"printf '%s\\n' {shlex.quote(f'+ {self.line}')}\n" if self.line else ""
        return said + self.text


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


@dataclass(frozen=True, slots=True)
class Copy:
    """Files and folders beside the recipe, put into the image as a Dockerfile's COPY does."""

    sources: tuple[str, ...]
    target: str
    """A word, as in `Set`."""


@dataclass(frozen=True, slots=True)
class Program:
    """A part of the image's own program: ENTRYPOINT, or CMD, which gives that its arguments where
    a job gives none. The later of two equal parts counts."""

    words: tuple[str, ...]
    is_entrypoint: bool


Step = Run | Set | Enter | Copy | Program

_COPY = """copy() {
  target=$1; shift
  case $#$target in 1*/) into=1 ;; 1*) into= ;; *) into=1 ;; esac
  for one; do
    if [ -d "$one" ]; then mkdir -p -- "$target" && cp -pRP -- "$one/." "$target"
    elif [ -n "$into" ] || [ -d "$target" ]; then
      mkdir -p -- "$target" && cp -pRP -- "$one" "$target"
    else mkdir -p -- "$(dirname -- "$target")" && cp -pRP -- "$one" "$target"
    fi || return
  done
}"""


def as_dockerfile(base: str, commands: Sequence[Run]) -> str:
    """Return a Dockerfile in which each command is a layer of its own."""
    # As JSON nothing in it means anything to the builder.
    runs = [json.dumps(["/bin/sh", "-c", f"set -e\n{one.script}"]) for one in commands]
    return "".join([f"FROM {base}\n", *(f"RUN {run}\n" for run in runs)])


def script_dockerfile(base: str) -> str:
    """Return a Dockerfile that runs the script `SETUP` beside it."""
    remove = json.dumps(["/bin/sh", "-c", f"rm -f {INSIDE}"])
    return f"FROM {base}\nCOPY {SETUP} {INSIDE}\nRUN {json.dumps([INSIDE])}\nRUN {remove}\n"


def as_script(steps: Sequence[Step], files: str) -> str:
    """Return one POSIX sh script that does them all. See `kept_variables` for variables, and
    `own_program.written` for the image's own program; `files` is the folder inside that has the
    files beside the recipe."""
    lines = ["#!/bin/sh", "set -e"]
    if any(isinstance(step, Copy) for step in steps):
        lines.append(_COPY)
    for step in steps:
        match step:
            case Run():
                lines.append(f"(\n{step.script}\n)")
            case Set():
                lines.append(f"export {step.name}={step.value}")
            case Enter():
                lines.append(f"mkdir -p -- {step.folder} && cd -- {step.folder}")
            case Copy():
                taken = shlex.join(f"{files}/{one}" for one in step.sources)
                lines.append(f"copy {step.target} {taken}")
    return "\n".join(lines) + "\n"


def kept_variables(steps: Sequence[Step]) -> list[Set]:
    return [step for step in steps if isinstance(step, Set) and step.kept]
