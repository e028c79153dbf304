"""The lock and socket of the single agent, including their removal."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_slurm.agent.instance_lock import InstanceLock, take
from jupyter_slurm.errors import AgentError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("agent.sock")  # a socket's path must be shorter than a test's folder


@pytest.fixture
def lock(path: Path) -> Iterator[InstanceLock]:
    taken = take(path, 0.0)
    assert taken is not None
    with taken.listen():
        yield taken
    os.close(taken.lock_fd)


def test_second_agent_does_not_take_the_lock_of_a_responding_agent(
    lock: InstanceLock, path: Path
) -> None:
    assert take(path, 60.0) is None


def test_error_names_process_id_of_a_silent_agent(path: Path) -> None:
    taken = take(path, 0.0)
    assert taken is not None
    pid = Path("agent.lock").read_text().strip()
    with pytest.raises(AgentError, match=f"kill {pid}"):
        take(path, 0.0)
    os.close(taken.lock_fd)


def test_socket_and_lock_are_private(lock: InstanceLock, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("agent.lock").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "harm",
    [
        lambda: Path("agent.sock").unlink(),
        lambda: Path("agent.lock").unlink(),
        lambda: (Path("other").write_text(""), Path("other").rename("agent.sock")),
    ],
    ids=["no socket", "no lock", "another socket"],
)
def test_agent_loses_the_lock_when_socket_or_lock_file_is_removed(
    lock: InstanceLock, harm: Callable[[], object]
) -> None:
    assert lock.still_ours()
    harm()
    assert not lock.still_ours()


def test_exiting_agent_removes_its_socket(lock: InstanceLock, path: Path) -> None:
    lock.leave()
    assert not path.exists()
    assert not lock.still_ours()
