"""Success and failure of ended jobs, and their errors."""

from __future__ import annotations

import pytest

from jupyter_slurm.views.failure import failure
from jupyter_slurm.wire import JobKind, JobState, Result
from tests.views.test_card import job


def test_cell_with_an_ok_result_succeeded_despite_a_timeout() -> None:
    assert failure(Result(job=job(state=JobState.TIMEOUT), status="ok")) is None


def test_completed_cell_without_a_result_counts_as_failed() -> None:
    failed = failure(Result(job=job(state=JobState.COMPLETED), status="none"))
    assert failed is not None


@pytest.mark.parametrize(("state", "well"), [(JobState.COMPLETED, True), (JobState.FAILED, False)])
def test_script_succeeds_if_its_state_is_completed(state: JobState, well: bool) -> None:
    ended = job(state=state, kind=JobKind.SCRIPT, exit_code=0 if well else 2)
    assert (failure(Result(job=ended, status="none")) is None) is well


def test_error_shows_slurms_reason_and_our_advice() -> None:
    killed = job(
        state=JobState.OUT_OF_MEMORY, why="It used more than 1 GiB.", advice="Ask for --mem 2G."
    )
    failed = failure(Result(job=killed, status="killed"))
    assert failed is not None
    for part in ("out of memory", "more than 1 GiB", "--mem 2G"):
        assert part in str(failed)


def test_remote_traceback_comes_first() -> None:
    result = Result(
        job=job(state=JobState.FAILED, nodes=("n7",)),
        status="error",
        ename="ValueError",
        evalue="no",
        traceback=("Traceback …", "ValueError: no"),
    )
    failed = failure(result)
    assert failed is not None
    lines = failed._render_traceback_()
    assert lines[:2] == ["Traceback …", "ValueError: no"]
    assert "n7" in lines[-1]


def test_error_suggests_the_option_for_an_unsent_variable() -> None:
    result = Result(
        job=job(state=JobState.FAILED),
        status="error",
        ename="NameError",
        evalue="name 'data' is not defined",
    )
    assert "--in data" in str(failure(result, {"data": 1}))
    assert "--in data" not in str(failure(result, {}))


@pytest.mark.parametrize(("evalue", "code"), [("4", 4), ("no data", 1)])
def test_sys_exit_is_not_shown_as_an_exception(evalue: str, code: int) -> None:
    ended = job(state=JobState.FAILED, exit_code=code, why=f"It exited with code {code}.")
    result = Result(job=ended, status="error", ename="SystemExit", evalue=evalue)
    said = str(failure(result))
    assert f"exited with code {code}" in said
    assert "SystemExit" not in said
