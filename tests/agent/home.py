"""An agent in a test's own home; `plugin.py` defines the fixture."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jupyter_slurm.client import AgentClient

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


@dataclass(frozen=True)
class AgentHome:
    """The home of a test's agent. This process's environment points to this home."""

    folder: Path
    socket: Path
    log: Path
    command: tuple[str, ...]

    @property
    def lock(self) -> Path:
        return self.socket.with_name("agent.lock")

    def client(self) -> AgentClient:
        """Return a client, which starts the memory agent if none runs."""
        return AgentClient(self.socket, self.command)

    def agent_pid(self) -> int | None:
        """Return the process ID of the agent that holds the lock. Return None if no agent
        runs."""
        while True:
            try:
                with self.lock.open("r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except FileNotFoundError:
                return None
            except BlockingIOError:
                told = self.lock.read_text().strip()
                # Before the agent writes its ID, the file is empty or contains the last agent's ID.
                if told and Path("/proc", told).exists():
                    return int(told)
                time.sleep(0.01)
            else:
                return None

    def pid(self) -> int:
        pid = self.agent_pid()
        assert pid is not None, "no agent runs"
        return pid

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Send the agent a signal, wait for its end, and return its process ID."""
        pid = self.pid()
        with ended(pid) as wait:
            os.kill(pid, number)
            assert wait(PATIENCE_S), f"agent {pid} still runs after {number.name}"
        return pid

    def python(self, code: str) -> subprocess.Popen[str]:
        """Start a program that has `client`, an AgentClient of this home."""
        setup = (
            "import sys\nfrom pathlib import Path\nfrom jupyter_slurm.client import AgentClient\n"
            f"client = AgentClient(Path({str(self.socket)!r}), {self.command!r})\n"
        )
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", setup + code],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )


class ended:
    """Context with a function `wait(timeout_s)` that returns whether process `pid` has ended."""

    def __init__(self, pid: int) -> None:
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:  # it has already ended
            self._fd = -1

    def __enter__(self) -> Callable[[float], bool]:
        return lambda timeout_s: (
            self._fd < 0 or bool(select.select([self._fd], [], [], timeout_s)[0])
        )

    def __exit__(self, *error: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
