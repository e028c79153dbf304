"""The end of an agent, and its status."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from pathlib import Path

import pytest

from jupyter_slurm.agent.app import IDLE_VARIABLE, idle_s
from jupyter_slurm.errors import ConfigError
from tests.agent.home import PATIENCE_S, AgentHome, ended
from tests.agent.memory_agent import LIVE_VARIABLE


def test_idle_agent_ends_and_removes_its_socket(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "0.5")
    with ended(agent_home.client().status().pid) as wait:
        assert wait(PATIENCE_S)
    assert not agent_home.socket.exists()
    assert "agent ends: idle" in agent_home.log.read_text()


def test_agent_with_a_live_job_keeps_running(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "0.1")
    monkeypatch.setenv(LIVE_VARIABLE, "1")
    with ended(agent_home.client().status().pid) as wait:
        assert not wait(1.0)


def test_agent_ends_when_its_socket_folder_is_removed(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "0.2")  # this is also the interval between checks of the lock
    monkeypatch.setenv(LIVE_VARIABLE, "1")
    with ended(agent_home.client().status().pid) as wait:
        shutil.rmtree(agent_home.socket.parent)
        assert wait(PATIENCE_S)
    assert "socket or lock was removed" in agent_home.log.read_text()


def test_sigterm_ends_the_agent_cleanly(agent_home: AgentHome) -> None:
    agent_home.client().check()
    agent_home.kill(signal.SIGTERM)
    assert not agent_home.socket.exists()
    assert agent_home.log.read_text().rstrip().endswith("agent has ended")


def test_agent_log_is_private(agent_home: AgentHome) -> None:
    agent_home.client().check()
    assert stat.S_IMODE(agent_home.log.stat().st_mode) == 0o600
    assert stat.S_IMODE(agent_home.log.parent.stat().st_mode) == 0o700


def test_status_describes_the_agent_process(agent_home: AgentHome) -> None:
    status = agent_home.client().status()
    assert status.pid == agent_home.agent_pid()
    assert status.log == str(agent_home.log)
    assert status.clients == 1
    assert status.commands == {"here squeue": 3}
    assert 5 < status.memory_mib < 100
    assert 0 < status.cpu_s < 60


def test_agent_process_does_not_contain_tokens_or_notebook_variables(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN", "JPY_SESSION_NAME", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "unwanted")
    pid = agent_home.client().status().pid
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"unwanted" not in environment
    assert os.fsencode(f"JUPYTER_DATA_DIR={agent_home.folder}") in environment


@pytest.mark.parametrize("text", ["20m", "0", "nan"])
def test_error_for_an_invalid_idle_time_names_the_variable(text: str) -> None:
    with pytest.raises(ConfigError, match=IDLE_VARIABLE):
        idle_s(text)
