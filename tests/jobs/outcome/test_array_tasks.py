"""Texts about the ends of array tasks."""

from __future__ import annotations

from jupyter_slurm.jobs.outcome.array_tasks import UNSEEN, failures


def test_failed_tasks_are_grouped_and_successful_tasks_are_left_out() -> None:
    tasks = {"COMPLETED": "0", "FAILED": "1,4,5", "CANCELLED": "7-12", UNSEEN: "13"}
    assert str(failures(tasks, {"1": 1, "4": 1})).split(". ") == [
        "Tasks 1, 4 failed: exit code 1",
        "Task 5 failed",
        "Tasks 7-12: cancelled",
        "Task 13 ended, but the outcome is unknown.",
    ]
    assert failures({"COMPLETED": "0-9"}, {}) is None
