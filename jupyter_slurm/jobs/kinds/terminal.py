"""Say what a terminal is: a program with a terminal on the node, to which people come. PURE."""

from __future__ import annotations

import re

from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Explained, Kind
from jupyter_slurm.wire import Message, TerminalJob, TerminalSpec

_NO_HOLDER = re.compile(r"^There is no Python on ", re.MULTILINE)
"""Matches what `transport/node_program.py` prints."""


class Terminal(Kind[TerminalSpec]):
    __slots__ = ()

    spec = TerminalSpec
    job = TerminalJob
    usual_name = "shell"
    code_file = layout.PROGRAM
    node_files = ("framing.py", "terminal_pty.py", "terminal_one.py", "terminal.py")
    has_terminal = True
    listens = True

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        if not _NO_HOLDER.search(log_tail):
            return None
        return (
            "The node has no Python, which a job's own terminal needs.",
            Message.of(
                "Name one with `python` in the cluster's profile, or load a module that has one "
                "(--module). A terminal in a job that runs already needs none: "
                "`{slurm} shell --job ID`."
            ),
        )
