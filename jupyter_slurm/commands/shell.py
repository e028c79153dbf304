"""PURE: the words after `jupyter slurm shell` or `%slurm shell` -> which terminal is asked for.

The options of sbatch and ours are `line.py`'s; only what is about a terminal lives here. What is
shown in one is console.py's matter.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_slurm.commands import line
from jupyter_slurm.commands.asked import Asked, of_job
from jupyter_slurm.commands.table import SHELL
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import TerminalRequest, TerminalSpec

ANY_SHELL = """#!/bin/sh
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
        return f"#!/bin/sh\nexec {shlex.join(self.command)}\n" if self.command else ANY_SHELL

    def spec(self, job_id: str) -> TerminalSpec:
        """The job that has this terminal."""
        own: dict[str, Any] = {} if self.keep_s is None else {"keep_s": self.keep_s}
        return line.spec(TerminalSpec, self.request, self.code, job_id=job_id, **own)

    def terminal(self, job_id: str) -> TerminalRequest:
        """The terminal of that job."""
        return TerminalRequest(job_id=job_id, code=self.code, beside=self.beside)


def parse(asked: Asked, before: Sequence[str] = ()) -> Shell:
    """Read what the words ask for. RequestError names the one that cannot be. `before`: options for
    every job, which count only where one is submitted."""
    request = of_job(SHELL, asked.words)
    if asked.job is not None:
        if asked.words or asked.keep is not None:
            word = asked.words[0] if asked.words else "--keep"
            told = f"`{word}` is for a job that is submitted; with --job there is one already."
            raise RequestError(told, hint=f"`%slurm {SHELL.usage('terminal')}`")
    else:
        request = line.parse([*before, *asked.words])
        if asked.new:
            raise RequestError("--new is for another terminal in a job: --job ID --new.")
    return Shell(asked.job, asked.new, request, asked.keep, asked.rest)
