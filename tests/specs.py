"""Makes what a job of any kind is asked for with."""

from __future__ import annotations

from typing import Any

from jupyter_slurm.jobs.kinds import KINDS
from jupyter_slurm.wire import JobKind, JobSpec


def asked(code: str = "", *, kind: JobKind = JobKind.CELL, **fields: Any) -> JobSpec:
    """Return a job of that kind; of one that has no code, `code` is left out."""
    make = KINDS[kind].spec
    if "code" in make.__struct_fields__:
        fields["code"] = code
    made: JobSpec = make(**{"name": "test", **fields})
    return made
