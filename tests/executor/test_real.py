"""Executors through the real agent on a real Slurm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jupyter_slurm as js
from jupyter_slurm import executor
from jupyter_slurm.client import connect
from jupyter_slurm.errors import CellFailed
from jupyter_slurm.wire import JobKind, JobState
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until


@pytest.fixture
def home(
    agent_home: AgentHome, slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AgentHome]:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", slurm_cluster.env["JUPYTER_CONFIG_DIR"])
    executor._calls_of_others.cache_clear()
    yield agent_home
    api = connect()
    for job in api.jobs():
        if not job.state.final:
            api.cancel(job.id)
    wait_until(lambda: all(job.state.final for job in api.jobs()), 60)
    executor._calls_of_others.cache_clear()


def python(code: str, *arguments: str) -> str:
    """Return what another Python of the same user prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("warm", [False, True])
def test_calls_run_on_nodes(warm: bool) -> None:
    def fitted(values: np.ndarray, power: int) -> tuple[float, str]:
        return float((values**power).sum()), os.environ["SLURM_JOB_ID"]

    def failing(number: int) -> float:
        print("so far")
        return 1 / number

    with js.Executor(warm=warm, runtime="none", time="5m", max_workers=2) as pool:
        values = np.arange(4.0)
        fits = [pool.submit(fitted, values, power=power) for power in (1, 2)]
        assert {*as_completed(fits)} == {*fits}
        assert [one.result()[0] for one in fits] == [6.0, 14.0]
        assert all(one.result()[1].isdecimal() for one in fits)
        failed = pool.submit(failing, 0)
        with pytest.raises(ZeroDivisionError) as raised:
            failed.result()
        assert "failing" in str(raised.value.__cause__)
        assert failed.job.state is JobState.FAILED
        assert "so far" in failed.job.output
        assert [*pool.map(pow, range(5), range(5), chunksize=2)] == [1, 1, 4, 27, 256]
    found = "import jupyter_slurm as js, sys; print(js.future(sys.argv[1]).result()[0])"
    assert python(found, fits[1].id) == "14.0\n"
    again = js.future(failed.id).exception()
    assert isinstance(again, ZeroDivisionError)
    api = connect()
    wait_until(lambda: all(job.state.final for job in api.jobs()), 60)


@pytest.mark.usefixtures("home")
def test_held_call_is_cancelled_and_killed_call_raises(
    tmp_path: Path, slurm_cluster: SlurmCluster
) -> None:
    started = tmp_path / "started"

    def waiting() -> None:
        import time  # runs on the node

        started.touch()
        time.sleep(300)

    pool = js.Executor(runtime="none", max_workers=1, time="5m")
    held = js.Executor(runtime="none", hold=True).submit(pow, 2, 3)
    killed, queued = pool.submit(waiting), pool.submit(pow, 2, 3)
    assert held.cancel()
    assert held.job.wait(60).state is JobState.CANCELLED
    wait_until(lambda: started.exists() and killed.running(), 60)
    assert not killed.cancel()
    slurm_cluster.run("scancel", str(killed.job.slurm_id))
    error = killed.exception(60)
    assert isinstance(error, CellFailed)
    assert queued.result(60) == 8
    pool.shutdown()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("warm", [False, True])
def test_python_exits_after_its_calls_and_ends_sessions(tmp_path: Path, warm: bool) -> None:
    written = tmp_path / "written"
    code = f"""
import atexit

@atexit.register
def last():
    try:
        pool.submit(id, None)
    except RuntimeError as exc:
        print(exc)

import jupyter_slurm as js, sys, pathlib
pool = js.Executor(runtime="none", warm={warm})
future = pool.submit(pathlib.Path(sys.argv[1]).write_text, "apple")
future.add_done_callback(lambda one: print("done", one.result()))
"""
    told = "done 5\ncannot schedule new futures after shutdown\n"
    assert python(code, str(written)) == told
    assert written.read_text() == "apple"
    sessions = [job for job in connect().jobs() if job.kind is JobKind.SESSION]
    assert len(sessions) == int(warm)
    assert all(job.cancel_requested_s for job in sessions)


@pytest.mark.parametrize("warm", [False, True])
def test_killed_agent_does_not_lose_or_repeat_calls(
    home: AgentHome, tmp_path: Path, warm: bool
) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"

    def passing(number: int) -> int:
        import time  # runs on the node

        with log.open("a") as file:
            file.write(f"{number}\n")
        while not gate.exists():
            time.sleep(0.05)
        return number

    with js.Executor(warm=warm, runtime="none", max_workers=2, time="5m") as pool:
        calls = [pool.submit(passing, number) for number in range(5)]
        wait_until(lambda: calls[0].running() and calls[1].running(), 60)
        home.kill()
        gate.touch()
        assert [call.result(120) for call in calls] == [0, 1, 2, 3, 4]
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3", "4"]


@pytest.mark.usefixtures("home")
def test_map_submits_one_sweep_and_returns_its_results_in_order() -> None:
    def fitted(values: np.ndarray, name: str) -> tuple[float, str, str]:
        return float(values.sum()), name, os.environ["SLURM_ARRAY_TASK_COUNT"]

    names = ['it\'s "my" $HOME', "a\nb", "Grüße"]
    found = js.map(fitted, [np.arange(n) for n in (2, 3, 4)], names, runtime="none", time="5m")
    assert found == [(1.0, names[0], "3"), (3.0, names[1], "3"), (6.0, names[2], "3")]
    [job] = connect().jobs()
    assert (job.kind, job.delivered) == (JobKind.SWEEP, True)

    def failing(number: int) -> int:
        return 12 // number

    with pytest.raises(js.SweepError) as raised:
        js.map(failing, [1, 0, 6, 0], runtime="none", time="5m", max_workers=2)
    table: Any = raised.value.table
    assert [*table["state"]] == ["COMPLETED", "FAILED", "COMPLETED", "FAILED"]
    assert (table["result"][0], table["result"][2]) == (12, 2)
    told = "\n".join(raised.value.traceback)
    assert told.count("Tasks 1,3: ZeroDivisionError") == 1
    assert "number=0" in told


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("on_interrupt", [None, "cancel"])
def test_interrupted_map_detaches_or_cancels(tmp_path: Path, on_interrupt: str | None) -> None:
    gate, started = tmp_path / "gate", tmp_path / "started"
    code = f"""
import jupyter_slurm as js, pathlib, time
def waiting(number):
    pathlib.Path({str(started)!r}).touch()
    while not pathlib.Path({str(gate)!r}).exists():
        time.sleep(0.05)
    return number
js.map(waiting, [1, 2], runtime="none", time="5m", on_interrupt={on_interrupt!r})
"""
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True) as one:
        wait_until(started.exists, 60)
        one.send_signal(signal.SIGINT)
        told = one.communicate(timeout=60)[1]
    assert "KeyboardInterrupt" in told
    [job] = connect().jobs()
    assert (job.cancel_requested_s is None) is (on_interrupt is None)
    if on_interrupt is None:
        assert f"%slurm attach {job.id}" in told
        gate.touch()
        table: Any = js.connect().job(job.id).result(60)["results"]
        assert [*table["result"]] == [1, 2]


@pytest.mark.usefixtures("home")
def test_ended_session_is_replaced(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    def node_job() -> str:
        return os.environ["SLURM_JOB_ID"]

    def waiting() -> None:
        import time  # runs on the node

        (tmp_path / "started").touch()
        time.sleep(300)

    def sessions() -> list[JobState]:
        return [job.state for job in connect().jobs() if job.kind is JobKind.SESSION]

    with js.Executor(warm=True, runtime="none", time="5m", idle="1s") as pool:
        first = pool.submit(node_job).result()
        wait_until(lambda: sessions() == [JobState.COMPLETED], 60)
        second = pool.submit(node_job).result()
        assert second != first
        killed = pool.submit(waiting)
        wait_until((tmp_path / "started").exists, 60)
        slurm_cluster.run("scancel", second)
        assert isinstance(killed.exception(60), CellFailed)
        assert pool.submit(node_job).result() not in {first, second}
