"""Specs and records of jobs of any kind."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from jupyter_slurm.jobs.kinds import KINDS
from jupyter_slurm.wire import Job, JobKind, JobSpec, JobState


def job_spec(code: str = "", *, kind: JobKind = JobKind.CELL, **fields: Any) -> JobSpec:
    """Return a spec of this kind. Omit `code` for kinds without code."""
    make = KINDS[kind].spec
    if "code" in make.__struct_fields__:
        fields["code"] = code
    made: JobSpec = make(**{"name": "test", **fields})
    return made


def known(**fields: Any) -> Job:
    """Return a job, by default a running cell."""
    told = {
        "id": "aaaaaaaa",
        "cluster": "c",
        "name": "n",
        "kind": JobKind.CELL,
        "state": JobState.RUNNING,
        "created_s": 1.0,
        "state_since_s": 1.0,
        **fields,
    }
    made: Job = KINDS[told.pop("kind")].job(**told)
    return made


def of_kind(kind: JobKind, job: Job) -> Job:
    """Return the job converted to `kind`."""
    made: Job = msgspec.convert(msgspec.to_builtins(job) | {"kind": kind.value}, Job)
    return made


def comment_directive(text: str) -> str:
    """Return the `#SBATCH` line of a batch script for `--comment`, quoted for sbatch."""
    quoted = re.sub(r'(["\\#])', r"\\\1", text)
    return f'#SBATCH --comment="{quoted}"'
