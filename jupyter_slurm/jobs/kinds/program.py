"""Say what a program is: text with an interpreter of its own, run once in the image. PURE."""

from __future__ import annotations

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.wire import JobSpec


class Program(Kind):
    __slots__ = ()

    takes_arguments = True
    starts_tasks = True
    makes_images = True
    code_file = layout.PROGRAM

    def check(self, spec: JobSpec) -> None:
        if "{attempt}" in spec.arguments:
            raise RequestError("`{attempt}` cannot be an argument: it is filled in on the node.")
        super().check(spec)
