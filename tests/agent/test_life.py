"""When an agent ends, and what it uses while nobody asks it anything."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from mmap import PAGESIZE, mmap
from pathlib import Path

import pytest

from jupyter_slurm.agent.app import IDLE_VARIABLE, idle_s, memory_mib
from jupyter_slurm.errors import AgentError, ConfigError
from jupyter_slurm.wire import CellSpec
from tests.agent.home import PATIENCE_S, AgentHome, ended
from tests.agent.memory_agent import LIVE_VARIABLE
from tests.ssh.waiting import wait_until


def test_an_idle_agent_ends_and_leaves_no_socket(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "0.5")
    with ended(agent_home.client().status().pid) as wait:
        assert wait(PATIENCE_S)
    assert not agent_home.socket.exists()
    assert "agent ends: idle" in agent_home.log.read_text()


def test_an_agent_with_a_live_job_is_not_idle(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "0.1")
    monkeypatch.setenv(LIVE_VARIABLE, "1")
    with ended(agent_home.client().status().pid) as wait:
        assert not wait(1.0)


def test_an_agent_with_a_request_under_way_is_not_idle(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "0.2")
    gate = agent_home.folder / "gate"
    spec = CellSpec(id="abcdefgh", name="cell", code="", options={"gate": str(gate)})
    with ThreadPoolExecutor() as pool:
        submission = pool.submit(agent_home.client().submit, spec)
        wait_until(gate.exists)
        with ended(agent_home.pid()) as wait:
            assert not wait(1.0)
        gate.with_suffix(".open").touch()
        assert submission.result().id == spec.id


@pytest.mark.parametrize(
    "harm",
    [
        lambda home: home.socket.unlink(),
        lambda home: home.lock.rename(home.folder / "lock"),
        lambda home: shutil.rmtree(home.socket.parent),
    ],
    ids=["socket", "lock", "folder"],
)
def test_an_agent_that_cannot_be_found_any_more_ends(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch, harm: Callable[[AgentHome], object]
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "0.2")  # the lock is looked at as often
    monkeypatch.setenv(LIVE_VARIABLE, "1")
    with ended(agent_home.client().status().pid) as wait:
        harm(agent_home)
        assert wait(PATIENCE_S)
    assert "socket or lock was removed" in agent_home.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_agent_in_order(agent_home: AgentHome, number: signal.Signals) -> None:
    agent_home.client().check()
    agent_home.kill(number)
    assert not agent_home.socket.exists()
    assert agent_home.log.read_text().rstrip().endswith("agent has ended")


def test_the_log_is_for_its_owner_alone(agent_home: AgentHome) -> None:
    agent_home.client().check()
    assert stat.S_IMODE(agent_home.log.stat().st_mode) == 0o600
    assert stat.S_IMODE(agent_home.log.parent.stat().st_mode) == 0o700


def test_an_idle_agent_sleeps(agent_home: AgentHome) -> None:
    pid = agent_home.client().status().pid
    agent_home.client().status()  # its threads are there now
    wait_until(lambda: _rests(pid))
    before = _switches(pid)
    with ended(pid) as wait:
        assert not wait(2.0)
    assert _switches(pid) - before <= 4, "it wakes up while nobody asks anything"


def test_status_is_that_of_the_process(agent_home: AgentHome) -> None:
    status = agent_home.client().status()
    assert status.pid == agent_home.agent_pid()
    assert status.log == str(agent_home.log)
    assert status.clients == 1
    assert status.commands == {"here squeue": 3}
    assert 5 < status.memory_mib < 100
    assert 0 < status.cpu_s < 60


def test_the_agent_gets_no_tokens_and_nothing_of_one_notebook(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN", "JPY_SESSION_NAME", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "unwanted")
    pid = agent_home.client().status().pid
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"unwanted" not in environment
    assert os.fsencode(f"JUPYTER_DATA_DIR={agent_home.folder}") in environment


@pytest.mark.parametrize(("text", "seconds"), [(None, 1200.0), ("", 1200.0), ("7.5", 7.5)])
def test_idle_time_is_given_in_seconds(text: str | None, seconds: float) -> None:
    assert idle_s(text) == seconds


@pytest.mark.parametrize("text", ["20m", "0", "-1", "nan", "inf"])
def test_an_idle_time_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=IDLE_VARIABLE):
        idle_s(text)


def test_an_agent_that_fails_at_the_last_moment_leaves_no_process(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "soon")
    with pytest.raises(AgentError, match=f"{IDLE_VARIABLE} is 'soon'"):
        agent_home.client().check()
    assert agent_home.agent_pid() is None


def test_memory_is_that_of_this_process() -> None:
    before = memory_mib()
    # Not of the heap: what was freed there is handed out again, and counted already.
    with mmap(-1, 64 * 2**20) as block:
        block[::PAGESIZE] = b"1" * (len(block) // PAGESIZE)
        assert memory_mib() - before > 32


def _rests(pid: int) -> bool:
    """Tell whether it is done with what it was asked."""
    before = _switches(pid)
    time.sleep(0.5)
    return _switches(pid) == before


def _switches(pid: int) -> int:
    """How often any thread of the process went to sleep of its own accord: once a wake-up."""
    lines: list[str] = []
    for file in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
            lines += file.read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))
