"""The events of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_slurm.jobs.records import events
from jupyter_slurm.jobs.records.events import following
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store
from jupyter_slurm.wire import Job, JobState, Problem
from tests.specs import known

NEW = known(state=JobState.SUBMITTING, created_s=100.0, state_since_s=100.0)
TAKEN: dict[str, Any] = {"slurm_id": "7", "submitted_s": 101.0, "state": JobState.PENDING}
WAITS: dict[str, Any] = {"reason": "Priority", "why": "Others are before it."}
RUNS: dict[str, Any] = {"state": JobState.RUNNING, "started_s": 110.0, "nodes": ("n1",)}
ENDED: dict[str, Any] = {"state": JobState.COMPLETED, "ended_s": 120.0, "why": "Succeeded."}


def lived(*changes: dict[str, Any], job: Job = NEW) -> list[tuple[float, str, str | None]]:
    """Return the events of a new job after these changes, once a second starting at 200."""
    found = following((), None, job, 100.0)
    for at, change in enumerate(changes):
        old, job = job, msgspec.structs.replace(job, **change)
        found = following(found, old, job, 200.0 + at)
    return [
        (event.time_s, event.state.value, str(event.text) if event.text else None)
        for event in found
    ]


def test_job_has_an_event_for_each_stage() -> None:
    assert lived(TAKEN, WAITS, {"reason": None, "why": None, **RUNS}, ENDED) == [
        (100, "SUBMITTING", None),
        (101, "PENDING", "Accepted as job 7."),
        (201, "PENDING", "Others are before it."),
        (202, "RUNNING", "Started on n1."),
        (203, "COMPLETED", "Succeeded."),
    ]


def test_event_times_are_in_order() -> None:
    """A node's clock gives the start in whole seconds, and may be wrong."""
    begun = {**RUNS, "started_s": 100.0}
    assert [time_s for time_s, _, _ in lived(TAKEN, begun, ENDED)] == [100, 101, 101, 120]
    wrong = {**RUNS, "started_s": 50.0}
    assert [time_s for time_s, _, _ in lived(TAKEN, wrong, ENDED)] == [100, 101, 201, 202]


def test_unobserved_start_of_a_short_job_is_an_event() -> None:
    ended = {**ENDED, "started_s": 110.0, "nodes": ("n1", "n2", "n3")}
    assert lived(TAKEN, ended)[2:] == [
        (110, "RUNNING", "Started on n1 and 2 more."),
        (120, "COMPLETED", "Succeeded."),
    ]
    never = {"state": JobState.CANCELLED, "ended_s": 120.0, "why": "Cancelled by you."}
    assert lived(TAKEN, never)[2:] == [(120, "CANCELLED", "Cancelled by you.")]


@pytest.mark.parametrize(
    "again",
    [
        # The source is the queue, the next attempt's file, or the look-up of the end.
        ({"state": JobState.PENDING}, {"restarts": 1}, {**RUNS, "started_s": 300.0}),
        ({"restarts": 1}, {**RUNS, "started_s": 300.0}),
        ({"state": JobState.FINISHING}, {"state": JobState.REQUEUED, "restarts": 1},
         {**RUNS, "started_s": 300.0}),
    ],
)  # fmt: skip
def test_requeued_job_has_a_second_start_event(
    again: tuple[dict[str, Any], ...],
) -> None:
    told = [text for _, _, text in lived(TAKEN, RUNS, *again)]
    assert told[2:] == [
        "Started on n1.",
        "Back in the queue.",
        "Started on n1.",
    ]


def test_cancellation_request_and_its_failure_are_events() -> None:
    told = lived(TAKEN, RUNS, {"cancel_requested_s": 5.0}, {"cancel_requested_s": None})
    assert told[3:] == [
        (202, "RUNNING", "Cancellation requested."),
        (203, "RUNNING", "Cancellation failed."),
    ]


@pytest.mark.parametrize(
    "passing",
    [
        {"problem": Problem(code="transport", message="no"), "problem_since_s": 1.0},
        {"state": JobState.FINISHING},
        {"state": JobState.COMPLETING},
        {"state": JobState.UNKNOWN},
        {"delivered": True},
        {"started_s": 111.0},
        {"nodes": ("n1", "n2")},
    ],
)
def test_transient_changes_are_not_events(passing: dict[str, Any]) -> None:
    before = lived(TAKEN, RUNS)
    assert lived(TAKEN, RUNS, passing) == before
    assert lived(TAKEN, RUNS, passing, RUNS) == before


def test_cell_of_a_session_has_events() -> None:
    job = msgspec.structs.replace(NEW, session="bbbbbbbb")
    sent = {
        "submitted_s": 101.0,
        "state": JobState.PENDING,
        "why": "It waits for the cells before.",
    }
    assert [text for _, _, text in lived(sent, RUNS, ENDED, job=job)] == [
        None,
        "Accepted by its session.",
        "It waits for the cells before.",
        "Started.",
        "Succeeded.",
    ]


def test_old_reasons_are_dropped_beyond_the_limit_of_events() -> None:
    reasons = [{"reason": f"r{n}", "why": f"w{n}"} for n in range(1000)]
    told = [text for _, _, text in lived(TAKEN, *reasons, RUNS, ENDED)]
    assert len(told) == events.MOST
    assert told[:2] == [None, "Accepted as job 7."]
    assert told[-3:] == ["w999", "Started on n1.", "Succeeded."]
    assert told[2] == f"w{1004 - events.MOST}"


def test_events_are_saved_with_the_record(tmp_path: Path) -> None:
    registry = JobRegistry(Store(tmp_path))
    registry.add(Record(job=NEW, spec=None))
    registry.change(NEW.id, **TAKEN)
    [kept] = Store(tmp_path).load()
    assert kept.events == registry.record(NEW.id).events
    taken = kept.events[1]
    assert (taken.time_s, taken.state) == (101, JobState.PENDING)
    assert str(taken.text) == "Accepted as job 7."
