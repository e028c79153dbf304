"""The registry of the kinds of jobs."""

from __future__ import annotations

from typing import Any

from jupyter_slurm.jobs.kinds import KINDS, kind_of
from jupyter_slurm.wire import JobKind
from tests.jobs.records.test_registry import record
from tests.specs import job_spec


def test_job_and_spec_have_the_same_kind() -> None:
    for kind in JobKind:
        job = record(kind=kind).job
        own: dict[str, Any] = {"idle_s": 60} if kind is JobKind.SESSION else {}
        spec = job_spec(kind=kind, **own)
        assert spec.kind is kind
        assert kind_of(job) is kind_of(spec) is KINDS[kind]
