"""The fixture `agent_home`: a test's own home for an agent, whose processes end with the test."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_slurm import places
from tests.agent.home import AgentHome
from tests.agent.memory_agent import SCRIPT


@pytest.fixture
def agent_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentHome]:
    """Return a home without an agent."""
    with new_home(monkeypatch) as home:
        yield home


@contextmanager
def new_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentHome]:
    """Yield a home for any scope."""
    # Not tmp_path, since a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="agent-"))
    for name in ("DATA", "RUNTIME", "CONFIG"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(folder / name.lower()))
    monkeypatch.delenv("JUPYTER_SLURM_AGENT", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    home = AgentHome(
        folder=folder,
        socket=places.runtime_dir() / "agent.sock",
        log=places.data_dir() / "agent.log",
        command=(sys.executable, str(SCRIPT)),
    )
    try:
        yield home
    finally:
        if home.agent_pid() is not None:
            home.kill()
        shutil.rmtree(folder)
