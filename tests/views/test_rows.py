"""Rows of job lists as text."""

from __future__ import annotations

from typing import Any

from jupyter_slurm.views import rows
from jupyter_slurm.wire import JobKind, JobState, ListedJob
from tests.specs import known

NOW_S = 1_790_000_000.0


def test_row_shows_elapsed_time_of_jobs_and_time_left_of_labs() -> None:
    ran: dict[str, Any] = {"state": JobState.RUNNING, "started_s": NOW_S - 95, "limit_s": 3600}
    assert rows.time(known(kind=JobKind.CELL, **ran), NOW_S) == "1:35 / 1 h"
    assert rows.time(known(kind=JobKind.LAB, **ran), NOW_S) == "58 min 25 s left"
    other = ListedJob(cluster="here", name="theirs", **ran)
    assert rows.time(other, NOW_S) == "1:35 / 1 h"


def test_elapsed_time_stops_at_the_last_known_state() -> None:
    ran: dict[str, Any] = {"state": JobState.RUNNING, "started_s": NOW_S - 95}
    lost = known(kind=JobKind.CELL, **ran, problem_since_s=NOW_S - 60)
    assert rows.time(lost, NOW_S) == "0:35"


def test_job_table_leaves_out_empty_columns() -> None:
    ours = known(id="abcdefgh", name="fit", state=JobState.PENDING, why="Priority.")
    theirs = ListedJob(
        cluster="here",
        name="theirs",
        slurm_id="7",
        state="NEW_STATE",
        user="ana",
        nodes=("n[1-2]",),
    )
    table = rows.job_table([ours, theirs], NOW_S)
    cells = table.rows
    assert [one["ID"] for one in cells] == ["abcdefgh", ""]
    assert [one["User"] for one in cells] == ["", "ana"]
    assert [one["Note"] for one in cells] == ["Priority.", ""]
    assert cells[1]["Nodes"] == "n[1-2]"
    assert cells[1]["State"].endswith("new state")
    assert "GPUs" not in table.text
