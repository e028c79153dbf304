"""A real Docker for the tests: a daemon without a network, with a small image."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.started import started
from tests.ssh.kept import Keeper, clean_environment, keeping
from tests.ssh.waiting import wait_until

_PATIENCE_S = 240.0
_REMOVE = """
awk -v folder="$1" '$2 == folder || index($2, folder "/") == 1 { print $2 }' /proc/mounts |
  sort -r | xargs -r umount -l
rm -rf "$1"
"""
"""Script that unmounts file systems of a killed daemon and removes its folder."""


@dataclass(frozen=True)
class DockerEngine:
    folder: Path
    image: str = "demo:1"
    """An image with a shell and Python. It needs no registry."""

    @property
    def socket(self) -> Path:
        return self.folder / "socket"

    @property
    def env(self) -> dict[str, str]:
        """Environment of the client, with separate registry logins."""
        return {"DOCKER_HOST": f"unix://{self.socket}", "DOCKER_CONFIG": f"{self.folder}/config"}

    @property
    def setup(self) -> str:
        """The `setup` of a profile that exports `env`."""
        return "".join(f"export {name}={shlex.quote(text)}\n" for name, text in self.env.items())

    def run(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["docker", *words],
            env=os.environ | self.env,
            input=stdin,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=_PATIENCE_S,
        )
        return done.stdout

    def containers(self) -> list[str]:
        """Return all containers, running or not."""
        return self.run("ps", "--all", "--format", "{{.Names}}").split()

    def traces(self) -> list[str]:
        """Return the daemon's runtime files, which are in another folder below /run."""
        # `glob` would fail if a folder disappeared during the search.
        found = os.walk(self.folder / "exec")
        names = (name for _, folders, files in found for name in (*folders, *files))
        return [name for name in names if re.fullmatch("[0-9a-f]{64}", name)]

    def clear(self) -> None:
        """Remove everything but the initial image."""
        if containers := self.run("ps", "--all", "--quiet").split():
            self.run("rm", "--force", *containers)
        own = self.run("image", "inspect", "--format", "{{.Id}}", self.image).strip()
        listed = self.run("images", "--no-trunc", "--format", "{{.ID}} {{json .}}")
        images = [line.split(" ", 1) for line in listed.splitlines()]
        names = [json.loads(told) for image, told in images if image == own]
        tags = {f"{one['Repository']}:{one['Tag']}" for one in names} - {self.image}
        if tags:
            self.run("rmi", *tags)
        # Docker orders images that build on others, and keeps images that containers use.
        keeps = self.run("create", self.image, "true").strip()
        self.run("image", "prune", "--all", "--force")
        self.run("rm", keeps)
        if volumes := self.run("volume", "ls", "--quiet").split():
            self.run("volume", "rm", "--force", *volumes)
        shutil.rmtree(self.folder / "config", ignore_errors=True)

    def load(self, folder: Path, image: str, *options: str) -> None:
        """Create an image with the folder as its only layer."""
        with subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(
                ["docker", "import", *options, "-", image],
                env=os.environ | self.env,
                stdin=tar.stdout,
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=_PATIENCE_S,
            )
        assert tar.returncode == 0


@pytest.fixture(scope="session")
def docker_daemon(lean_image: Path) -> Iterator[DockerEngine]:
    if os.geteuid() != 0:
        pytest.skip("Only root can run a Docker daemon.")
    with ExitStack() as stack:
        begin = partial(docker_running, lean_image)
        yield started("A Docker daemon", lambda: stack.enter_context(begin()))


@pytest.fixture(scope="module")
def docker_engine(docker_daemon: DockerEngine) -> Iterator[DockerEngine]:
    """Yield the engine, and restore it after the module."""
    yield docker_daemon
    docker_daemon.clear()


@contextmanager
def docker_running(image: Path | None) -> Iterator[DockerEngine]:
    """Run a daemon that has the folder `image` as an image. At the end, remove all traces."""
    with keeping() as keeper:
        # Not below pytest's own folder, since a socket's path must be short.
        folder = Path(tempfile.mkdtemp(prefix="docker-"))
        keeper.at_end("sh", "-c", _REMOVE, "sh", str(folder))
        engine = DockerEngine(folder)
        _start(keeper, engine)
        if image is not None:
            engine.load(image, engine.image)
        yield engine


def _start(keeper: Keeper, engine: DockerEngine) -> None:
    keeper.start(
        [
            "dockerd",
            f"--data-root={engine.folder}/data",
            f"--exec-root={engine.folder}/exec",
            f"--pidfile={engine.folder}/pid",
            f"--host=unix://{engine.socket}",
            "--iptables=false",
            "--bridge=none",
        ],
        engine.folder / "log",
        clean_environment(),
    )
    wait_until(engine.socket.exists, _PATIENCE_S)
