"""Say what a program is: text with an interpreter of its own, run once in the image. PURE."""

from __future__ import annotations

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.wire import ProgramJob, ProgramSpec


class Program(Kind[ProgramSpec]):
    __slots__ = ()

    spec = ProgramSpec
    job = ProgramJob
    identified_by = ("arguments",)
    takes_arguments = True
    starts_tasks = True
    makes_images = True
    code_file = layout.PROGRAM

    def check(self, spec: ProgramSpec) -> None:
        if "{attempt}" in spec.arguments:
            raise RequestError("`{attempt}` cannot be an argument: it is filled in on the node.")
        if spec.on_login and spec.image:
            raise RequestError("On the login machine images are made, and nothing else is run.")
        super().check(spec)
