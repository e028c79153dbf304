"""The registry of the kinds of jobs."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from jupyter_slurm.jobs.kinds import KINDS, jobs_of, kind_of
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.wire import JobKind
from tests.jobs.records.test_book import record
from tests.specs import job_spec


def test_every_kind_is_in_the_registry_with_a_file_of_its_own() -> None:
    assert [*KINDS] == [*JobKind]
    assert len({type(kind) for kind in KINDS.values()}) == len(JobKind)
    modules = {kind: type(KINDS[kind]).__module__.rpartition(".")[2] for kind in JobKind}
    assert modules == {kind: kind.value for kind in JobKind}


def test_a_job_and_what_was_asked_for_are_of_the_same_kind() -> None:
    for kind in JobKind:
        job = record(kind=kind).job
        own: dict[str, Any] = {"idle_s": 60} if kind is JobKind.SESSION else {}
        spec = job_spec(kind=kind, **own)
        assert spec.kind is kind
        assert kind_of(job) is kind_of(spec) is KINDS[kind]
        assert jobs_of(kind, [job]) == [job]
        assert all(jobs_of(other, [job]) == [] for other in JobKind if other is not kind)


def test_a_kind_has_no_state() -> None:
    for kind in KINDS.values():
        with pytest.raises(AttributeError):
            kind.__setattr__("noun", "thing")


def test_a_kind_sets_only_what_kinds_have() -> None:
    known = {*vars(Kind), *Kind.__annotations__}
    for kind in KINDS.values():
        for one in type(kind).__mro__:
            assert not issubclass(one, Kind) or {*vars(one)} <= known


def test_what_a_job_has_from_its_spec_is_of_the_same_type_there() -> None:
    for kind in KINDS.values():
        spec, job = get_type_hints(kind.spec), get_type_hints(kind.job)
        both = {*kind.spec.__struct_fields__} & {*kind.job.__struct_fields__}
        assert {n: _or_none(spec[n]) for n in both} == {n: _or_none(job[n]) for n in both}


def _or_none(of: Any) -> Any:
    return of | None


def test_what_our_program_runs_has_no_other_way_to_run() -> None:
    for kind in KINDS.values():
        if kind.runner is not None:
            assert not any((kind.is_as_written, kind.takes_arguments))
