"""What the looks at Slurm make of a job, when they come in an unlucky order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_slurm.errors import ConnectionLostError, SubmitError
from jupyter_slurm.jobs import steering
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome import ending
from jupyter_slurm.jobs.outcome.allocation import ask_allocation
from jupyter_slurm.jobs.outcome.ending import Ending, _GoesOnError
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.store import Store
from jupyter_slurm.jobs.steering import Steering
from jupyter_slurm.jobs.submission import session_cells, submit
from jupyter_slurm.jobs.watching import comparison, on_demand, watcher
from jupyter_slurm.jobs.watching.unreadable import note_problem
from jupyter_slurm.jobs.watching.watcher import Watch
from jupyter_slurm.profiles.profile import Storage
from jupyter_slurm.wire import Job, JobKind, JobState, Lab, LabStep, Problem
from tests.jobs.conftest import Site, both_ways, spec
from tests.jobs.records.test_book import record
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_A_MOMENT_S = 1.0
"""What was found is written down at once."""


def test_a_slow_look_at_a_job_that_runs_does_not_bring_one_back_that_has_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_go_on = threading.Event(), threading.Event()

    def slowly(*args: Any) -> Any:
        given = ask_allocation(*args)
        began.set()
        assert may_go_on.wait(_PATIENCE_S)
        return given

    monkeypatch.setattr(comparison, "ask_allocation", slowly)
    gate = site.cluster.folder / f"gate-{spec('').id}"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    job = site.service.submit(spec(code))
    assert began.wait(_PATIENCE_S)
    gate.touch()
    ended = site.wait(job.id)
    cursor = site.service.changes().cursor
    may_go_on.set()
    assert site.service.changes(cursor, _A_MOMENT_S).jobs == ()
    assert site.service.job(job.id).state is ended.state
    gate.unlink()


def test_a_job_that_was_never_seen_to_run_has_its_node_all_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher.Watch, "_started", lambda *_: None)
    job = site.run("1")
    assert (job.state, job.started_s is None) == (JobState.COMPLETED, False)
    assert len(job.nodes) == 1
    assert job.nodes[0] in {"n1", "n2"}


def test_of_jobs_that_are_cancelled_while_they_wait_no_file_is_watched_any_more(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[int] = []
    wanted = watcher.Watch._files_wanted

    def noted(self: watcher.Watch) -> Any:
        files = wanted(self)
        watched.append(len(files))
        return files

    monkeypatch.setattr(watcher.Watch, "_files_wanted", noted)
    jobs = [site.service.submit(spec("1", options={"hold": ""})).id for _ in range(3)]
    slurm_ids = [site.wait(job_id, JobState.PENDING).slurm_id or "" for job_id in jobs]
    site.cluster.run("scancel", *slurm_ids)
    for job_id in jobs:
        assert site.wait(job_id).state is JobState.CANCELLED
    wait_until(lambda: watched[-1] == 0)


@both_ways
def test_while_the_way_is_lost_a_call_to_look_does_not_make_it_look_on_and_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = site.service._clusters.named(None).transport
    looks, looked = [0], threading.Event()

    def lost(*_: Any, **__: Any) -> dict[Any, int]:
        looks[0] += 1
        looked.set()
        raise ConnectionLostError("The line is cut.")

    monkeypatch.setattr(transport, "grown", lost)
    site.service.submit(spec("1"))
    assert looked.wait(_PATIENCE_S)
    for _ in range(3):
        site.service._clusters.watch(site.service._clusters.named(None)).look()
        time.sleep(0.1)
    assert looks[0] < 20


@pytest.mark.parametrize("errors", [1, 5_000])
def test_after_however_many_errors_there_is_a_pause_of_minutes_at_most(errors: int) -> None:
    assert 0 < on_demand.backed_off_s(10.0, errors) <= 300.0


# --- two threads and one job: the second comes while the first has read and not yet written ---

FOLDER = JobDir(PurePosixPath("/jobs/aaaaaaaa"))


class Desk:
    """A Book with one job that runs, and a cluster where nothing of it is to be found."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.book = Book(Store(folder))
        known: dict[str, Any] = {"state": JobState.RUNNING, "job_dir": str(FOLDER.path), **changes}
        self.book.add(record(**known))
        self.transport = SimpleNamespace(
            read=lambda *_: b"", read_many=lambda spans: [None] * len(spans), exists=lambda _: True
        )
        profile = SimpleNamespace(poll_s=0.0, exit_grace_s=0.0, storage=Storage())
        what = SimpleNamespace(name="c", profile=profile, transport=self.transport)
        self.cluster = cast("SlurmCluster", what)
        self.watch = Watch(self.book, self.cluster)

    @property
    def job(self) -> Job:
        return self.book.job("aaaaaaaa")

    def elsewhere(self, work: Callable[[], object]) -> None:
        """Another thread does this now, or as soon as the lock that this one may hold lets it."""
        other = threading.Thread(target=work)
        other.start()
        other.join(0.5)

    def ends(self) -> None:
        change = {"state": JobState.COMPLETED, "problem": None, "ended_s": 9.0}
        self.elsewhere(lambda: self.book.change("aaaaaaaa", **change))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_how_a_job_ended_is_not_found_out_again_by_who_saw_it_before(desk: Desk) -> None:
    before = desk.job
    desk.book.change("aaaaaaaa", state=JobState.COMPLETED)
    desk.watch.settle(before, None)
    for thread in desk.watch._threads:
        thread.join(_PATIENCE_S)
    assert desk.job.state is JobState.COMPLETED


def test_a_job_that_was_refused_while_its_end_was_looked_for_stays_refused(desk: Desk) -> None:
    def refused(spans: list[object]) -> list[None]:
        desk.book.change("aaaaaaaa", state=JobState.REJECTED, why="no")
        return [None] * len(spans)

    desk.transport.read_many = refused
    assert Ending(desk.book, desk.cluster, desk.job, None, threading.Event()).run()
    assert (desk.job.state, desk.job.why) == (JobState.REJECTED, "no")


def test_the_end_of_an_attempt_is_not_that_of_the_next_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that was started anew, or whose line is back, finds both files at once."""
    settled: list[Job] = []
    monkeypatch.setattr(desk.watch, "settle", lambda job, _: settled.append(job))
    desk.transport.read = lambda *_: b'{"slurm_id": "1", "node": "n1", "time_s": 5}'
    wanted = desk.watch._files_wanted()
    for path in (FOLDER.started(1), FOLDER.exit(0)):
        desk.watch._saw(path, *wanted[path])
    assert (desk.job.restarts, desk.job.state, settled) == (1, JobState.RUNNING, [])


def test_a_job_that_has_begun_again_is_not_put_back_by_who_was_told_of_it_late(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object) -> None:
        desk.book.change("aaaaaaaa", restarts=1, nodes=("n2",))
        raise _GoesOnError(1)

    monkeypatch.setattr(Ending, "_slurm_verdict", late)
    assert not Ending(desk.book, desk.cluster, desk.job, None, threading.Event()).run()
    assert (desk.job.state, desk.job.restarts, desk.job.nodes) == (JobState.RUNNING, 1, ("n2",))


@pytest.mark.parametrize("said", ["RUNNING", "COMPLETING", "PENDING"])
def test_a_job_that_slurm_goes_on_with_and_that_has_said_nothing_goes_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """squeue has left it out: a partition that is hidden, or an answer that was cut short."""
    slurm_says(desk, said, monkeypatch)
    assert not Ending(desk.book, desk.cluster, desk.job, None, threading.Event()).run()
    assert desk.job.state == said


def test_of_a_job_that_slurm_goes_on_with_it_is_not_said_that_slurm_has_forgotten_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm_says(desk, "COMPLETING", monkeypatch)
    told = b'{"exit_code": 143, "signal": "TERM", "time_s": 9}'
    trace = b"slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***"
    desk.transport.read_many = lambda _: [told, None, None, None, None, trace]
    assert Ending(desk.book, desk.cluster, desk.job, None, threading.Event()).run()
    assert desk.job.state is JobState.CANCELLED
    assert "no longer knows" not in str(desk.job.why or "")


@pytest.mark.parametrize(
    ("before", "state"),
    [("FAILED", JobState.FAILED), ("RUNNING", JobState.LOST), ("COMPLETED", JobState.COMPLETED)],
)
def test_an_array_of_whose_tasks_slurm_has_forgotten_some_ends_as_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, state: JobState
) -> None:
    desk = Desk(tmp_path, kind=JobKind.SCRIPT, tasks={before: "0-1", "PENDING": "2"})
    slurm_says(desk, "COMPLETED", monkeypatch, array_task_id="2")
    monkeypatch.setattr(ending, "note_paths", lambda *_: None)
    monkeypatch.setattr(ending, "ask_accounting", lambda *_: [])
    assert Ending(desk.book, desk.cluster, desk.job, None, threading.Event()).run()
    assert desk.job.state is state
    assert ("Tasks 0-1 " in str(desk.job.why or "")) is (before != "COMPLETED")


def slurm_says(
    desk: Desk, state: str, monkeypatch: pytest.MonkeyPatch, array_task_id: str | None = None
) -> None:
    desk.book.change("aaaaaaaa", slurm_id="1")
    row = SimpleNamespace(
        state=state,
        array_task_id=array_task_id,
        requeues=0,
        stdout=None,
        stderr=None,
        exit_code=0,
        exit_signal=0,
        end_s=9.0,
        nodelist="n1",
    )
    monkeypatch.setattr(ending, "ask_jobs", lambda *_: [row])


def test_what_a_lab_said_before_it_was_put_back_is_not_said_of_the_next(tmp_path: Path) -> None:
    lab = Lab(url="u", port=1, step=LabStep.STARTING)
    desk = Desk(tmp_path, kind=JobKind.LAB, lab=lab)

    def late(*_: object) -> bytes:
        desk.book.change("aaaaaaaa", restarts=1)
        return b'{"step": "ready"}\n'

    desk.transport.read = late
    desk.watch._saw(FOLDER.lab(0), *desk.watch._files_wanted()[FOLDER.lab(0)])
    assert desk.job.lab == lab


def test_a_job_that_has_ended_has_no_problem_of_a_line_that_was_lost(desk: Desk) -> None:
    class EndsMeanwhileError(ConnectionLostError):
        def problem(self) -> Problem:
            desk.ends()
            return super().problem()

    note_problem(desk.book, "aaaaaaaa", EndsMeanwhileError("The line is cut."))
    wait_until(lambda: desk.job.state.final)
    assert desk.job.problem is None


def test_a_session_with_a_new_cell_is_not_called_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, kind=JobKind.SESSION)
    live = desk.book.live

    def sent_meanwhile(cluster: str | None) -> object:
        found = live(cluster)
        desk.elsewhere(send)
        return found

    def send() -> None:
        with desk.book.alone():
            desk.book.add(record("bbbbbbbb", session="aaaaaaaa"))
            desk.book.change("aaaaaaaa", idle_since_s=None)

    monkeypatch.setattr(desk.book, "live", sent_meanwhile)
    session_cells.rests(desk.book, "aaaaaaaa")
    wait_until(lambda: len(desk.book.records()) == 2)
    assert desk.job.idle_since_s is None


def test_a_job_that_is_withdrawn_while_it_is_refused_ends_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, state=JobState.SUBMITTING)
    drop, withdrawn = submit._drop_spec, []

    def cancelled_meanwhile(*about: Any) -> None:
        monkeypatch.setattr(submit, "_drop_spec", drop)
        desk.elsewhere(lambda: withdrawn.append(submit.withdraw(desk.book, "aaaaaaaa")))
        drop(*about)

    monkeypatch.setattr(submit, "_drop_spec", cancelled_meanwhile)
    asked: Any = (desk.book, lambda: desk.cluster, None, "aaaaaaaa", threading.Event())
    submit.Submitter(*asked)._reject(SubmitError("No such partition."))
    wait_until(lambda: withdrawn != [])
    assert withdrawn == [desk.job.state is JobState.CANCELLED]


def test_an_end_that_comes_before_it_is_asked_for_was_not_asked_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now_s() -> float:
        desk.ends()
        return 5.0

    monkeypatch.setattr(steering, "time", SimpleNamespace(time=now_s))
    nobody: Any = None
    Steering(desk.book, nobody, nobody, nobody, nobody).cancel("aaaaaaaa")
    wait_until(lambda: desk.job.state.final)
    assert desk.book.record("aaaaaaaa").events[-1].text != "Cancellation requested."
