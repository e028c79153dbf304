"""A real ssh-agent for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil

from tests.ssh.kept import Keeper
from tests.ssh.waiting import wait_until


class SshAgent:
    """Listens at `path`."""

    def __init__(self, keeper: Keeper, folder: Path) -> None:
        self.path = str(folder / "agent")
        self._keeper = keeper
        self._folder = folder
        self.pid = 0
        self.restart()

    def restart(self) -> None:
        """Another one, which holds no keys, at the same place."""
        if self.pid:
            psutil.Process(self.pid).kill()
        Path(self.path).unlink(missing_ok=True)
        argv = ["ssh-agent", "-D", "-a", self.path]
        self.pid = self._keeper.start(argv, self._folder / "agent.log")
        wait_until(lambda: self._add("-l").returncode != 2)

    def add(self, *keys: Path) -> None:
        for key in keys:
            done = self._add(str(key))
            assert done.returncode == 0, done.stderr

    def _add(self, word: str) -> subprocess.CompletedProcess[bytes]:
        env = {"SSH_AUTH_SOCK": self.path, "PATH": "/usr/bin:/bin"}
        return subprocess.run(["ssh-add", word], env=env, capture_output=True, check=False)
