"""The base of kinds whose program the image's Python runs. Pure."""

from __future__ import annotations

import re

from jupyter_slurm.jobs.kinds.kind import Explained, Kind
from jupyter_slurm.wire import SpecT

_NO_PYTHON = re.compile(
    r"^\S*sh: .*exec: (?:line \d+: )?(?P<python>.+?): (?:not found|.*No such file)", re.MULTILINE
)
"""The error of dash, bash and busybox if Python is missing."""
_OLD_PYTHON = re.compile(
    r"^jupyter-slurm: this is (?P<python>Python \S+), and a cell needs", re.MULTILINE
)
"""The error of `node/runner.py`."""


class ByPython(Kind[SpecT]):
    """A kind that runs our program (`runner`) with Python."""

    __slots__ = ()

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        missing, old = _NO_PYTHON.search(log_tail), _OLD_PYTHON.search(log_tail)
        if old:
            why = f"A cell needs Python 3.6 or later. This is {old['python']}."
        elif missing and bare:
            why = f"The node has no {missing['python']}."
        elif missing:
            why = "The image has no Python."
        else:
            return None
        if bare:
            return why, (
                "Set `python` in the cluster's profile, or load a module with Python (--module)."
            )
        return why, ("Use an image with python3 (3.6 or later), or start the cell with #!/bin/sh.")
