"""The contract of `concurrent.futures.Executor`, for calls in jobs and in sessions."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from concurrent import futures
from itertools import repeat
from typing import Any

import pytest

from jupyter_slurm.errors import VariableError
from jupyter_slurm.executor import Executor
from jupyter_slurm.wire import JobState
from tests.executor.calls import Gate, Thing, captured, divided, thing
from tests.executor.conftest import Make, Pool
from tests.ssh.waiting import wait_until


def test_submit_returns_the_value_with_any_arguments(any_executor: Executor) -> None:
    assert any_executor.submit(pow, 2, 8).result() == 256
    future = any_executor.submit(captured, 1, self=2, fn=3, call=4)
    assert future.result() == ((1,), {"self": 2, "fn": 3, "call": 4})
    with pytest.raises(TypeError):
        any_executor.submit(fn=pow)  # type: ignore[call-arg]


def test_exception_of_a_call_keeps_its_type_and_remote_traceback(any_executor: Executor) -> None:
    future = any_executor.submit(divided, 1, 0)
    error = future.exception()
    assert isinstance(error, ZeroDivisionError)
    assert "in divided" in str(error.__cause__)
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        future.result()


def test_class_defined_in_the_notebook_round_trips(any_executor: Executor) -> None:
    class Own(ValueError):
        pass

    def fail() -> None:
        raise Own("no")

    assert type(any_executor.submit(fail).exception()) is Own


def test_submit_raises_if_a_call_cannot_be_pickled(any_executor: Executor, api: Pool) -> None:
    lock = threading.Lock()

    def locked() -> None:
        lock.acquire()

    with pytest.raises(VariableError, match="call of locked") as raised:
        any_executor.submit(locked)
    assert "cannot pickle '_thread.lock'" in str(raised.value)
    assert api.specs == {}
    assert any_executor.submit(pow, 2, 2).result() == 4


def test_done_callbacks_run(any_executor: Executor) -> None:
    called = futures.Future[object]()
    any_executor.submit(pow, 2, 3).add_done_callback(lambda one: called.set_result(one.result()))
    assert called.result(60) == 8


def test_callback_can_submit_another_call(any_executor: Executor) -> None:
    second = futures.Future[object]()

    def submit_again(first: futures.Future[int]) -> None:
        again = any_executor.submit(pow, first.result(), 2)
        again.add_done_callback(lambda one: second.set_result(one.result()))

    any_executor.submit(pow, 2, 3).add_done_callback(submit_again)
    assert second.result(60) == 64


@pytest.mark.parametrize("number", [0, -1])
def test_max_workers_must_be_positive(number: int) -> None:
    with pytest.raises(ValueError, match="max_workers must be greater than 0"):
        Executor(max_workers=number)


# --- map --------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunksize", [1, 3, 20])
def test_map_returns_values_in_order(any_executor: Executor, chunksize: int) -> None:
    mapped = any_executor.map(pow, range(7), range(7), chunksize=chunksize)
    assert list(mapped) == [*map(pow, range(7), range(7))]


def test_map_runs_a_chunk_in_each_job(make: Make, api: Pool) -> None:
    assert list(make().map(abs, range(-5, 5), chunksize=4)) == [*map(abs, range(-5, 5))]
    assert len(api.cells) == 3


@pytest.mark.parametrize("chunksize", [1, 2])
def test_map_raises_the_error_of_a_call_in_its_position(
    any_executor: Executor, chunksize: int
) -> None:
    results = any_executor.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5], chunksize=chunksize)
    assert [next(results), next(results)] == [(0, 1), (0, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_map_times_out(any_executor: Executor) -> None:
    gate = Gate()
    results = any_executor.map(gate.wait, [1], timeout=0)
    with pytest.raises(TimeoutError):
        next(results)
    gate.open()


def test_map_rejects_a_chunksize_of_zero(any_executor: Executor) -> None:
    with pytest.raises(ValueError, match="chunksize must be >= 1"):
        any_executor.map(abs, [1], chunksize=0)


def test_map_without_arguments_submits_nothing(any_executor: Executor, api: Pool) -> None:
    assert list(any_executor.map(abs, [], chunksize=2)) == []
    assert api.specs == {}


# --- cancel and shutdown ----------------------------------------------------------------------


def test_running_call_cannot_be_cancelled(any_executor: Executor, api: Pool) -> None:
    gate = Gate()
    future = any_executor.submit(gate.wait, "value")
    wait_until(future.running)
    assert not future.cancel()
    gate.open()
    assert future.result() == "value"


def test_waiting_call_is_cancelled_before_it_has_a_job(any_executor: Executor, api: Pool) -> None:
    gate = Gate()
    running = [any_executor.submit(gate.wait) for _ in range(2)]
    wait_until(lambda: all(one.running() for one in running))
    waiting = any_executor.submit(gate.wait)
    assert waiting.cancel()
    assert waiting.cancel()
    assert waiting.cancelled()
    with pytest.raises(futures.CancelledError):
        waiting.result()
    assert [*futures.as_completed([waiting], timeout=0)] == [waiting]
    assert waiting.id not in api.specs
    assert not list((api.folder / "data").rglob(f"{waiting.id}*"))
    gate.open()
    assert futures.wait(running).not_done == set()


def test_cancelling_a_call_cancels_its_waiting_job(make: Make, api: Pool) -> None:
    api.is_full = True
    future = make().submit(pow, 2, 3)
    assert future.job.state is JobState.PENDING
    assert future.cancel()
    assert api.job(future.id).state is JobState.CANCELLED
    assert futures.wait([future], timeout=0).done == {future}


def test_executor_rejects_calls_after_shutdown(any_executor: Executor, api: Pool) -> None:
    any_executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        any_executor.submit(pow, 2, 3)
    assert api.specs == {}


def test_shutdown_waits_for_all_calls(any_executor: Executor) -> None:
    submitted = [any_executor.submit(pow, 2, number) for number in range(20)]
    any_executor.shutdown()
    assert [one.result(0) for one in submitted] == [2**number for number in range(20)]


def test_shutdown_without_waiting_leaves_the_calls_running(any_executor: Executor) -> None:
    gate = Gate()
    submitted = [any_executor.submit(gate.wait, number) for number in range(4)]
    any_executor.shutdown(wait=False)
    assert not any(one.done() for one in submitted)
    gate.open()
    assert [one.result() for one in submitted] == [0, 1, 2, 3]


def test_shutdown_cancels_calls_that_have_not_started(any_executor: Executor, api: Pool) -> None:
    gate = Gate()
    submitted = [any_executor.submit(gate.wait) for _ in range(10)]
    wait_until(lambda: sum(one.running() for one in submitted) == 2)
    any_executor.shutdown(wait=False, cancel_futures=True)
    assert sum(one.cancelled() for one in submitted) == 8
    gate.open()
    assert futures.wait(submitted).not_done == set()
    assert len(api.cells) == 2


def test_shutdown_cancels_waiting_jobs(make: Make, api: Pool) -> None:
    api.is_full = True
    executor = make()
    submitted = [executor.submit(pow, 2, 3) for _ in range(3)]
    executor.shutdown(cancel_futures=True)
    assert all(one.cancelled() for one in submitted)
    assert {job.state for job in api.jobs()} == {JobState.CANCELLED}
    assert "control_jobs" in api.calls


def test_context_manager_waits_for_the_calls(make: Make) -> None:
    with make() as executor:
        future = executor.submit(pow, 2, 3)
    assert future.result(0) == 8
    with pytest.raises(RuntimeError):
        executor.submit(pow, 2, 3)


def test_executor_can_be_shut_down_in_a_callback(any_executor: Executor) -> None:
    ended = futures.Future[None]()

    def end(_future: object) -> None:
        any_executor.shutdown()
        ended.set_result(None)

    any_executor.submit(pow, 2, 3).add_done_callback(end)
    ended.result(60)


# --- wait and as_completed --------------------------------------------------------------------


def test_wait_returns_at_the_first_completed_future(any_executor: Executor) -> None:
    gate = Gate()
    quick = any_executor.submit(abs, 3)
    slow = any_executor.submit(gate.wait)
    both: list[futures.Future[Any]] = [quick, slow]
    waited = futures.wait(both, return_when=futures.FIRST_COMPLETED)
    assert waited == ({quick}, {slow})
    gate.open()
    assert futures.wait([*both, slow]).done == {quick, slow}


def test_wait_returns_at_the_first_exception(any_executor: Executor) -> None:
    gate = Gate()
    slow, failing = any_executor.submit(gate.wait), any_executor.submit(divided, 1, 0)
    both: list[futures.Future[Any]] = [slow, failing]
    waited = futures.wait(both, return_when=futures.FIRST_EXCEPTION)
    assert waited == ({failing}, {slow})
    gate.open()


def test_wait_times_out(any_executor: Executor) -> None:
    gate = Gate()
    future = any_executor.submit(gate.wait)
    assert futures.wait([future], timeout=0) == (set(), {future})
    with pytest.raises(TimeoutError):
        future.result(0)
    with pytest.raises(TimeoutError):
        [*futures.as_completed([future], timeout=0)]
    gate.open()


def test_as_completed_yields_each_future_once(any_executor: Executor) -> None:
    future = any_executor.submit(pow, 2, 3)
    assert [*futures.as_completed(repeat(future, 3))] == [future]


# --- references ---------------------------------------------------------------------------------


def test_executor_does_not_keep_arguments(any_executor: Executor) -> None:
    argument = Thing()
    known = weakref.ref(argument)
    any_executor.submit(argument.method).result()
    del argument
    gc.collect()
    assert known() is None


def test_executor_does_not_keep_values(any_executor: Executor) -> None:
    for value in any_executor.map(thing, range(4)):
        known = weakref.ref(value)
        del value
        gc.collect()
        assert known() is None


def test_thread_ends_with_the_last_call(any_executor: Executor) -> None:
    any_executor.submit(pow, 2, 3).result()
    any_executor.submit(pow, 2, 3).result()
    thread = any_executor._calls._thread
    if thread is not None:
        thread.join(60)
    assert any_executor._calls._thread is None


@pytest.mark.parametrize("warm", [False, True])
def test_garbage_collected_executor_finishes_its_calls_and_ends(api: Pool, warm: bool) -> None:
    gate = Gate()
    executor = Executor(warm=warm)
    future = executor.submit(gate.wait, 7)
    calls, known = weakref.ref(executor._calls), weakref.ref(executor)
    del executor
    gc.collect()
    assert known() is None
    gate.open()
    assert future.result() == 7
    del future
    api.until(lambda _: all(job.state.final for job in api.sessions))
    for thread in threading.enumerate():
        if thread.name == "jupyter-slurm executor":
            thread.join(60)
    gc.collect()
    assert calls() is None


def test_executor_cannot_be_pickled_into_a_job(any_executor: Executor) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(any_executor)
