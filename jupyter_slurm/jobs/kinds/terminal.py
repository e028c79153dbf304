"""Say what a terminal is: a program with a terminal on the node, to which people come. PURE."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Explained, Files, Kind, check_interpreter
from jupyter_slurm.wire import JobSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.submission.resolved import Resolved

NODE_FILES = ("terminal_pty.py", "terminal.py")
"""Hold the terminal: a program behind the module that it imports."""
_NO_HOLDER = re.compile(r"^There is no Python on ", re.MULTILINE)
"""`transport/node_program.py` says it."""


class Terminal(Kind):
    """A terminal of its own."""

    __slots__ = ()

    code_file = layout.PROGRAM
    has_terminal = True
    listens = True

    def check(self, spec: JobSpec) -> None:
        """RequestError: its program cannot be started."""
        check_interpreter(spec)

    def files(self, job: Resolved) -> Files:
        """Return its program, and what holds the terminal."""
        from jupyter_slurm.jobs.submission import payload  # noqa: PLC0415 (as in cell.py)

        there = payload.node_files("terminal")
        return {**super().files(job), **{name: there[name] for name in NODE_FILES}}

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        """Explain that there is nothing to hold the terminal with."""
        if not _NO_HOLDER.search(log_tail):
            return None
        return (
            "The node has no Python, which a job's own terminal needs.",
            "Name one with `python` in the cluster's profile, or load a module that has one "
            "(--module). A terminal in a job that runs already needs none: "
            "`jupyter slurm shell --job ID`.",
        )
