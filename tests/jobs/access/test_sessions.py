"""Sessions on a real Slurm: cells that run in one process on the node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import SubmitError
from jupyter_slurm.jobs import service
from jupyter_slurm.variables import read_variables, write_variables
from jupyter_slurm.wire import (
    OUTCOME,
    CellSpec,
    ErrorOutput,
    ExecuteResult,
    Job,
    JobKind,
    JobState,
    Result,
)
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def no_session_is_left(site: Site) -> Iterator[None]:
    """Stop all sessions, which would keep nodes of the shared cluster."""
    yield
    for job in site.service.jobs():
        if job.kind is JobKind.SESSION and not job.state.final:
            stop(site, job)


def start(site: Site, **changes: Any) -> Job:
    """Start a session, and wait for its process."""
    wanted = {"runtime": "none", "idle_s": 600, "kind": JobKind.SESSION, **changes}
    session = site.service.submit(spec("", **wanted))
    site.wait(session.id, JobState.RUNNING, limit_s=PATIENCE_S)
    wait_until(lambda: said_hello(site, session.id), PATIENCE_S)
    return site.service.job(session.id)


def said_hello(site: Site, session_id: str) -> bool:
    site.service.logs(session_id)
    return site.service.job(session_id).python is not None


def send(site: Site, session: Job, code: str, **changes: Any) -> Job:
    return site.service.submit(spec(code, session=session.id, **changes))


def run(site: Site, session: Job, code: str, **changes: Any) -> Job:
    return site.wait(send(site, session, code, **changes).id, limit_s=PATIENCE_S)


def stop(site: Site, session: Job) -> Job:
    site.service.cancel(session.id)
    return site.wait(session.id, limit_s=PATIENCE_S)


def shown(site: Site, job: Job) -> list[str]:
    return [o.data["text/plain"] for o in site.outputs(job.id) if isinstance(o, ExecuteResult)]


@over_ssh
def test_cells_of_a_session_share_state_and_one_job(site: Site) -> None:
    session = start(site)
    assert run(site, session, "x = 40\nprint('hello')").state is JobState.COMPLETED
    cursor = site.service.changes().cursor
    second = run(site, session, "x += 2\nx")
    assert second.state is JobState.COMPLETED
    assert second.session == session.id
    assert second.slurm_id is None
    assert shown(site, second) == ["42"]
    assert site.service.result(second.id).status == "ok"
    results = site.service.changes(cursor, results=(second.id,)).results
    assert [(one.job.id, one.status) for one in results] == [(second.id, "ok")]
    assert len(site.slurm_jobs()) == 1
    ended = stop(site, session)
    assert (ended.state, ended.why) == (JobState.COMPLETED, "Shut down.")
    with pytest.raises(SubmitError, match=r"has ended \(done\)"):
        send(site, session, "x")


# --- results of a cell --------------------------------------------------------------------------


def test_variables_are_sent_returned_and_kept(site: Site, tmp_path: Path) -> None:
    session = start(site)
    inputs = tmp_path / "in.vars"
    write_variables(inputs, ["a", "f"], {"a": [1, "é"], "f": lambda: 7})
    job = run(
        site,
        session,
        "b = [a, f()]",
        names_in=("a", "f"),
        names_out=("b", "nothing"),
        inputs=str(inputs),
    )
    result = site.service.result(job.id)
    assert read_variables(Path(result.variables or ""))[0] == {"b": [[1, "é"], 7]}
    assert "nothing" in result.failed
    assert shown(site, run(site, session, "b[1] + f()")) == ["14"]


def test_short_call_returns_its_result_with_the_submission(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = start(site)

    def called(code: str) -> Result:
        cell = spec(code, session=session.id, names_out=(OUTCOME,))
        assert isinstance(cell, CellSpec)
        return site.service.submit_call(cell)

    monkeypatch.setattr(service, "_CALL_WAIT_S", PATIENCE_S)
    short = called(f"{OUTCOME} = 1")
    assert (short.status, short.job.state) == ("ok", JobState.COMPLETED)
    assert read_variables(Path(short.variables or ""))[0] == {OUTCOME: 1}
    monkeypatch.setattr(service, "_CALL_WAIT_S", 0.0)
    long = called(FOR_EVER)
    assert (long.status, long.job.state.final) == ("none", False)
    begun(site, long.job)
    site.service.cancel(long.job.id)
    assert site.wait(long.job.id, limit_s=PATIENCE_S).state is JobState.CANCELLED


def test_traceback_shows_the_code_of_an_earlier_cell(site: Site) -> None:
    session = start(site)
    run(site, session, "def breaks():\n    return 1 / 0\nkept = 1")
    failed = run(site, session, "breaks()")
    assert failed.state is JobState.FAILED
    assert str(failed.why) == "The cell raised ZeroDivisionError."
    [error] = [o for o in site.outputs(failed.id) if isinstance(o, ErrorOutput)]
    told = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
    assert "return 1 / 0" in told
    assert "breaks()" in told
    assert shown(site, run(site, session, "kept")) == ["1"]


# --- order, interrupts, cancelling --------------------------------------------------------------

FOR_EVER = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.05)"


def begun(site: Site, job: Job) -> None:
    wait_until(lambda: "begun" in site.so_far(job.id), PATIENCE_S)


def test_waiting_cell_can_be_cancelled(site: Site) -> None:
    session = start(site)
    first = send(site, session, FOR_EVER)
    begun(site, first)
    left_out = send(site, session, "seen = 1")
    last = send(site, session, "'seen' in globals()")
    assert left_out.state is JobState.PENDING
    assert str(left_out.why) == "Waiting for earlier cells of the session."
    site.service.cancel(left_out.id)
    cancelled = site.wait(left_out.id, limit_s=PATIENCE_S)
    assert cancelled.state is JobState.CANCELLED
    assert str(cancelled.why) == "Cancelled by you before it started."
    site.service.cancel(first.id)
    assert site.wait(first.id, limit_s=PATIENCE_S).state is JobState.CANCELLED
    assert site.wait(last.id, limit_s=PATIENCE_S).state is JobState.COMPLETED
    assert shown(site, last) == ["False"]


def test_interrupted_cell_keeps_the_session_and_its_state(site: Site) -> None:
    session = start(site)
    run(site, session, "kept = 5")
    job = send(site, session, FOR_EVER)
    begun(site, job)
    site.service.cancel(job.id)
    ended = site.wait(job.id, limit_s=PATIENCE_S)
    assert (ended.state, ended.why) == (JobState.CANCELLED, "Cancelled by you.")
    assert site.service.result(job.id).ename == "KeyboardInterrupt"
    assert shown(site, run(site, session, "kept")) == ["5"]
    assert site.service.job(session.id).state is JobState.RUNNING


# --- failures ----------------------------------------------------------------------------------


def test_dead_process_fails_its_cell_and_the_next_cell_warns(site: Site) -> None:
    session = start(site)
    run(site, session, "kept = 5")
    died = run(site, session, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert died.state is JobState.FAILED
    result = site.service.result(died.id)
    assert (result.status, result.ename) == ("killed", "SIGSEGV")
    assert "the session's variables are lost" in (result.evalue or "")
    after = run(site, session, "'kept' in globals()")
    assert shown(site, after) == ["False"]
    assert "the session's variables are lost" in site.text(after.id, "stderr")
    assert site.text(run(site, session, "1").id, "stderr") == ""


@over_ssh
def test_restarted_agent_finds_cells_that_ran_without_an_agent(site: Site) -> None:
    session = start(site)
    running = send(site, session, f"{FOR_EVER.replace('True:', 'not done.exists():')}")
    failed = site.wait(running.id, limit_s=PATIENCE_S)
    assert failed.state is JobState.FAILED  # with a NameError, since `done` is not defined
    done = Path(session.job_dir) / "done"
    run(site, session, f"from pathlib import Path\ndone = Path({str(done)!r})")
    running = send(site, session, FOR_EVER.replace("True:", "not done.exists():"))
    begun(site, running)
    waiting = send(site, session, "7")
    site.restart()
    done.touch()
    assert site.wait(running.id, limit_s=PATIENCE_S).state is JobState.COMPLETED
    assert site.wait(waiting.id, limit_s=PATIENCE_S).state is JobState.COMPLETED
    assert shown(site, waiting) == ["7"]
    assert shown(site, run(site, session, "done.name")) == ["'done'"]


def test_next_agent_can_cancel_a_running_cell(site: Site) -> None:
    session = start(site)
    job = send(site, session, FOR_EVER)
    begun(site, job)
    site.restart().cancel(job.id)
    ended = site.wait(job.id, limit_s=PATIENCE_S)
    assert (ended.state, ended.why) == (JobState.CANCELLED, "Cancelled by you.")
    assert shown(site, run(site, session, "1")) == ["1"]


@over_ssh
def test_cell_sent_twice_runs_once(site: Site) -> None:
    session = start(site)
    run(site, session, "runs = []")
    asked = spec("runs.append(1)", session=session.id)
    site.service.submit(asked)
    site.service.submit(asked)
    site.wait(asked.id, limit_s=PATIENCE_S)
    # After a lost answer, the agent sends a second line.
    with (Path(session.job_dir) / "cells" / "requests").open("a") as requests:
        requests.write(f"\nrun {asked.id}\n")
    assert shown(site, run(site, session, "len(runs)")) == ["1"]


def test_session_ended_by_slurm_ends_its_cells_with_the_reason(site: Site) -> None:
    session = start(site)
    running = send(site, session, FOR_EVER)
    begun(site, running)
    waiting = send(site, session, "1")
    site.cluster.run("scancel", session.slurm_id or "")
    assert site.wait(session.id, limit_s=PATIENCE_S).state is JobState.CANCELLED
    ended = site.wait(running.id, limit_s=PATIENCE_S)
    assert ended.state is JobState.CANCELLED
    assert (str(ended.why or "")).startswith("The session ended while the cell ran. Cancelled")
    never = site.wait(waiting.id, limit_s=PATIENCE_S)
    assert (str(never.why or "")).startswith("The session ended before the cell started. Cancelled")
    assert site.service.result(running.id).interrupted_by == "SIGTERM"


def test_cell_can_be_sent_before_its_session_runs(site: Site) -> None:
    held = spec("", runtime="none", idle_s=600, kind=JobKind.SESSION, options={"hold": ""})
    session = site.service.submit(held)
    job = send(site, session, "6 * 7")
    assert job.state is JobState.PENDING
    assert (str(job.why or "")).startswith("The session is not running yet.")
    site.service.release(session.id)
    assert site.wait(job.id, limit_s=PATIENCE_S).state is JobState.COMPLETED
    assert shown(site, job) == ["42"]
