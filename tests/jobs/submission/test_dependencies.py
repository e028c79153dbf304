"""The jobs that `--after` names, resolved from their records."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store, TaskArray
from jupyter_slurm.jobs.submission.dependencies import after_by_id, awaited, unmet, with_after
from jupyter_slurm.jobs.submission.resolve import Site, resolved
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.wire import After, JobKind, JobSpec, JobState
from tests.specs import job_spec, known

SITE = Site("/home/a", JobDir(PurePosixPath("/jobs/zzzzzzzz")))


@pytest.fixture
def registry(tmp_path: Path) -> JobRegistry:
    return JobRegistry(Store(tmp_path))


def add(registry: JobRegistry, job_id: str, **fields: Any) -> None:
    registry.add(Record(job=known(id=job_id, **fields), spec=None))


def waiting(*after: tuple[str, str], **fields: Any) -> JobSpec:
    names = tuple(After(job=job, ends=ends) for job, ends in after)  # type: ignore[arg-type]
    return job_spec("1", id="zzzzzzzz", after=names, **fields)


def sent(registry: JobRegistry, spec: JobSpec) -> dict[str, str]:
    """Return the options for sbatch."""
    spec = msgspec.structs.replace(spec, after=after_by_id(spec, registry, "c"))
    job = with_after(resolved(spec, ClusterProfile(name="c"), SITE), registry)
    assert job.spec.options == job.options
    return dict(job.options)


def test_jobs_are_found_by_our_id_by_slurms_id_or_by_name(registry: JobRegistry) -> None:
    add(registry, "aaaaaaaa", name="fit", slurm_id="7", notebook="/n.ipynb", created_s=1.0)
    add(registry, "bbbbbbbb", name="fit", slurm_id="8", created_s=2.0)
    add(registry, "cccccccc", name="fit", slurm_id="9", created_s=3.0, cluster="d")
    for word, slurm_id in (("aaaaaaaa", "7"), ("8", "8"), ("fit", "8"), ("123", "123")):
        options = sent(registry, waiting((word, "ok")))
        assert options == {"dependency": f"afterok:{slurm_id}", "kill-on-invalid-dep": "yes"}
    own = waiting(("fit", "any"), notebook="/n.ipynb")
    assert sent(registry, own)["dependency"] == "afterany:7"
    assert after_by_id(own, registry, "c") == (After(job="aaaaaaaa", ends="any"),)


def test_dependency_terms_are_added_and_alternatives_are_rejected(registry: JobRegistry) -> None:
    add(registry, "aaaaaaaa", slurm_id="7")
    options = {"dependency": "singleton", "kill-on-invalid-dep": "no"}
    asked = waiting(("aaaaaaaa", "fail"), ("5", "any"), options=options)
    assert sent(registry, asked) == {
        "dependency": "singleton,afternotok:7,afterany:5",
        "kill-on-invalid-dep": "no",
    }
    with pytest.raises(RequestError):
        sent(registry, waiting(("7", "ok"), options={"dependency": "after:1?after:2"}))


@pytest.mark.parametrize(
    ("state", "let"),
    [
        (JobState.COMPLETED, {"ok", "any"}),
        (JobState.FAILED, {"any", "fail"}),
        (JobState.CANCELLED, {"any", "fail"}),
    ],
)
def test_dependency_on_an_ended_job_is_checked_without_slurm(
    state: JobState, let: set[str], registry: JobRegistry
) -> None:
    add(registry, "aaaaaaaa", slurm_id="7", state=state)
    for ends in ("ok", "any", "fail"):
        if ends in let:
            assert sent(registry, waiting(("aaaaaaaa", ends))) == {}
        else:
            with pytest.raises(RequestError, match="never start"):
                sent(registry, waiting(("aaaaaaaa", ends)))


@pytest.mark.parametrize(
    "fields", [{"session": "ssssssss"}, {"kind": "program", "on_login": True}], ids=str
)
def test_dependency_on_a_job_unknown_to_slurm_is_rejected(
    fields: dict[str, Any], registry: JobRegistry
) -> None:
    add(registry, "aaaaaaaa", **fields)
    for word in ("aaaaaaaa", "nothing"):
        with pytest.raises(RequestError) as refused:
            sent(registry, waiting((word, "ok")))
        assert refused.value.option == "after"


def test_dependency_waits_for_a_job_in_submission(registry: JobRegistry) -> None:
    add(registry, "aaaaaaaa", state=JobState.SUBMITTING)
    asked = waiting(("aaaaaaaa", "ok"))
    before = awaited(asked, registry, "c")
    assert before is not None
    assert before.id == "aaaaaaaa"
    registry.change("aaaaaaaa", state=JobState.PENDING, slurm_id="7")
    assert awaited(asked, registry, "c") is None


def test_message_about_an_unmet_dependency_names_the_job(registry: JobRegistry) -> None:
    add(registry, "aaaaaaaa", slurm_id="7")
    asked = waiting(("5", "ok"), ("aaaaaaaa", "ok"))
    assert unmet(asked, registry) is None
    registry.change("aaaaaaaa", state=JobState.FAILED)
    assert "aaaaaaaa" in str(unmet(asked, registry))
    assert unmet(waiting(("aaaaaaaa", "fail")), registry) is None


def add_sweep(
    registry: JobRegistry, tasks: dict[str, str], *arrays: tuple[str, str | None]
) -> None:
    """Add a sweep whose arrays have these tasks and Slurm IDs."""
    ids = tuple(slurm_id for _, slurm_id in arrays if slurm_id is not None)
    job = known(
        id="aaaaaaaa", kind=JobKind.SWEEP, slurm_id=ids[0], arrays=ids, tasks=tasks, name="scan"
    )
    some = tuple(
        TaskArray(token=f"a{at}", tasks=one, slurm_id=slurm_id, sbatch_calls=1)
        for at, (one, slurm_id) in enumerate(arrays)
    )
    registry.add(Record(job=job, spec=None, arrays=some))


def test_job_after_a_sweep_waits_for_its_unfinished_arrays(registry: JobRegistry) -> None:
    tasks = {"COMPLETED": "0-4", "PENDING": "5-14"}
    add_sweep(registry, tasks, ("0-4", "7"), ("5-9", "8"), ("10-14", "9"))
    for word in ("aaaaaaaa", "8", "scan"):
        assert sent(registry, waiting((word, "ok")))["dependency"] == "afterok:8:9"
    with pytest.raises(RequestError, match="several arrays"):
        sent(registry, waiting(("scan", "fail")))


def test_sweep_is_awaited_until_all_its_arrays_are_submitted(registry: JobRegistry) -> None:
    add_sweep(registry, {"PENDING": "0-9"}, ("0-4", "7"), ("5-9", None))
    assert awaited(waiting(("scan", "ok")), registry, "c") is not None
    arrays = registry.record("aaaaaaaa").arrays
    registry.note("aaaaaaaa", arrays=(arrays[0], msgspec.structs.replace(arrays[1], slurm_id="8")))
    assert awaited(waiting(("scan", "ok")), registry, "c") is None


def test_dependency_on_a_failing_sweep_uses_the_states_of_its_tasks(registry: JobRegistry) -> None:
    add_sweep(registry, {"FAILED": "0", "RUNNING": "1"}, ("0", "7"), ("1", "8"))
    with pytest.raises(RequestError, match="never start"):
        sent(registry, waiting(("scan", "ok")))
    assert sent(registry, waiting(("scan", "fail")))["dependency"] == "afterany:8"


@pytest.mark.parametrize(
    ("tasks", "ends", "term"),
    [("0-9", "ok", "aftercorr"), ("0-8", "ok", "afterok"), ("0-9", "any", "afterany")],
)
def test_sweep_after_a_sweep_of_equal_size_starts_task_by_task(
    tasks: str, ends: str, term: str, registry: JobRegistry
) -> None:
    add_sweep(registry, {"PENDING": "0-9"}, ("0-9", "7"))
    asked = waiting(("scan", ends), kind=JobKind.SWEEP, tasks=tasks)
    assert sent(registry, asked)["dependency"] == f"{term}:7"
