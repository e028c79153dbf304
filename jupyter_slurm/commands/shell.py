"""The arguments of `shell`. No I/O."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyter_slurm.commands import line
from jupyter_slurm.commands.arguments import of_job
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.commands.submitting import SHELL
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import ProgramSpec

_NAME = "shell"
"""The default job name in Slurm."""

ANY_SHELL = """#!/bin/sh
[ -z "$SHELL" ] || ! command -v "$SHELL" >/dev/null || exec "$SHELL"
! command -v bash >/dev/null || exec bash
exec sh
"""
"""A script that starts the user's shell, or another shell if the image lacks it."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A requested terminal."""

    job_id: str | None
    """The job to enter; None for a new allocation."""
    node: str | None
    """A node of the job; None for the first node."""
    request: line.Request
    command: tuple[str, ...]
    """The command to run; () for a shell."""

    @property
    def code(self) -> str:
        """Return the sh script to run."""
        return f"#!/bin/sh\nexec {shlex.join(self.command)}\n" if self.command else ANY_SHELL

    def spec(self, job_id: str) -> ProgramSpec:
        """Return the spec of the allocation."""
        request = replace(self.request, name=self.request.name or _NAME)
        return line.spec(ProgramSpec, request, self.code, job_id=job_id)


def parse(args: Arguments, before: Sequence[str] = ()) -> Shell:
    """Parse the arguments. The options `before` for every job apply only to a new allocation. Raise
    a RequestError that names the invalid argument."""
    request = of_job(SHELL, args.words)
    if args.job is not None:
        if args.words:
            raise RequestError(
                f"`{args.words[0]}` needs a new allocation, but --job names a running job.",
                hint=f"`%slurm {SHELL.usage('terminal')}`",
            )
    else:
        request = line.parse(line.after(before, args.words))
        if args.node is not None:
            raise RequestError(
                "--node needs --job ID.",
                hint="For a new allocation use --nodelist NAME.",
            )
    return Shell(args.job, args.node, request, args.rest)


def command_line(args: Arguments, before: Sequence[str]) -> str:
    """Return the terminal command for the same shell."""
    words = ["jupyter", "slurm", "shell"]
    words += line.after(before, args.words) if args.job is None else ["--job", args.job]
    words += [] if args.node is None else ["--node", args.node]
    return shlex.join([*words, *(("--", *args.rest) if args.rest else ())])
