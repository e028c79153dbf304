"""Executors and their jobs: options, errors of Slurm, sessions, and futures found by ID."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import pytest

import jupyter_slurm as js
from jupyter_slurm.errors import (
    AgentError,
    CellFailed,
    ConnectionLostError,
    JobLostError,
    LoginNeededError,
    NotFoundError,
    RequestError,
    SubmitError,
)
from jupyter_slurm.wire import CellSpec, JobState, Result, SessionSpec
from tests.executor.calls import Gate, divided, odd
from tests.executor.conftest import Make, Pool
from tests.ssh.waiting import wait_until

# --- options ----------------------------------------------------------------------------------


def test_executor_accepts_the_options_of_cells_under_python_names(make: Make, api: Pool) -> None:
    executor = make(
        gpus=1,
        time="30m",
        mem="4G",
        cpus_per_task=2,
        nodelist=["n1", "n2"],
        exclusive=True,
        hold=False,
        image="pytorch:22.11",
        modules=["cuda", "gcc"],
        mounts="/data:/in:ro",
        env={"TEXT": "two words"},
        account=None,
        out_format="data",
        cluster="other",
    )
    future = executor.submit(max, 1, 2)
    spec = api.specs[future.id]
    assert isinstance(spec, CellSpec)
    assert spec.options == {
        "gpus": "1",
        "time": "00:30:00",
        "mem": "4G",
        "cpus-per-task": "2",
        "nodelist": "n1,n2",
        "exclusive": "",
    }
    assert (spec.image, spec.cluster, spec.out_format) == ("pytorch:22.11", "other", "data")
    assert spec.modules == ("cuda", "gcc")
    assert spec.mounts == ("/data:/in:ro",)
    assert spec.env == {"TEXT": "two words"}
    assert spec.name == "max"


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"gpuss": 1}, "gpuss"),
        ({"time": "soon"}, "time"),
        ({"session": "fit"}, "session"),
        ({"session": "fit", "warm": True}, "session"),
        ({"out_format": "json"}, "out-format"),
        ({"launch": "horovod"}, "launch"),
    ],
)
def test_invalid_options_are_rejected_before_any_call(options: dict[str, Any], about: str) -> None:
    with pytest.raises(RequestError) as raised:
        js.Executor(**options)
    assert raised.value.option == about


def test_job_of_a_lambda_is_named_lambda(make: Make, api: Pool) -> None:
    future = make().submit(lambda: 1)
    assert api.specs[future.id].name == "lambda"


# --- errors -----------------------------------------------------------------------------------


def test_submit_raises_if_the_cluster_needs_a_login(make: Make, api: Pool) -> None:
    api.needed = True
    executor = make()
    with pytest.raises(LoginNeededError):
        executor.submit(pow, 2, 3)
    assert not list((api.folder / "data").rglob("*.vars"))
    api.needed = False
    assert executor.submit(pow, 2, 3).result() == 8


def test_submit_raises_if_the_cluster_does_not_answer(make: Make, api: Pool) -> None:
    submit = api.submit

    def unanswered(spec: Any) -> Any:
        api.is_full = True
        problem = ConnectionLostError("The connection dropped.").problem()
        job = submit(spec)
        return api.change(job.id, state=JobState.SUBMITTING, problem=problem)

    api.submit = unanswered  # type: ignore[method-assign]
    with pytest.raises(ConnectionLostError):
        make().submit(pow, 2, 3)
    assert [job.state for job in api.jobs()] == [JobState.CANCELLED]


@pytest.mark.parametrize("warm", [False, True])
def test_submit_raises_slurms_refusal(make: Make, api: Pool, warm: bool) -> None:
    api.refuse = "Slurm refused the job: no."
    with pytest.raises(SubmitError, match="no"):
        make(warm=warm).submit(pow, 2, 3)
    assert not list((api.folder / "data").rglob("*.vars"))


def test_refused_queued_call_fails_with_slurms_refusal(make: Make, api: Pool) -> None:
    gate = Gate()
    executor = make(max_workers=1)
    first, second = executor.submit(gate.wait, 1), executor.submit(pow, 2, 3)
    api.refuse = "Slurm refused the job: no."
    gate.open()
    assert first.result() == 1
    assert isinstance(second.exception(), SubmitError)


@pytest.mark.parametrize("state", [JobState.OUT_OF_MEMORY, JobState.TIMEOUT, JobState.CANCELLED])
def test_slurms_reason_is_in_the_exception(make: Make, api: Pool, state: JobState) -> None:
    gate = Gate()
    future = make().submit(gate.wait)
    wait_until(future.running)
    api.kill(future.id, state, "Slurm ended it.", advice="Ask for more.")
    error = future.exception()
    assert isinstance(error, CellFailed)
    assert "Slurm ended it." in error.message
    assert error.hint == "Ask for more."
    gate.open()


def test_cancelling_a_waiting_job_cancels_its_future(make: Make, api: Pool) -> None:
    api.is_full = True
    future = make().submit(pow, 2, 3)
    api.kill(future.id, JobState.CANCELLED, "It was cancelled by you.")
    with pytest.raises(CancelledError):
        future.result(60)


def test_futures_of_lost_and_forgotten_jobs_raise(make: Make, api: Pool) -> None:
    gate = Gate()
    executor = make()
    lost, forgotten = executor.submit(gate.wait), executor.submit(gate.wait)
    wait_until(lost.running)

    def result(job_id: str) -> Any:
        raise JobLostError("Its end is unknown.")

    api.result = result  # type: ignore[method-assign]
    api.kill(lost.id, JobState.LOST, "Its end is unknown.")
    assert isinstance(lost.exception(), JobLostError)
    api.remove(forgotten.id)
    assert isinstance(forgotten.exception(), NotFoundError)
    gate.open()


def test_unreadable_exception_is_replaced_and_keeps_the_traceback(make: Make) -> None:
    error = make().submit(odd).exception()
    assert isinstance(error, CellFailed)
    assert "Odd: not whole" in "\n".join(error.traceback)


def test_result_waits_for_a_login(make: Make, api: Pool) -> None:
    gate = Gate()
    future = make().submit(gate.wait, 5)
    wait_until(future.running)
    api.needed = True
    gate.open()
    api.until(lambda _: api.job(future.id).state.final)
    assert not future.done()
    api.needed = False
    api.hold(future.id)  # a change that a connection would report
    assert future.result() == 5


def test_lost_agent_fails_the_calls(make: Make, api: Pool) -> None:
    gate = Gate()
    executor = make(max_workers=1)
    futures = [executor.submit(gate.wait) for _ in range(2)]
    api.changes_error = AgentError("No agent answers.")
    api.hold(futures[0].id)  # the watching thread polls again
    assert [type(one.exception()) for one in futures] == [AgentError, AgentError]
    api.changes_error = None
    gate.open()


# --- limit on jobs ----------------------------------------------------------------------------


def test_unfinished_jobs_do_not_exceed_max_workers(make: Make, api: Pool) -> None:
    api.is_full = True
    executor = make(max_workers=3)
    futures = [executor.submit(pow, 2, number) for number in range(8)]
    for future in futures:
        api.until(lambda _, job_id=future.id: job_id in api.specs)  # type: ignore[misc]
        assert sum(not job.state.final for job in api.jobs()) <= 3
        api.begin(future.id)
        assert future.result() == 2 ** futures.index(future)
    assert len(api.jobs()) == 8


# --- futures found by ID ----------------------------------------------------------------------


def test_future_is_found_by_its_id(make: Make, api: Pool) -> None:
    gate = Gate()
    running, failed = make().submit(gate.wait, 3), make().submit(divided, 1, 0)
    found = js.future(running.id)
    assert not found.done()
    assert js.future(running.id) is found
    gate.open()
    assert found.result() == running.result() == 3
    failed.exception()
    assert isinstance(js.future(failed.id).exception(), ZeroDivisionError)
    assert js.future(running.id).result() == 3


def test_found_future_can_be_cancelled(make: Make, api: Pool) -> None:
    api.is_full = True
    submitted = make().submit(pow, 2, 3)
    assert js.future(submitted.id).cancel()
    assert submitted.cancelled() or api.job(submitted.id).state is JobState.CANCELLED
    assert js.future(submitted.id).cancelled()


def test_only_jobs_of_calls_have_futures(api: Pool) -> None:
    job = api.submit(CellSpec(name="cell", code="x = 1", names_out=("x",)))
    with pytest.raises(RequestError, match="not a call"):
        js.future(job.id)
    with pytest.raises(NotFoundError):
        js.future("nosuchid")


# --- sessions ---------------------------------------------------------------------------------


def test_calls_run_in_one_session_that_ends_at_shutdown(make: Make, api: Pool) -> None:
    executor = make(warm=True, gpus=1, idle="10m", cluster="other")
    assert [executor.submit(pow, 2, number).result() for number in range(3)] == [1, 2, 4]
    [session] = api.sessions
    spec = api.specs[session.id]
    assert isinstance(spec, SessionSpec)
    assert (spec.options, spec.idle_s, spec.cluster) == ({"gpus": "1"}, 600, "other")
    assert spec.for_executor
    assert {job.session for job in api.cells} == {session.id}
    assert not session.state.final
    executor.shutdown()
    assert api.job(session.id).state is JobState.CANCELLED


def test_each_session_has_one_call_at_a_time(make: Make, api: Pool) -> None:
    gates = [Gate() for _ in range(6)]
    executor = make(warm=True, max_workers=2)
    futures = [executor.submit(gate.wait) for gate in gates]
    for gate in gates:
        running = [job.session for job in api.cells if not job.state.final]
        assert len(running) == len({*running})
        gate.open()
        futures[gates.index(gate)].result()
    assert len(api.sessions) == 2


def test_successive_calls_are_acknowledged_together(make: Make, api: Pool) -> None:
    gate = Gate()
    api.submit_call = lambda spec: Result(  # type: ignore[method-assign]
        job=api.submit(spec), status="none"
    )
    executor = make(warm=True)
    first, *others = executor.submit(gate.wait), *(executor.submit(pow, 2, n) for n in (1, 2))
    gate.open()
    assert [future.result() for future in others] == [2, 4]
    assert first.done()
    api.until(lambda api: all(job.delivered for job in api.jobs() if job.session))
    assert api.calls.count("delivered") == 1


def test_short_session_calls_are_done_when_submit_returns(make: Make, api: Pool) -> None:
    executor = make(warm=True)
    executor.submit(pow, 2, 3).result()
    api.call_wait_s = 60.0
    api.calls.clear()
    futures = [executor.submit(pow, 2, number) for number in range(3)]
    assert [future.done() for future in futures] == [True] * 3
    assert [future.result() for future in futures] == [1, 2, 4]
    assert isinstance(executor.submit(divided, 1, 0).exception(0), ZeroDivisionError)


def test_second_session_starts_only_if_the_first_is_busy(make: Make, api: Pool) -> None:
    executor = make(warm=True, max_workers=2)
    for _ in range(3):
        executor.submit(pow, 2, 3).result()
    assert len(api.sessions) == 1


def test_calls_wait_for_a_pending_session(make: Make, api: Pool) -> None:
    api.is_full = True
    executor = make(warm=True)
    future = executor.submit(pow, 2, 3)
    other = executor.submit(pow, 2, 4)
    [session] = api.jobs()
    assert other.cancel()
    assert not future.running()
    api.is_full = False
    api.begin(session.id)
    assert future.result() == 8
    assert len(api.cells) == 1


def test_call_fails_if_its_session_ends_before_the_call_starts(make: Make, api: Pool) -> None:
    executor = make(warm=True)
    executor.submit(pow, 2, 3).result()
    api.is_full = True
    future = executor.submit(pow, 2, 4)
    api.kill(future.id, JobState.CANCELLED, "Its session was cancelled.")
    assert isinstance(future.exception(60), CellFailed)


def test_ended_session_is_replaced(make: Make, api: Pool) -> None:
    executor = make(warm=True)
    executor.submit(pow, 2, 3).result()
    [first] = api.sessions
    api.kill(first.id, JobState.COMPLETED, "It was idle for 30 minutes.")
    submit = api.submit

    def refusing(spec: Any) -> Any:
        if spec.session == first.id:
            raise SubmitError("The session has ended.")
        return submit(spec)

    api.submit = refusing  # type: ignore[method-assign]
    assert executor.submit(pow, 2, 4).result() == 16
    assert len(api.sessions) == 2


def test_calls_fail_if_their_session_fails_to_start(make: Make, api: Pool) -> None:
    api.is_full = True
    executor = make(warm=True)
    futures = [executor.submit(pow, 2, 3) for _ in range(2)]
    [session] = api.jobs()
    api.kill(session.id, JobState.FAILED, "The image has no Python.")
    for future in futures:
        error = future.exception()
        assert isinstance(error, CellFailed)
        assert "The image has no Python." in error.message
    assert len(api.jobs()) == 1
