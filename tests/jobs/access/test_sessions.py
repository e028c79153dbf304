"""Sessions on a real Slurm: cells that run in one process on the node, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm import places
from jupyter_slurm.errors import RequestError, SubmitError
from jupyter_slurm.jobs.outcome.variables import read_variables, write_variables
from jupyter_slurm.jobs.records.store import Store
from jupyter_slurm.jobs.submission import session_cells
from jupyter_slurm.wire import (
    CellJob,
    CellSpec,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Job,
    JobKind,
    JobState,
    Text,
)
from tests.jobs.conftest import Site, over_ssh, spec, stays_ended
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def no_session_is_left(site: Site) -> Iterator[None]:
    """On the cluster that tests share one would keep its node until it is idle."""
    yield
    for job in site.service.jobs():
        if job.kind is JobKind.SESSION and not job.state.final:
            stop(site, job)


def start(site: Site, **changes: Any) -> Job:
    """A session that runs, its process there."""
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
def test_cells_of_a_session_share_their_state_and_cost_slurm_one_job(site: Site) -> None:
    session = start(site)
    assert run(site, session, "x = 40\nprint('hello')").state is JobState.COMPLETED
    second = run(site, session, "x += 2\nx")
    assert second.state is JobState.COMPLETED
    assert second.session == session.id
    assert second.slurm_id is None
    assert shown(site, second) == ["42"]
    assert site.service.result(second.id).status == "ok"
    assert len(site.slurm_jobs()) == 1
    ended = stop(site, session)
    assert (ended.state, ended.why) == (JobState.COMPLETED, "Shut down.")
    with pytest.raises(SubmitError, match=r"has ended \(done\)"):
        send(site, session, "x")


def test_a_cell_that_ends_before_it_counts_as_sent_stays_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_for = session_cells._waits_for
    session = start(site)
    states = site.states_of_jobs(monkeypatch)
    cell = spec("7", session=session.id)

    def ends_meanwhile(*about: Any) -> Text | None:
        site.end_elsewhere(cell.id)
        return waits_for(*about)

    monkeypatch.setattr(session_cells, "_waits_for", ends_meanwhile)
    site.service.submit(cell)
    wait_until(lambda: site.service.job(cell.id).submitted_s is not None, PATIENCE_S)
    assert stays_ended(states[cell.id])


# --- what a cell gives back ---------------------------------------------------------------------


def test_variables_go_in_and_come_back_and_stay(site: Site, tmp_path: Path) -> None:
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


def test_inputs_that_need_more_than_the_session_has_are_told(site: Site, tmp_path: Path) -> None:
    session = site.service.submit(
        spec("", runtime="none", kind=JobKind.SESSION, idle_s=600, options={"mem": "100M"})
    )
    warnings = []
    for mib in (200, 50):
        inputs = tmp_path / f"{mib}.vars"
        with inputs.open("wb") as file:
            file.truncate(mib << 20)
        cell = send(site, session, "1", names_in=("x",), inputs=str(inputs))
        warnings.append(cell.warning)
    told = "The variables of --in take 200 MiB or more, and the job asks for 100 MiB of memory."
    assert told in str(warnings[0] or "")
    assert warnings[1] is None


def test_an_error_is_the_cells_own_and_its_traceback_names_the_earlier_cell(site: Site) -> None:
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


@over_ssh
def test_output_of_megabytes_and_displays_come_in_order(site: Site) -> None:
    session = start(site)
    size = 6_000_000
    code = f"print('x' * {size})\ndisplay({{'text/plain': 'between'}}, raw=True)\nprint('end')"
    job = run(site, session, code)
    text = site.text(job.id)
    assert len(text) == size + len("\nend\n")
    kinds = [type(output).__name__ for output in site.outputs(job.id)]
    assert "DisplayData" in kinds[1:-1]


def test_a_figure_is_shown_by_the_cell_that_drew_it(site: Site) -> None:
    session = start(site)
    run(site, session, "import matplotlib.pyplot as plt\nplt.plot([1, 2])")
    job = run(site, session, "plt.plot([3, 4])")
    pictures = [o for o in site.outputs(job.id) if isinstance(o, DisplayData)]
    assert ["image/png" in picture.data for picture in pictures] == [True]


def test_code_of_the_notebook_runs_with_ipython_as_well(site: Site) -> None:
    session = start(site)
    run(site, session, "!echo from a shell")
    job = run(site, session, "words = !echo again\nwords")
    assert shown(site, job) == ["['again']"]


# --- order, interrupts, cancelling --------------------------------------------------------------

FOR_EVER = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.05)"


def begun(site: Site, job: Job) -> None:
    wait_until(lambda: "begun" in site.so_far(job.id), PATIENCE_S)


def test_cells_wait_for_their_turn_and_one_that_waits_can_be_cancelled(site: Site) -> None:
    session = start(site)
    first = send(site, session, FOR_EVER)
    begun(site, first)
    left_out = send(site, session, "seen = 1")
    last = send(site, session, "'seen' in globals()")
    assert left_out.state is JobState.PENDING
    assert str(left_out.why) == "It waits for the cells before it in its session."
    site.service.cancel(left_out.id)
    cancelled = site.wait(left_out.id, limit_s=PATIENCE_S)
    assert cancelled.state is JobState.CANCELLED
    assert str(cancelled.why) == "Cancelled by you before it started."
    site.service.cancel(first.id)
    assert site.wait(first.id, limit_s=PATIENCE_S).state is JobState.CANCELLED
    assert site.wait(last.id, limit_s=PATIENCE_S).state is JobState.COMPLETED
    assert shown(site, last) == ["False"]


def test_an_interrupted_cell_leaves_the_session_and_its_state(site: Site) -> None:
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


def test_a_cell_that_ignores_its_interrupt_ends_when_it_is_cancelled_again(site: Site) -> None:
    session = start(site)
    stubborn = (
        "import time\nprint('begun', flush=True)\nwhile True:\n"
        "    try:\n        time.sleep(0.05)\n"
        "    except KeyboardInterrupt:\n        print('no', flush=True)"
    )
    job = send(site, session, stubborn)
    begun(site, job)
    site.service.cancel(job.id)
    wait_until(lambda: "no" in site.so_far(job.id), PATIENCE_S)
    site.service.cancel(job.id)
    assert site.wait(job.id, limit_s=PATIENCE_S).state is JobState.CANCELLED
    assert run(site, session, "1").state is JobState.COMPLETED


# --- what breaks --------------------------------------------------------------------------------


def test_a_process_that_dies_fails_its_cell_and_the_next_is_told_of_the_loss(site: Site) -> None:
    session = start(site)
    run(site, session, "kept = 5")
    died = run(site, session, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert died.state is JobState.FAILED
    result = site.service.result(died.id)
    assert (result.status, result.ename) == ("killed", "SIGSEGV")
    assert "what the session's cells had set is lost" in (result.evalue or "")
    after = run(site, session, "'kept' in globals()")
    assert shown(site, after) == ["False"]
    assert "what the session's cells had set is lost" in site.text(after.id, "stderr")
    assert site.text(run(site, session, "1").id, "stderr") == ""


@over_ssh
def test_an_agent_that_starts_anew_finds_the_cells_that_ran_meanwhile(site: Site) -> None:
    session = start(site)
    running = send(site, session, f"{FOR_EVER.replace('True:', 'not done.exists():')}")
    failed = site.wait(running.id, limit_s=PATIENCE_S)
    assert failed.state is JobState.FAILED  # NameError: nobody has said what `done` is
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


@over_ssh
def test_a_cell_that_is_sent_twice_runs_once(site: Site) -> None:
    session = start(site)
    run(site, session, "runs = []")
    asked = spec("runs.append(1)", session=session.id)
    site.service.submit(asked)
    site.service.submit(asked)
    site.wait(asked.id, limit_s=PATIENCE_S)
    # What an answer that was lost leads to: the line stands there a second time.
    with (Path(session.job_dir) / "cells" / "requests").open("a") as requests:
        requests.write(f"\nrun {asked.id}\n")
    assert shown(site, run(site, session, "len(runs)")) == ["1"]


def test_a_cell_that_a_killed_agent_had_recorded_is_sent_by_the_next_one(site: Site) -> None:
    session = start(site)
    asked = spec("6 * 7", session=session.id)
    assert isinstance(asked, CellSpec)
    record = site.service._sessions.new_record(asked)
    site.service.close()
    Store(places.data_dir()).save_synced(record)
    site.restart()
    job = site.wait(asked.id, limit_s=PATIENCE_S)
    assert shown(site, job) == ["42"]


def test_a_session_that_slurm_ends_takes_its_cells_with_it_and_says_why(site: Site) -> None:
    session = start(site)
    running = send(site, session, FOR_EVER)
    begun(site, running)
    waiting = send(site, session, "1")
    site.cluster.run("scancel", session.slurm_id or "")
    assert site.wait(session.id, limit_s=PATIENCE_S).state is JobState.CANCELLED
    ended = site.wait(running.id, limit_s=PATIENCE_S)
    assert ended.state is JobState.CANCELLED
    assert (str(ended.why or "")).startswith("Its session ended while it ran. Cancelled")
    never = site.wait(waiting.id, limit_s=PATIENCE_S)
    assert (str(never.why or "")).startswith("Its session ended before it began. Cancelled")
    assert site.service.result(running.id).interrupted_by == "SIGTERM"


def test_a_session_whose_program_is_killed_fails_and_its_cells_are_not_left_waiting(
    site: Site,
) -> None:
    session = start(site)
    run(site, session, "import os, signal, time")
    killed = run(site, session, "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)")
    assert killed.state is JobState.FAILED
    assert (str(killed.why or "")).startswith("Its session ended while it ran.")
    assert site.wait(session.id, limit_s=PATIENCE_S).state is JobState.FAILED


def test_a_cell_that_takes_too_much_memory_ends_as_slurm_says_of_its_session(site: Site) -> None:
    session = start(site, options={"mem": "100M"})
    hog = "import time\nprint('begun', flush=True)\nhog = b'x' * (600 << 20)\ntime.sleep(60)"
    ended = run(site, session, hog)
    assert ended.state is JobState.OUT_OF_MEMORY
    assert "memory" in str(ended.why or "")


@over_ssh
def test_a_session_runs_in_the_folder_that_was_pushed_with_it(site: Site, tmp_path: Path) -> None:
    code = tmp_path / "my code"
    code.mkdir()
    (code / "helper.py").write_text("answer = 42\n")
    session = start(site, push=str(code))
    assert shown(site, run(site, session, "import helper\nhelper.answer")) == ["42"]


def test_a_session_ends_when_it_is_idle_for_too_long(site: Site) -> None:
    session = site.service.submit(spec("", kind=JobKind.SESSION, idle_s=1))
    ended = site.wait(session.id, limit_s=PATIENCE_S)
    assert (ended.state, ended.why) == (JobState.COMPLETED, "It was idle for 1 second.")
    with pytest.raises(SubmitError, match="It was idle"):
        send(site, session, "1")


def test_a_session_is_busy_while_a_cell_runs_and_idle_after_it(site: Site) -> None:
    session = start(site)
    job = send(site, session, FOR_EVER)
    # The cell may print before the agent has heard that it was sent.
    wait_until(lambda: site.service.job(session.id).idle_since_s is None, PATIENCE_S)
    begun(site, job)
    site.service.cancel(job.id)
    site.wait(job.id, limit_s=PATIENCE_S)
    wait_until(lambda: site.service.job(session.id).idle_since_s is not None, PATIENCE_S)


def test_a_cell_can_be_sent_before_its_session_runs(site: Site) -> None:
    held = spec("", runtime="none", idle_s=600, kind=JobKind.SESSION, options={"hold": ""})
    session = site.service.submit(held)
    job = send(site, session, "6 * 7")
    assert job.state is JobState.PENDING
    assert (str(job.why or "")).startswith("Its session does not run yet.")
    site.service.release(session.id)
    assert site.wait(job.id, limit_s=PATIENCE_S).state is JobState.COMPLETED
    assert shown(site, job) == ["42"]


def test_a_cell_hears_when_the_time_of_its_session_is_over(site: Site) -> None:
    session = start(site, options={"time": "2:00:00"})
    job = send(site, session, FOR_EVER)

    def ends_s() -> float | None:
        cell = site.service.job(job.id)
        assert isinstance(cell, CellJob)
        return cell.session_ends_s

    wait_until(lambda: ends_s() is not None, PATIENCE_S)
    session = site.service.job(session.id)
    assert session.limit_s == 7200
    assert ends_s() == (session.started_s or 0) + 7200


def test_what_is_no_session_takes_no_cells(site: Site) -> None:
    plain = site.run("1")
    with pytest.raises(RequestError, match="is not a session"):
        send(site, plain, "1")
    with pytest.raises(RequestError, match="needs a time"):
        site.service.submit(spec("", kind=JobKind.SESSION, idle_s=0))


def test_a_forgotten_session_takes_its_cells_along(site: Site) -> None:
    session = start(site)
    job = run(site, session, "1")
    folder = Path(session.job_dir)
    assert (folder / "cells" / job.id / "result.0.json").exists()
    stop(site, session)
    site.service.forget(session.id)
    assert not folder.exists()
    assert job.id not in [one.id for one in site.service.jobs()]


def test_the_time_limit_ends_cells_with_their_session(site: Site) -> None:
    session = start(site, options={"time": "1"})
    assert session.limit_s is None or session.limit_s == 60
    job = send(site, session, FOR_EVER)
    begun(site, job)
    site.cluster.end_time_of(session.slurm_id or "")
    ended = site.wait(job.id, limit_s=280)
    assert ended.state is JobState.TIMEOUT
    assert (str(ended.why or "")).startswith("Its session ended while it ran.")
