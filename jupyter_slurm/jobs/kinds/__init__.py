"""The registry of the kinds of jobs. Each kind has its own file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from jupyter_slurm.jobs.kinds.cell import Cell
from jupyter_slurm.jobs.kinds.kernel import Kernel
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.jobs.kinds.lab import Lab
from jupyter_slurm.jobs.kinds.program import Program
from jupyter_slurm.jobs.kinds.script import Script
from jupyter_slurm.jobs.kinds.session import Session
from jupyter_slurm.jobs.kinds.sweep import Sweep
from jupyter_slurm.wire import JobKind

KINDS: Mapping[JobKind, Kind[Any]] = MappingProxyType(
    {
        JobKind.CELL: Cell(),
        JobKind.SWEEP: Sweep(),
        JobKind.PROGRAM: Program(),
        JobKind.SCRIPT: Script(),
        JobKind.SESSION: Session(),
        JobKind.KERNEL: Kernel(),
        JobKind.LAB: Lab(),
    }
)


class _HasKind(Protocol):
    """A struct that has a kind, either a `JobSpec` or a `Job`."""

    @property
    def kind(self) -> JobKind: ...


def kind_of(job: _HasKind) -> Kind[Any]:
    """Return the job's kind."""
    return KINDS[job.kind]
