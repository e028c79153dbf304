"""PURE: the words after `jupyter slurm shell` or `%slurm shell` -> which terminal is asked for.

The options of sbatch and ours are `line.py`'s; only what is about a terminal lives here. What is
shown in one is console.py's matter.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from jupyter_slurm.commands import line
from jupyter_slurm.commands.scanner import OurOption, before_arguments, scan
from jupyter_slurm.errors import RequestError
from jupyter_slurm.slurm.options import sbatch_args
from jupyter_slurm.slurm.units import parse_time_s
from jupyter_slurm.wire import TerminalRequest, TerminalSpec

USAGE = "shell [options of a cell] [--keep TIME] [-- COMMAND], or shell --job ID [--new]"
_NOT_HERE = tuple(
    "in out out-format attach fresh no-raise detach wait on-interrupt dry-run fetch".split()
)
"""Options of cells that mean nothing where somebody sits at a terminal."""

OWN: Mapping[str, OurOption] = MappingProxyType(
    {
        "job": OurOption("ID", "into this job, not into one that is submitted for it"),
        "new": OurOption("", "another terminal in that job, not its own"),
        "keep": OurOption("TIME", "how long the job waits for somebody to come back"),
    }
)

SHELL = """#!/bin/sh
[ -z "$SHELL" ] || ! command -v "$SHELL" >/dev/null || exec "$SHELL"
! command -v bash >/dev/null || exec bash
exec sh
"""
"""In an image the user's own shell may be missing."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A terminal, as it was asked for."""

    job_id: str | None
    """Into this job; None: into one that is submitted for it."""
    beside: bool
    """Another one, not the job's own."""
    request: line.Request
    keep_s: float | None
    command: tuple[str, ...]
    """Instead of a shell."""

    @property
    def code(self) -> str:
        """sh text."""
        return f"#!/bin/sh\nexec {shlex.join(self.command)}\n" if self.command else SHELL

    def spec(self, job_id: str) -> TerminalSpec:
        """The job that has this terminal."""
        own: dict[str, Any] = {} if self.keep_s is None else {"keep_s": self.keep_s}
        made = line.spec(TerminalSpec, self.request, self.code, job_id=job_id, **own)
        return msgspec.structs.replace(made, name=self.request.name or "shell")

    def terminal(self, job_id: str) -> TerminalRequest:
        """The terminal of that job."""
        return TerminalRequest(job_id=job_id, code=self.code, beside=self.beside)


def parse(words: Sequence[str], before: Sequence[str] = ()) -> Shell:
    """RequestError names the word that cannot be. `before`: options for every job, which count
    only where one is submitted."""
    words, command = before_arguments(words, OWN)
    own, others = _take_own(words)
    request = line.parse(others)
    if "job" in own:
        _refuse(request, others, own)
    else:
        request = line.parse([*before, *others])
        if "new" in own:
            raise RequestError("--new is for another terminal in a job: --job ID --new.")
    keep_s = None if "keep" not in own else _time_s(own["keep"])
    return Shell(own.get("job"), "new" in own, request, keep_s, tuple(command))


def _take_own(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    own: dict[str, str] = {}
    others: list[str] = []
    for item in scan(words, OWN):
        if item.name in _NOT_HERE:
            told = f"--{item.name} means nothing for a terminal."
            raise RequestError(told, hint=f"`{USAGE}`")
        if item.name is None or item.name not in OWN:
            others += item.words
        elif item.name == "new":
            own[item.name] = ""
        elif item.value:
            own[item.name] = item.value
        else:
            raise RequestError(f"--{item.name} needs a value.", hint=f"`{USAGE}`")
    return own, others


def _refuse(request: line.Request, others: Sequence[str], own: dict[str, str]) -> None:
    """A job that is there already has what it has."""
    if sbatch_args(request.options) or others or "keep" in own:
        word = others[0] if others else "--keep"
        raise RequestError(
            f"`{word}` is for a job that is submitted; with --job there is one already.",
            hint=f"`{USAGE}`",
        )


def _time_s(text: str) -> float:
    try:
        return float(parse_time_s(text) or math.inf)
    except ValueError as exc:
        raise RequestError(f"--keep: {exc}.") from exc
