"""Changes of a queue since a cursor."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store
from jupyter_slurm.jobs.watching.listing import ClusterQueue, Table, rows_of
from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.fields import FIELD_END, RECORD_END
from jupyter_slurm.wire import JobKind, JobState, ListedJob, Problem
from tests.jobs.crowd import listed
from tests.specs import known

POLL_S = 600.0
"""An interval without polls."""
SILENT = Problem(code="controller", message="It does not answer.", transient=True)
OURS = Record(
    job=known(id="abcdefgh", kind=JobKind.SCRIPT, state=JobState.PENDING, gpus=3),
    spec=None,
)
TOKEN = "jslurm:abcdefgh"


def rows(*texts: dict[str, str]) -> list[squeue.RawRow]:
    """Return raw rows with these fields."""
    names = tuple(squeue._FIELDS)
    printed = ""
    for record, changes in zip(listed(len(texts)).decode().split(RECORD_END), texts, strict=False):
        values = dict(zip(names, record.strip("\n").split(FIELD_END), strict=True)) | changes
        printed += FIELD_END.join(values.values()) + RECORD_END + "\n"
    return squeue.split(printed)


def numbered(*ids: str, **fields: str) -> list[squeue.RawRow]:
    return rows(*({"slurm_id": one, "array_job_id": one, **fields} for one in ids))


class Told:
    """A Table, and its changes after each listing."""

    def __init__(self, user: str | None = None) -> None:
        self.table = Table("here")
        self.revision = 0
        self.user = user

    def by(
        self, found: list[squeue.RawRow], ours: dict[str, list[Record]] | None = None
    ) -> tuple[list[str], list[str]]:
        """Return the Slurm IDs of rows that this listing adds or changes, and of rows that it
        removes."""
        difference = self.table.compare(found, ours or {}, self.user)
        self.table.put(difference, self.revision + 1)
        _, changed, gone = self.table.since(self.revision)
        self.revision += 1
        return (
            sorted(row.slurm_id or "" for row in changed),
            sorted(key.removeprefix("here ") for key in gone),
        )

    def rows(self) -> dict[str, ListedJob]:
        return {row.slurm_id or "": row for row in self.table.since(None).values}


# --- changes ---
def test_new_changed_and_removed_rows_are_reported_once() -> None:
    told = Told()
    assert told.by(numbered("1", "2", "3")) == (["1", "2", "3"], [])
    assert told.by(numbered("1", "2", "3")) == ([], [])
    changed = [*numbered("1", "2"), *numbered("4")]
    assert told.by(changed) == (["4"], ["3"])
    assert told.by(numbered("1", "2", priority="7")) == (["1", "2"], ["4"])
    assert told.by([]) == ([], ["1", "2"])


def test_ended_job_of_another_user_is_removed() -> None:
    told = Told("me")
    told.by(numbered("1", "2"))
    assert told.by([*numbered("1"), *numbered("2", state="COMPLETED")]) == ([], ["2"])
    assert told.by([*numbered("1"), *numbered("2", state="COMPLETED")]) == ([], [])


def test_own_ended_job_stays_after_slurm_purges_the_job() -> None:
    told = Told()
    runs, other = numbered("1", "2")
    told.by([runs, other])
    [over] = numbered("1", state="CANCELLED", end="1700000000")
    assert told.by([over, other]) == (["1"], [])
    assert told.by([other]) == ([], [])
    ended = told.rows()["1"]
    assert (ended.state, ended.ended_s) == ("CANCELLED", 1700000000.0)
    job = known(id="abcdefgh", slurm_id="1", submitted_s=ended.submitted_s)
    assert told.by([other], {"1": [Record(job=job, spec=None)]}) == ([], ["1"])


def test_held_job_shows_who_holds_the_job() -> None:
    held = {"state": "PENDING", "reason": "JobHeldUser"}
    everyones = Told("me")
    everyones.by([*numbered("1", user="me", **held), *numbered("2", user="ada", **held)])
    told = {slurm_id: row.why for slurm_id, row in everyones.rows().items()}
    assert told == {"1": "On hold (by you).", "2": "On hold (by its owner)."}


def test_job_with_a_record_has_one_row() -> None:
    told = Told()
    told.by(numbered("1", "2", comment=TOKEN))
    assert told.by(numbered("1", "2", comment=TOKEN), {"1": [OURS]}) == ([], ["1"])
    assert told.by(numbered("1", "2", comment=TOKEN), {"1": [OURS]}) == ([], [])
    assert told.by(numbered("1", "2", comment=TOKEN)) == (["1"], [])
    assert told.by(numbered("1", "2"), {"1": [OURS]}) == ([], []), (
        "a job without our token is not ours"
    )


def test_submitting_job_has_one_row() -> None:
    told = Told()
    submitting = Record(
        job=known(id="abcdefgh", kind=JobKind.SCRIPT, state=JobState.SUBMITTING), spec=None
    )
    assert told.by(numbered("1", "2", comment=TOKEN), {"": [submitting]}) == ([], [])
    assert told.by(numbered("1", comment=TOKEN), {"1": [OURS]}) == ([], [])


def test_tasks_of_our_array_have_the_id_of_the_array() -> None:
    told = Told()
    waiting = {"slurm_id": "7_[1-9%2]", "array_job_id": "7", "array_task_id": "1-9"}
    waiting |= {"comment": TOKEN, "name": "fit.abcdefgh"}
    told.by(rows(waiting), {"7": [OURS]})
    [row] = told.rows().values()
    assert (row.slurm_id, row.id, row.array, row.name) == (
        "7_[1-9%2]",
        "abcdefgh",
        "abcdefgh",
        "fit",
    )


def task(index: str, state: str, **fields: str) -> dict[str, str]:
    slurm_id = f"7_[{index}]" if "-" in index else f"7_{index}"
    ids = {"slurm_id": slurm_id, "array_job_id": "7", "array_task_id": index}
    return {"state": state, **ids, **fields}


def test_array_of_another_user_is_one_row_with_tasks() -> None:
    told = Told("me")
    listed = rows(task("1", "RUNNING"), task("2", "COMPLETED"), task("3-5", "PENDING"))
    assert told.by(listed) == (["7", "7_1", "7_[3-5]"], [])
    whole = told.rows()["7"]
    assert whole.tasks == {"COMPLETED": "2", "PENDING": "3-5", "RUNNING": "1"}
    assert (whole.state, whole.gpus, whole.array) == ("RUNNING", 8, None)
    assert told.rows()["7_1"].array == whole.key
    listed = rows(task("1", "FAILED"), task("3-5", "PENDING", reason="JobArrayTaskLimit"))
    assert told.by(listed) == (["7", "7_[3-5]"], ["7_1"])
    whole = told.rows()["7"]
    assert whole.tasks == {"COMPLETED": "2", "FAILED": "1", "PENDING": "3-5"}
    assert whole.state == "RUNNING", "the array is between two of its tasks"
    assert told.by([]) == ([], ["7", "7_[3-5]"])


def test_own_ended_array_is_one_row() -> None:
    told = Told()
    told.by(rows(task("1", "RUNNING"), task("2", "RUNNING")))
    ends = {"end": "1700000000"}
    told.by(rows(task("1", "FAILED", **ends), task("2", "COMPLETED", **ends)))
    [whole] = told.rows().values()
    assert (whole.slurm_id, whole.state, whole.ended_s) == ("7", "FAILED", 1_700_000_000.0)
    assert whole.tasks == {"COMPLETED": "2", "FAILED": "1"}


def test_row_has_the_fields_of_squeue() -> None:
    told = Told()
    fields = {"state": "PENDING", "reason": "Resources", "name": "<b>ü", "start": "1795300000"}
    told.by(rows({"slurm_id": "5", **fields}))
    [row] = told.rows().values()
    assert (row.account, row.qos, row.priority) == ("project0", "normal", 4_294_000_000)
    assert (row.name, row.reason, row.node_count, row.gpus) == ("<b>ü", "Resources", 1, 4)
    assert row.why
    assert (row.started_s, row.start_estimate_s) == (None, 1_795_300_000.0)


def test_complete_queue_has_one_row_per_job() -> None:
    found = [*numbered("1", "2", comment=TOKEN, user="me"), *rows(task("1", "RUNNING", user="ana"))]
    told = rows_of(found, {"1": [OURS]}, "me", "here")
    assert [(row.id, row.slurm_id, row.user) for row in told] == [
        ("abcdefgh", OURS.job.slurm_id, "me"),
        (None, "2", "me"),
        (None, "7", "ana"),
    ]


# --- viewers ---
class Desk:
    """A queue that records its starts."""

    def __init__(self, folder: Path) -> None:
        self.begun: list[bool] = []
        self.registry = JobRegistry(Store(folder))
        self.queue = ClusterQueue(self.registry, "here", POLL_S, self.begun.append)

    def found(self, *ids: str) -> None:
        self.queue.answered(numbered(*ids), "user0", {}, everyone=False)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_first_viewer_starts_a_listing_that_later_viewers_share(desk: Desk) -> None:
    assert not desk.queue.has_viewers
    with desk.queue.mine.view(), desk.queue.mine.view():
        assert desk.begun == [True]
        assert (desk.queue.has_viewers, desk.queue.everyone.has_viewers) == (True, False)
    assert desk.queue.has_viewers, "viewers count for a moment after they leave"
    desk.found("1")
    with desk.queue.mine.view(), desk.queue.everyone.view():
        assert desk.begun == [True, True], "the queue of all users was not listed"


def test_all_jobs_and_my_jobs_are_two_views_of_one_listing(desk: Desk) -> None:
    found = [*numbered("1", user="user0"), *numbered("2", user="ana")]
    desk.queue.answered(found, "user0", {}, everyone=True)
    mine, everyone = desk.queue.mine.table.since(None), desk.queue.everyone.table.since(None)
    assert [row.slurm_id for row in mine.values] == ["1"]
    assert [(row.slurm_id, row.mine) for row in everyone.values] == [("1", True), ("2", False)]


def test_problem_and_recovery_each_change_the_status_once(desk: Desk) -> None:
    desk.found("1")
    listing = desk.queue.mine
    count, asked_s = listing.change_count, listing.status().asked_s
    desk.queue.failed(SILENT)
    desk.queue.failed(SILENT)
    assert (listing.status().problem, listing.change_count) == (SILENT, count + 1)
    assert listing.status().asked_s == asked_s
    desk.found("1")
    assert (listing.status().problem, listing.change_count) == (None, count + 2)


def test_listing_after_a_restart_is_sent_completely(desk: Desk) -> None:
    desk.found("1")
    known = desk.registry.revision
    again = ClusterQueue(desk.registry, "here", POLL_S, desk.begun.append)
    desk.registry.observe("nosuch", gpu_load=1.0)
    with desk.registry.lock():
        desk.registry.next_revision()
    later = ClusterQueue(desk.registry, "here", POLL_S, desk.begun.append)
    assert not again.mine.table.since(known).whole
    assert later.mine.table.since(known).whole
