"""Say what holds for every kind that the image's Python runs with a program of ours. PURE."""

from __future__ import annotations

import re

from jupyter_slurm.jobs.kinds.kind import Explained, Kind
from jupyter_slurm.wire import SpecT

_NO_PYTHON = re.compile(
    r"^\S*sh: .*exec: (?:line \d+: )?(?P<python>.+?): (?:not found|.*No such file)", re.MULTILINE
)
"""The words of dash, bash and busybox where this Python is missing."""
_OLD_PYTHON = re.compile(
    r"^jupyter-slurm: this is (?P<python>Python \S+), and a cell needs", re.MULTILINE
)
"""Matches what `node/runner.py` prints."""


class ByPython(Kind[SpecT]):
    """One that names its program (`runner`)."""

    __slots__ = ()

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        missing, old = _NO_PYTHON.search(log_tail), _OLD_PYTHON.search(log_tail)
        if old:
            why = f"A cell needs Python 3.6 or later, and this is {old['python']}."
        elif missing and bare:
            why = f"The node has no {missing['python']}."
        elif missing:
            why = "The image has no Python."
        else:
            return None
        if bare:
            return why, (
                "Name another with `python` in the cluster's profile, or load a module that has "
                "one (--module)."
            )
        return why, (
            "A cell needs python3 (3.6 or later) in it: try another image, or begin the cell with "
            "#!/bin/sh."
        )
