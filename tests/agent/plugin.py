"""A home of a test's own for an agent, with every process in it gone at the end: `agent_home`."""

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
    """Nothing runs in it yet."""
    with new_home(monkeypatch) as home:
        yield home


@contextmanager
def new_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentHome]:
    """A home for as long as its user wants, which may be for many tests."""
    # Not tmp_path: a socket's path must be short.
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
