"""What of a queue is new since a cursor; the rows are squeue's, the one who asks is the test."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from jupyter_slurm.jobs.records.store import Record
from jupyter_slurm.jobs.watching.listing import ClusterQueue, Table
from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.fields import FIELD_END, RECORD_END
from jupyter_slurm.wire import JobKind, JobState, Problem, QueueChanges
from tests.jobs.crowd import listed
from tests.specs import known
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0
POLL_S = 600.0
"""Nobody but the test asks."""
SILENT = Problem(code="controller", message="It does not answer.", transient=True)
OURS = Record(
    job=known(id="abcdefgh", kind=JobKind.SCRIPT, state=JobState.PENDING, gpus=3),
    spec=None,
)
TOKEN = "jslurm:abcdefgh"


def rows(*texts: dict[str, str]) -> list[squeue.RawRow]:
    """Of a queue of as many jobs, with these fields of each as given."""
    names = tuple(squeue._FIELDS)
    printed = ""
    for record, changes in zip(listed(len(texts)).decode().split(RECORD_END), texts, strict=False):
        values = dict(zip(names, record.strip("\n").split(FIELD_END), strict=True)) | changes
        printed += FIELD_END.join(values.values()) + RECORD_END + "\n"
    return squeue.split(printed)


def numbered(*ids: str, **fields: str) -> list[squeue.RawRow]:
    return rows(*({"slurm_id": one, "raw_id": one, "array_job_id": one, **fields} for one in ids))


class Told:
    """A Table, and what has come of it since one last looked."""

    def __init__(self) -> None:
        self.table = Table()
        self.revision = 0

    def by(
        self, found: list[squeue.RawRow], ours: dict[str, list[Record]] | None = None
    ) -> tuple[list[str], list[str]]:
        """The ids that are new or changed by this listing, and those that are gone."""
        changed = self.table.update(found, ours or {}, self.revision + 1)
        _, entries, gone = self.table.since(self.revision)
        assert changed == bool(entries or gone)
        self.revision += 1
        return sorted(entry.slurm_id for entry in entries), sorted(gone)


# --- what is a change ---
def test_what_is_new_has_changed_or_is_gone_is_told_once() -> None:
    told = Told()
    assert told.by(numbered("1", "2", "3")) == (["1", "2", "3"], [])
    assert told.by(numbered("1", "2", "3")) == ([], [])
    changed = [*numbered("1", "2"), *numbered("4")]
    assert told.by(changed) == (["4"], ["3"])
    assert told.by(numbered("1", "2", priority="7")) == (["1", "2"], ["4"])
    assert told.by([]) == ([], ["1", "2"])


def test_a_job_that_has_ended_is_gone_though_slurm_still_lists_it() -> None:
    told = Told()
    told.by(numbered("1", "2"))
    assert told.by([*numbered("1"), *numbered("2", state="COMPLETED")]) == ([], ["2"])
    assert told.by([*numbered("1"), *numbered("2", state="COMPLETED")]) == ([], [])


def test_a_held_job_says_whether_i_hold_it_or_somebody_else_does() -> None:
    held = {"state": "PENDING", "reason": "JobHeldUser"}
    everyones = Table()
    listed = [*numbered("1", user="me", **held), *numbered("2", user="ada", **held)]
    everyones.update(listed, {}, 1, "me")
    told = {entry.slurm_id: str(entry.why) for entry in everyones.since(None).values}
    assert told == {"1": "On hold (by you).", "2": "On hold (by its owner)."}


def test_a_job_of_mine_that_has_ended_is_told_once_and_kept_when_slurm_forgets_it() -> None:
    told = Told()
    told.by(numbered("1", "2", "3", comment=TOKEN), {"3": [OURS]})
    over = numbered("1", "2", "3", comment=TOKEN, state="CANCELLED", end="1700000000")
    told.by(over, {"3": [OURS]})
    ended = told.table.ended_since(1)
    assert [(one.slurm_id, one.state, one.ended_s) for one in ended] == [
        ("1", "CANCELLED", 1700000000.0),
        ("2", "CANCELLED", 1700000000.0),
    ]
    told.by([])
    assert told.table.ended_since(2) == ()
    assert told.table.ended_since(0) == ended
    everyones = Table()
    everyones.update(over, {}, 1, "somebody")
    assert everyones.ended_since(0) == ()


def test_time_that_passes_is_no_change_and_is_told_with_the_next() -> None:
    table = Table()
    assert table.update(squeue.split(listed(2)), {}, 1)
    assert not table.update(squeue.split(listed(2, seconds_later=30)), {}, 2)
    elapsed_s = {entry.slurm_id: entry.elapsed_s for entry in table.since(0).values}
    assert elapsed_s == {"1000000": 630.0, "1000001": 0.0}


def test_what_becomes_ours_is_a_change_and_so_is_what_was_forgotten() -> None:
    told = Told()
    told.by(numbered("1", "2", comment=TOKEN))
    assert told.by(numbered("1", "2", comment=TOKEN), {"1": [OURS]}) == (["1"], [])
    assert told.by(numbered("1", "2", comment=TOKEN), {"1": [OURS]}) == ([], [])
    ids = {entry.slurm_id: entry.id for entry in told.table.since(0).values}
    assert ids == {"1": "abcdefgh", "2": None}
    assert told.by(numbered("1", "2", comment=TOKEN)) == (["1"], [])
    assert told.by(numbered("1", "2"), {"1": [OURS]}) == (["1", "2"], []), "no token, not ours"
    assert {entry.id for entry in told.table.since(0).values} == {None}


def test_the_tasks_of_an_array_of_ours_are_ours() -> None:
    table = Table()
    waiting = {"slurm_id": "7_[1-9%2]", "raw_id": "7", "array_job_id": "7", "array_task_id": "1-9"}
    waiting["comment"] = TOKEN
    table.update(rows(waiting), {"7": [OURS]}, 1)
    [entry] = table.since(0).values
    assert (entry.slurm_id, entry.array_id, entry.id) == ("7_[1-9%2]", "7", "abcdefgh")


def test_an_entry_has_what_squeue_says() -> None:
    table = Table()
    fields = {"state": "PENDING", "reason": "Resources", "name": "<b>ü", "start": "1795300000"}
    table.update(rows({"slurm_id": "5", **fields}), {}, 1)
    [entry] = table.since(0).values
    assert (entry.account, entry.qos, entry.priority) == ("project0", "normal", 4_294_000_000)
    assert (entry.name, entry.reason, entry.node_count, entry.gpus) == ("<b>ü", "Resources", 1, 4)
    assert entry.why
    assert (entry.started_s, entry.start_estimate_s) == (None, 1_795_300_000.0)


# --- who looks ---
class Desk:
    """A queue, and a thread for each that waits for its changes."""

    def __init__(self) -> None:
        self.begun: list[bool] = []
        self.over = threading.Event()
        self.listing = ClusterQueue("here", POLL_S, self.begun.append, self.over.is_set)
        self.pool = ThreadPoolExecutor(20)

    def look(self, cursor: str = "", *, everyone: bool = False) -> Future[QueueChanges]:
        return self.pool.submit(self.listing.changes, cursor, PATIENCE_S, everyone)

    def found(self, *ids: str) -> None:
        self.listing.answered(numbered(*ids), "user0", {}, {}, everyone=False)


@pytest.fixture
def desk() -> Any:
    desk = Desk()
    yield desk
    desk.over.set()
    desk.listing.wake()
    desk.pool.shutdown()


def ids(told: QueueChanges) -> list[str]:
    return sorted(entry.slurm_id for entry in told.entries)


def test_who_looks_first_waits_for_the_first_answer(desk: Desk) -> None:
    waiting = desk.look()
    wait_until(lambda: desk.begun == [True])
    desk.found("1", "2")
    told = waiting.result()
    assert (told.whole, ids(told), told.gone, told.problem) == (True, ["1", "2"], (), None)
    assert told.asked_s is not None


def test_who_does_not_want_to_wait_is_told_that_nothing_is_known(desk: Desk) -> None:
    told = desk.listing.changes("", 0.0, everyone=False)
    assert (told.whole, told.entries, told.asked_s) == (True, (), None)
    desk.found("1")
    assert ids(desk.listing.changes(told.cursor, 0.0, everyone=False)) == ["1"]


def test_everyone_and_mine_are_two_looks_at_one_listing(desk: Desk) -> None:
    mine, everyone = desk.look(), desk.look(everyone=True)
    wait_until(lambda: desk.listing.everyone_looked_at and len(desk.begun) == 2)
    found = [*numbered("1", user="user0"), *numbered("2", user="ana")]
    desk.listing.answered(found, "user0", {}, {}, everyone=True)
    assert ids(mine.result()) == ["1"]
    assert ids(everyone.result()) == ["1", "2"]
    other = desk.listing.changes(mine.result().cursor, 0.0, everyone=True)
    assert (other.whole, ids(other)) == (True, ["1", "2"])


def test_a_problem_is_news_and_so_is_its_end(desk: Desk) -> None:
    desk.found("1")
    told = desk.listing.changes("", 0.0, everyone=False)
    waiting = desk.look(told.cursor)
    desk.listing.failed(SILENT)
    silent = waiting.result()
    assert (silent.whole, silent.entries, silent.problem) == (False, (), SILENT)
    assert silent.asked_s == told.asked_s
    waiting = desk.look(silent.cursor)
    desk.listing.failed(SILENT)  # nothing new
    desk.found("1")
    assert (waiting.result().entries, waiting.result().problem) == ((), None)


def test_a_cursor_of_another_listing_is_the_beginning(desk: Desk) -> None:
    desk.found("1")
    for cursor in (Desk().listing.changes("", 0.0, everyone=False).cursor, "junk", "a.b.c", "."):
        assert desk.listing.changes(cursor, 0.0, everyone=False).whole


def test_the_end_of_the_agent_ends_every_look(desk: Desk) -> None:
    waiting = desk.look()
    wait_until(lambda: bool(desk.begun))
    desk.over.set()
    desk.listing.wake()
    assert waiting.result().entries == ()
    assert desk.look().result().entries == ()


def test_a_new_load_of_gpus_changes_our_rows_alone_and_the_same_load_changes_none() -> None:
    table = Table()
    table.update(numbered("1", "2", comment=TOKEN), {"1": [OURS]}, 1)
    entries = {one.slurm_id: one for one in table.since(None).values}
    assert (entries["1"].id, entries["2"].id) == ("abcdefgh", None)
    assert table.put_loads({"1": 0.5, "2": 0.5, "gone": 0.5}, 2)
    assert [(one.slurm_id, one.gpu_load) for one in table.since(1).values] == [("1", 0.5)]
    assert not table.put_loads({"1": 0.5}, 3)
    assert table.put_loads({}, 4)
    assert [one.gpu_load for one in table.since(3).values] == [None]
