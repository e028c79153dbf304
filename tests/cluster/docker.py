"""A real Docker of the tests' own: a daemon without a network, with the demo's image in it."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ssh.kept import clean_environment, keeping
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_REMOVE = """
awk -v folder="$1/" 'index($2, folder) == 1 { print $2 }' /proc/mounts |
  sort -r | xargs -r umount -l
rm -rf "$1"
"""
"""A daemon that was killed has not undone its mounts."""


@dataclass(frozen=True)
class DockerEngine:
    socket: Path
    image: str
    """Python, NumPy, Matplotlib and tqdm, under a name of no registry."""

    @property
    def env(self) -> dict[str, str]:
        return {"DOCKER_HOST": f"unix://{self.socket}"}

    @property
    def setup(self) -> str:
        """The same for a job, as the `setup` of a profile."""
        return "".join(f"export {name}={shlex.quote(text)}\n" for name, text in self.env.items())

    def run(self, *words: str) -> str:
        done = subprocess.run(
            ["docker", *words],
            env=os.environ | self.env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=_PATIENCE_S,
        )
        return done.stdout

    def containers(self) -> list[str]:
        """What is there of containers, running or not."""
        return self.run("ps", "--all", "--format", "{{.Names}}").split()


@pytest.fixture(scope="module")
def docker_engine(demo_image: Path) -> Iterator[DockerEngine]:
    if os.geteuid() != 0:
        pytest.skip("Only root can run a Docker daemon.")
    with docker_running(demo_image) as engine:
        yield engine


@contextmanager
def docker_running(image: Path) -> Iterator[DockerEngine]:
    """A daemon with that folder as its image; nothing is left of it."""
    with keeping() as keeper:
        # Not below pytest's own folder: a socket's path must be short.
        folder = Path(tempfile.mkdtemp(prefix="docker-"))
        keeper.at_end("sh", "-c", _REMOVE, "sh", str(folder))
        engine = DockerEngine(folder / "socket", "demo:1")
        keeper.start(
            [
                "dockerd",
                f"--data-root={folder}/data",
                f"--exec-root={folder}/exec",
                f"--pidfile={folder}/pid",
                f"--host=unix://{engine.socket}",
                "--iptables=false",
                "--bridge=none",
            ],
            folder / "log",
            clean_environment(),
        )
        wait_until(engine.socket.exists, _PATIENCE_S)
        with subprocess.Popen(["tar", "-C", image, "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(
                ["docker", "import", "-", engine.image],
                env=os.environ | engine.env,
                stdin=tar.stdout,
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=_PATIENCE_S,
            )
        assert tar.returncode == 0
        yield engine
