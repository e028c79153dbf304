"""PURE: the words after `jupyter slurm shell` or `%slurm shell` -> the terminal that they ask for.

`line.py` reads sbatch's options and ours; this reads only what is about a terminal. console.py
shows one.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_slurm.commands import line
from jupyter_slurm.commands.arguments import Arguments, of_job
from jupyter_slurm.commands.submitting import SHELL
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import TerminalRequest, TerminalSpec

ANY_SHELL = """#!/bin/sh
[ -z "$SHELL" ] || ! command -v "$SHELL" >/dev/null || exec "$SHELL"
! command -v bash >/dev/null || exec bash
exec sh
"""
"""A script that starts the user's shell or, since an image may lack that, another one."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A terminal, as the user asks for it."""

    job_id: str | None
    """The job to enter; None: one that is submitted for the terminal."""
    new: bool
    """Whether it is another terminal than those that the job has."""
    node: str | None
    """The node of that job; None: any that has a terminal, else the first."""
    number: int | None
    """Which of the job's terminals; None: the one that was left last."""
    request: line.Request
    keep_s: float | None
    command: tuple[str, ...]
    """The command to run instead of a shell."""

    @property
    def code(self) -> str:
        """Return the sh script that the terminal runs."""
        return f"#!/bin/sh\nexec {shlex.join(self.command)}\n" if self.command else ANY_SHELL

    def spec(self, job_id: str) -> TerminalSpec:
        """Return the job that has this terminal."""
        own: dict[str, Any] = {} if self.keep_s is None else {"keep_s": self.keep_s}
        return line.spec(TerminalSpec, self.request, self.code, job_id=job_id, **own)

    def terminal(self, job_id: str) -> TerminalRequest:
        """Return the request for the terminal of that job."""
        return TerminalRequest(
            job_id=job_id, code=self.code, beside=self.new, node=self.node, number=self.number
        )

    def words_into(self, job_id: str) -> str:
        """Return the words of the same terminal in a job that is there."""
        words = ["jupyter", "slurm", "shell", "--job", job_id]
        words += [] if self.number is None else ["--terminal", str(self.number)]
        words += [] if self.node is None else ["--node", self.node]
        words += ["--new"] if self.new else []
        words += ["--", *self.command] if self.command and self.job_id else []
        return shlex.join(words)


def absent(others: Sequence[int]) -> RequestError:
    """Return the error for a number that none of a job's terminals has."""
    return RequestError(
        "The job has no terminal of that number: the program in it has ended, or there was none.",
        hint="It has: {numbers}. Without a number, the one that was left last is opened.",
        numbers=", ".join(map(str, others)),
    )


def parse(args: Arguments, before: Sequence[str] = ()) -> Shell:
    """Read the words. RequestError names the wrong one. `before`: options for every job, which
    count only if one is submitted."""
    request = of_job(SHELL, args.words)
    if args.job is not None:
        if args.words or args.keep is not None:
            word = args.words[0] if args.words else "--keep"
            raise RequestError(
                "`{word}` is for a job that is submitted; with --job there is one already.",
                hint="`%slurm {usage}`",
                word=word,
                usage=SHELL.usage("terminal"),
            )
    else:
        request = line.parse([*before, *args.words])
        _check_alone(args)
    others = {"--new": args.new, "--node": args.node, "COMMAND": args.rest}
    if args.terminal is not None and (other := next(filter(others.get, others), None)):
        raise RequestError(
            "--terminal comes back to a terminal that is there: it takes no {other}.",
            hint="Leave --terminal out to open another one.",
            other=other,
        )
    # A command would not run in a terminal that is there.
    new = args.new or bool(args.job and args.rest)
    return Shell(args.job, new, args.node, args.terminal, request, args.keep, args.rest)


def _check_alone(args: Arguments) -> None:
    """Raise RequestError for what only a terminal in a job that runs can have."""
    if args.new:
        raise RequestError("--new is for another terminal in a job: --job ID --new.")
    if args.terminal is not None:
        raise RequestError("--terminal is for a terminal that a job has: --job ID --terminal N.")
    if args.node is not None:
        raise RequestError(
            "--node is for a node of a job that runs: --job ID --node NAME.",
            hint="The node of a job that is submitted is --nodelist NAME.",
        )
