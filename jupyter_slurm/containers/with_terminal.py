"""A program that has a terminal, in the image of a job: where a runtime has ways of its own. Pure.

Most are started as for any program; one of them twice in a job, the second beside the first. What
a runtime has to do differently it says by the methods of `HasTerminal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jupyter_slurm.containers.runtime import Box, Launch, Runtime


@runtime_checkable
class HasTerminal(Protocol):
    """The methods that a runtime may have beside those of `Runtime`."""

    def in_terminal(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch as `Runtime.launch` does, but on a terminal, and without a `pid_file`."""

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch in a job whose program already runs, in its container where it has one."""


def in_terminal(runtime: Runtime, argv: Sequence[str], box: Box) -> Launch:
    """Launch in a terminal. RequestError: as of `Runtime.launch`."""
    if isinstance(runtime, HasTerminal):
        return runtime.in_terminal(argv, box)
    return runtime.launch(argv, box)


def beside(runtime: Runtime, argv: Sequence[str], box: Box) -> Launch:
    """Launch beside the job's own program. RequestError: as of `Runtime.launch`."""
    if isinstance(runtime, HasTerminal):
        return runtime.beside(argv, box)
    return runtime.launch(argv, box)
