"""Many jobs cancelled, held, released and requeued at once: on a real Slurm, and thousands of them
counted where Slurm is pretended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.actions import Actions
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.store import Record, Store
from jupyter_slurm.jobs.submission.options import comment_token
from jupyter_slurm.jobs.watching.watcher import Watch
from jupyter_slurm.slurm import squeue
from jupyter_slurm.wire import Action, ActionState, JobState
from tests.jobs.conftest import Site, spec
from tests.jobs.records.test_adoption import submitted
from tests.jobs.records.test_book import record
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0
MANY = 5_000


class Desk:
    """Many of our jobs, every hundredth of which runs, and a Slurm that notes what it is asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, count: int = MANY) -> None:
        self.saved: list[Record] = []
        for save in ("save", "save_synced"):  # a file for each job is not what is tested
            monkeypatch.setattr(Store, save, lambda _, one: self.saved.append(one))
        self.book = Book(Store(folder))
        self.asked: list[list[str]] = []
        self.ids = [f"{number:08}" for number in range(1, count + 1)]
        for job_id in self.ids:
            state = JobState.RUNNING if job_id.endswith("00") else JobState.PENDING
            told = {"slurm_id": str(int(job_id)), "submitted_s": 1.0, "state": state}
            self.book.add(record(job_id, **told))
        monkeypatch.setattr(squeue, "parse", lambda _: list(map(self.row, self.ids)))
        transport = SimpleNamespace(user=lambda: "alice")
        access = SimpleNamespace(connection=None)
        storage = SimpleNamespace(erased_s=lambda *_: None)
        profile = SimpleNamespace(poll_s=0.0, exit_grace_s=0.0, storage=storage)
        what = SimpleNamespace(
            name="c", transport=transport, access=access, profile=profile, ask=self.ask
        )
        self.cluster = cast("SlurmCluster", what)
        self.watch = Watch(self.book, self.cluster)
        self.watch.ask_now = lambda: None  # type: ignore[method-assign]
        clusters: Any = SimpleNamespace(named=lambda _: what, watch=lambda _: self.watch)
        nobody: Any = None
        self.actions = Actions(self.book, clusters, nobody)

    def row(self, job_id: str, **fields: object) -> Any:
        state = self.book.job(job_id).state.value
        told = {"slurm_id": str(int(job_id)), "array_job_id": None, "state": state}
        told["whole_id"] = told["slurm_id"]
        return SimpleNamespace(**told, comment=comment_token(job_id), name="n", **fields)

    def ask(self, argv: Sequence[str]) -> bytes:
        self.asked.append([*argv])
        return b""

    def ended(self, action: Action) -> Action:
        return self.actions.action(action.id, PATIENCE_S)


def test_five_thousand_cost_slurm_one_listing_and_ten_commands_and_those_that_wait_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, monkeypatch)
    done = desk.ended(desk.actions.steer_many("cancel", desk.ids))
    assert (done.state, done.jobs, done.done, done.refused) == (ActionState.DONE, MANY, MANY, 0)
    assert [argv[0] for argv in desk.asked] == ["squeue", *["scancel"] * 10]
    named = [slurm_id for _, *ids in desk.asked[1:] for slurm_id in ids]
    assert sorted(map(int, named)) == [*range(1, MANY + 1)]
    assert {one[-2:] for one in named[-MANY // 100 :]} == {"00"}
    # To note it costs a file for each command, and none for each job.
    assert (len(list(tmp_path.rglob("*.batch"))), len(desk.saved)) == (10, MANY)
    events = desk.book.record(desk.ids[0]).events
    assert events[-1].text == "Cancellation requested."
    # Nothing more is read or asked of those that waited when they have ended.
    for job_id in desk.ids[:99]:
        row = desk.row(job_id, nodelist=None, end_s=9.0)
        row.state = "CANCELLED"
        desk.watch.settle(desk.book.job(job_id), row)
        job = desk.book.job(job_id)
        assert (job.state, job.why) == (
            JobState.CANCELLED,
            "Cancelled by you before it started.",
        )
    assert len(desk.asked) == 11
    assert not desk.watch._files_wake.is_set(), "the other files are looked at once, after all"


@pytest.mark.parametrize("verb", ["hold", "release", "requeue"])
def test_to_do_anything_else_to_many_is_as_few_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Any
) -> None:
    desk = Desk(tmp_path, monkeypatch, count=501)
    assert desk.ended(desk.actions.steer_many(verb, desk.ids)).done == 501
    assert [argv[:2] for argv in desk.asked[1:]] == [["scontrol", verb]] * 2
    assert len(desk.asked[1][2].split(",")) == 500


def test_words_that_are_not_ids_begin_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, monkeypatch, count=1)
    with pytest.raises(RequestError, match="--user=alice"):
        desk.actions.steer_many("cancel", [], ["--user=alice"])
    done = desk.ended(desk.actions.steer_many("hold", ["nojob"], ["7_[1-4%2]"]))
    assert (done.jobs, done.done, done.refused) == (5, 5, 1)
    assert "There is no job" in str(done.refusals[0].why)


# --- on a real Slurm ---


def steered(site: Site, verb: Any, job_ids: list[str], slurm_ids: list[str]) -> Action:
    action = site.service.steer_many(verb, job_ids, slurm_ids)
    return site.service.action(action.id, PATIENCE_S)


@pytest.fixture
def commands(site: Site) -> Callable[[str], int]:
    """How often a command was run there."""

    def count(name: str) -> int:
        return site.service.status().commands.get(f"{site.cluster.name} {name}", 0)

    return count


def test_many_are_cancelled_by_one_scancel_of_ours_and_of_slurms(
    site: Site, tmp_path: Path, commands: Callable[[str], int]
) -> None:
    gate = tmp_path / "gate"
    cell = site.service.submit(spec("1", options={"hold": ""})).id
    taken = site.service.adopt(submitted(site, tmp_path, "--hold", gate=gate)).id
    array = submitted(site, tmp_path, "--array=1-4", "--hold", gate=gate)
    alone = submitted(site, tmp_path, "--hold", gate=gate)
    before = commands("scancel")
    done = steered(site, "cancel", [cell, taken], [f"{array}_[2-3]", alone])
    assert commands("scancel") == before + 1
    assert (done.state, done.jobs, done.refused) == (ActionState.DONE, 5, 0)
    for job_id in (cell, taken):
        assert site.wait(job_id).state is JobState.CANCELLED
        assert "Cancelled by you" in str(site.service.job(job_id).why or "")
    left = ("squeue", "-h", "-r", "-o", "%i", "-j", f"{array},{alone}")
    assert set(site.cluster.run(*left).stdout.split()) == {f"{array}_1", f"{array}_4"}
    # What has ended meanwhile keeps nothing from the others.
    assert steered(site, "cancel", [cell], [alone, array]).refused == 0
    assert site.cluster.run("squeue", "-h", "-o", "%i", "-j", array).stdout == ""


def test_many_are_requeued_at_once_and_one_that_never_is_says_so(
    site: Site, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    never = site.service.submit(spec(wait, options={"no-requeue": ""})).id
    again = site.service.submit(spec(wait, options={"requeue": ""})).id
    for job_id in (never, again):
        site.wait(job_id, JobState.RUNNING)
    done = steered(site, "requeue", [never, again], [])
    slurm_id = site.service.job(never).slurm_id
    assert [one.job for one in done.refusals] == [slurm_id]
    assert site.service.job(never).no_requeue == done.refusals[0].why
    wait_until(lambda: site.service.job(again).restarts == 1, PATIENCE_S)
    steered(site, "cancel", [never, again], [])
    for job_id in (never, again):
        site.wait(job_id, JobState.CANCELLED)
