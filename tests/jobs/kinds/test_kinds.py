"""Every kind of job is in the registry, and nobody else asks which kind a job is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import jupyter_slurm
from jupyter_slurm.jobs.kinds import KINDS, jobs_of, kind_of
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.wire import JobKind
from tests.jobs.records.test_book import record
from tests.specs import job_spec

PACKAGE = Path(jupyter_slurm.__file__).parent
NAMES = frozenset(kind.value for kind in JobKind)


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
            assert not any((kind.is_as_written, kind.has_terminal, kind.takes_arguments))


def test_nobody_else_asks_which_kind_a_job_is() -> None:
    asking = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / "jobs" / "kinds" not in path.parents
        for line in asks(path.read_text(encoding="utf-8"))
    ]
    assert asking == [], "name the reason as a trait of jobs/kinds/kind.py, and ask for that"


@pytest.mark.parametrize(
    "text",
    [
        "job.kind is JobKind.LAB",
        "JobKind.LAB != kind",
        "wire.JobKind.LAB == kind",
        "job.kind not in (JobKind.CELL, JobKind.SESSION)",
        "ENDS = JobKind.LAB, JobKind.KERNEL",
        "ENDS = [JobKind.LAB]",
        "ENDS = frozenset({JobKind.LAB})",
        "ALL = frozenset(JobKind) - OTHERS",
        "CODE = {JobKind.CELL: 'cell.py'}",
        "match kind:\n    case JobKind.CELL | JobKind.LAB: pass",
        "match job:\n    case Job(kind=JobKind.CELL): pass",
        "job.kind == 'lab'",
        "spec.kind in ('lab', 'kernel')",
        "match job.kind:\n    case 'lab': pass",
    ],
)
def test_whoever_asks_is_found(text: str) -> None:
    assert [*asks(text)]


@pytest.mark.parametrize(
    "text",
    [
        "spec(request, '', kind=JobKind.LAB)",
        "kind, code = JobKind.CELL, text",
        "kind = JobKind.SCRIPT if has_directives else JobKind.PROGRAM",
        "jobs_of(JobKind.LAB, jobs)",
        "class Job:\n    kind: JobKind = JobKind.CELL",
        "Evidence(kind=job.kind)",
        "entry.kind == 'file'",
        "command == 'lab'",
    ],
)
def test_whoever_makes_one_does_not_ask(text: str) -> None:
    assert [*asks(text)] == []


def asks(text: str) -> Iterator[int]:
    """Yield the lines where a module tells kinds of jobs apart."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                told = any(map(_names_a_kind, sides)) or (
                    any(map(_is_a_jobs, sides)) and any(map(_spells_a_kind, sides))
                )
            case ast.Dict(keys=keys):
                told = any(_is_a_kind(key) for key in keys)
            case ast.Set(elts=elements):
                told = any(map(_is_a_kind, elements))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                told = bool(elements) and all(map(_is_a_kind, elements))
            case ast.Call(args=arguments):
                told = any(isinstance(one, ast.Name) and one.id == "JobKind" for one in arguments)
            case ast.MatchValue(value=value):
                told = _is_a_kind(value)
            case ast.Match(subject=subject, cases=cases):
                told = _is_a_jobs(subject) and any(_spells_a_kind(one.pattern) for one in cases)
            case _:
                continue
        if told:
            yield node.lineno


def _is_a_kind(node: ast.AST | None) -> bool:
    """Tell whether it is `JobKind.NAME`, or the same of a module."""
    if not isinstance(node, ast.Attribute):
        return False
    of = node.value
    name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
    return name == "JobKind"


def _names_a_kind(node: ast.AST) -> bool:
    return any(map(_is_a_kind, ast.walk(node)))


def _is_a_jobs(node: ast.AST) -> bool:
    """Tell whether it is the kind of something."""
    return isinstance(node, ast.Attribute) and node.attr == "kind"


def _spells_a_kind(node: ast.AST) -> bool:
    constants = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return any(value in NAMES for value in constants if isinstance(value, str))
