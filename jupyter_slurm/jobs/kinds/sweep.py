"""Sweeps, which run a Python cell once for each task of Slurm job arrays. No I/O."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.cell import own_files, runner_files
from jupyter_slurm.jobs.kinds.kind import ByPython, Files
from jupyter_slurm.slurm.units import indices
from jupyter_slurm.wire import MOST_TASKS, Job, SweepJob, SweepSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.submission.resolve import Resolved
    from jupyter_slurm.profiles.profile import ClusterProfile


class Sweep(ByPython[SweepSpec]):
    """A sweep. It has one record, and a folder for each task."""

    __slots__ = ()

    spec = SweepSpec
    job = SweepJob
    noun = "sweep"
    identified_by = (
        *("names_in", "names_out", "out_format"),
        *("max_running", "max_fails"),
    )
    is_python = True
    has_tasks = True
    runner = layout.RUNNER
    code_file = layout.CELL
    uses_runner = True
    has_result = True

    def completed(self, spec: SweepSpec, profile: ClusterProfile) -> SweepSpec:
        return replace(spec, out_format=spec.out_format or profile.out_format)

    def recorded(self, spec: SweepSpec, **known: Any) -> Job:
        return super().recorded(spec, **{**known, "tasks": {"PENDING": spec.tasks}})

    def check(self, spec: SweepSpec) -> None:
        count = len(indices(spec.tasks))
        if not count:
            raise RequestError("The sweep has no tasks.", option="sweep")
        if count > MOST_TASKS:
            raise RequestError(
                f"The sweep has {count:,} tasks. The limit is {MOST_TASKS:,}.",
                hint="Sweep fewer values, and loop over the others in the cell's code.",
                option="sweep",
            )
        if both := sorted({*spec.names_params} & {*spec.names_out}):
            raise RequestError(
                f"{both[0]} is a parameter, so it cannot be in --out.",
                hint="Leave it out of --out: the table has a column for each parameter.",
                option="out",
            )
        if both := sorted({*spec.names_params} & {*spec.names_in}):
            raise RequestError(f"{both[0]} is a parameter, so it cannot be in --in.", option="in")
        for name, number in (("max-running", spec.max_running), ("max-fails", spec.max_fails)):
            if number is not None and number < 1:
                raise RequestError(f"--{name} must be 1 or more.", option=name)
        if not spec.into.isidentifier():
            raise RequestError(f"--into: {spec.into!r} is not a variable name.")

    def files(self, spec: SweepSpec, job: Resolved) -> Files:
        variables = bool(spec.names_in or spec.names_out or spec.names_params)
        files = own_files(spec) | runner_files(variables=variables)
        given = {layout.PARAMS: spec.params, layout.PARAMS_TEXT: spec.params_text}
        return {**files, **{name: Path(path) for name, path in given.items() if path is not None}}
