"""Say what a cell is: Python code, run once by node/runner.py. PURE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.by_python import ByPython
from jupyter_slurm.jobs.kinds.kind import Files
from jupyter_slurm.wire import CellJob, CellSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.submission.resolved import Resolved
    from jupyter_slurm.profiles.profile import ClusterProfile


class Cell(ByPython[CellSpec]):
    """A cell, in a job of its own or in a session."""

    __slots__ = ()

    spec = CellSpec
    job = CellJob
    identified_by = ("names_in", "names_out", "out_format")
    is_python = True
    runner = layout.RUNNER
    code_file = layout.CELL
    has_records = True
    has_result = True

    def completed(self, spec: CellSpec, profile: ClusterProfile) -> CellSpec:
        return replace(spec, out_format=spec.out_format or profile.out_format)

    def files(self, spec: CellSpec, job: Resolved) -> Files:
        variables = bool(spec.names_in or spec.names_out)
        return own_files(spec) | runner_files(variables=variables)


def task(spec: CellSpec) -> bytes:
    """Return what the runner has to know besides the cell's text."""
    return msgspec.json.encode(
        {
            "id": spec.id,
            "cell_name": f"slurm cell {spec.id}",
            "names_in": spec.names_in,
            "names_out": spec.names_out,
            "out_format": spec.out_format,
        }
    )


def own_files(spec: CellSpec) -> dict[str, bytes | Path]:
    """Return what is of this cell alone, its key still empty."""
    files: dict[str, bytes | Path] = {
        layout.CELL: spec.code.encode(),
        layout.TASK: task(spec),
        layout.KEY: b"",
    }
    if spec.inputs is not None:
        files[layout.INPUTS] = Path(spec.inputs)
    return files


def runner_files(*, variables: bool) -> dict[str, bytes]:
    """Return node/runner.py with all that it imports."""
    # Front ends read traits and send nothing; payload loads importlib.metadata, which is slow.
    from jupyter_slurm.jobs.submission import payload  # noqa: PLC0415

    files = dict(payload.needed_files(variables))
    if variables:
        files[layout.CLOUDPICKLE] = payload.cloudpickle_zip()
    return files
