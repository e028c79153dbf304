"""Executors through the real agent on a real Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import as_completed
from pathlib import Path

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
    """What another Python prints, of the same user."""
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
def test_cancelled_and_killed_calls(tmp_path: Path, slurm_cluster: SlurmCluster) -> None:
    started = tmp_path / "started"

    def waiting() -> None:
        import time  # noqa: PLC0415 - runs on the node

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
def test_leaving_python_waits_for_calls_and_ends_sessions(tmp_path: Path, warm: bool) -> None:
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
def test_killed_agent_loses_no_call_and_runs_none_twice(
    home: AgentHome, tmp_path: Path, warm: bool
) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"

    def passing(number: int) -> int:
        import time  # noqa: PLC0415 - runs on the node

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
def test_session_that_ended_is_replaced(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    def node_job() -> str:
        return os.environ["SLURM_JOB_ID"]

    def waiting() -> None:
        import time  # noqa: PLC0415 - runs on the node

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
