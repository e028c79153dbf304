"""Say what a cell is: Python code, run once by node/runner.py. PURE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.by_python import ByPython
from jupyter_slurm.jobs.kinds.kind import Files
from jupyter_slurm.wire import JobSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.submission.resolved import Resolved


class Cell(ByPython):
    """A cell, in a job of its own or in a session."""

    __slots__ = ()

    is_python = True
    runner = layout.RUNNER
    code_file = layout.CELL
    has_records = True
    has_result = True

    def files(self, job: Resolved) -> Files:
        spec = job.spec
        variables = bool(spec.names_in or spec.names_out)
        return own_files(spec, task(spec)) | runner_files(variables=variables)


def task(spec: JobSpec) -> bytes:
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


def own_files(spec: JobSpec, task: bytes) -> dict[str, bytes | Path]:
    """Return what is of this cell alone, its key still empty."""
    files: dict[str, bytes | Path] = {
        layout.CELL: spec.code.encode(),
        layout.TASK: task,
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
