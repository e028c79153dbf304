"""Programs, which run a script with an interpreter, or the image's own program. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Explained, Files, Kind
from jupyter_slurm.wire import ProgramJob, ProgramSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.submission.resolve import Resolved


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
            raise RequestError("`{attempt}` cannot be an argument: the node replaces it.")
        if spec.on_login and spec.image:
            raise RequestError("The login node only builds images and installs packages.")
        if spec.code or spec.on_login:
            super().check(spec)
        elif "chdir" in spec.options:
            raise RequestError(
                "The image's own program has its own working directory, so it cannot use --chdir.",
                hint="Use `--mount .:/DIR` for access to the job's folder.",
                option="chdir",
            )

    def files(self, spec: ProgramSpec, job: Resolved) -> Files:
        return super().files(spec, job) if spec.code else {}

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        # The container tools are slow to import, and front ends do not need them.
        from jupyter_slurm.containers.own_program import (  # noqa: PLC0415
            NONE_NAMED,
            NONE_NAMED_EXIT,
        )

        if exit_code != NONE_NAMED_EXIT or NONE_NAMED not in log_tail:
            return None
        return (
            "The image has no program of its own.",
            "Use a cell or file that begins with `#!`, or add ENTRYPOINT (Dockerfile) or "
            "%runscript (Apptainer definition) to the image.",
        )
