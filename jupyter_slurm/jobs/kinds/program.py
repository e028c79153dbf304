"""Say what a program is: text with an interpreter of its own, or what an image itself names, run
once in the image. PURE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Explained, Files, Kind
from jupyter_slurm.wire import ProgramJob, ProgramSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.submission.resolved import Resolved


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
        if spec.code or spec.on_login:
            super().check(spec)
        elif "chdir" in spec.options:
            raise RequestError(
                "The program of the image begins in the folder that the image names, whatever "
                "--chdir says.",
                hint="`--mount .:/DIR` shows it the folder of the job.",
                option="chdir",
            )

    def files(self, spec: ProgramSpec, job: Resolved) -> Files:
        return super().files(spec, job) if spec.code else {}

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        # Front ends read traits and judge nothing; the container tools take time to load.
        from jupyter_slurm.containers.own_program import (  # noqa: PLC0415
            NONE_NAMED,
            NONE_NAMED_EXIT,
        )

        if exit_code != NONE_NAMED_EXIT or NONE_NAMED not in log_tail:
            return None
        return (
            "The image names no program of its own.",
            "Name one in a cell or a file that begins with `#!`, or put it into the image: "
            "ENTRYPOINT of a Dockerfile, %runscript of an Apptainer definition.",
        )
