"""pyxis and enroot for tests: stand-ins on their own PATH; see `enroot_standin.py`."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest

from tests.cluster.enroot_standin import locked
from tests.cluster.registry import Registry

_STAND_IN = Path(__file__).with_name("enroot_standin.py")


@dataclass(frozen=True)
class EnrootStandIn:
    folder: Path

    @property
    def programs(self) -> Path:
        """The folder that has `srun` and `enroot`."""
        return self.folder / "bin"

    @property
    def setup(self) -> str:
        """The `setup` of a profile for nodes with these tools."""
        return f"export PATH={shlex.quote(str(self.programs))}:$PATH"

    def containers(self) -> list[str]:
        return [path.name for path in (self.folder / "data").iterdir()]

    def run(self, *words: str) -> str:
        """Run `enroot` as the user would on a node, and return its output."""
        argv = [str(self.programs / "enroot"), *words]
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout

    def publish(self, name: str, image: Path) -> None:
        """Publish an image as `name`: `ubuntu:20.04`, `nvcr.io#nvidia/x:1`."""
        (self.folder / "registry" / name.replace("/", "%")).symlink_to(image)

    def reach(self, name: str, registry: Registry) -> None:
        """Use a real registry for image names that begin with `name#`."""
        (self.folder / f"registry/{name}.address").write_text(registry.address)


def squashed(image: Path, path: Path) -> Path:
    words = ["mksquashfs", str(image), str(path), "-quiet", "-no-progress", "-noI", "-noD", "-noF"]
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    return path


@pytest.fixture(scope="session")
def lean_squash_image(lean_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with only a shell and Python. A container is a copy of its image, and this image is
    copied quickly."""
    return squashed(lean_image, tmp_path_factory.mktemp("squash") / "lean.sqsh")


@pytest.fixture(scope="session")
def small_image(shell_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image without Python, which unpacks quickly."""
    return squashed(shell_image, tmp_path_factory.mktemp("squash") / "small.sqsh")


def _remove_what_has_ended(folder: Path, until: Event) -> None:
    """Do the work of pyxis in slurmstepd. A process of the step cannot do this work, since it ends
    with the step."""
    while not until.wait(0.1):
        for tasks in (folder / "tasks").iterdir():
            with locked(folder, tasks.name):
                if not any(psutil.pid_exists(int(pid)) for pid in tasks.read_text().split()):
                    place = folder / "data" / tasks.name
                    shutil.rmtree(place, ignore_errors=True)  # its children may still write
                    if not place.exists():
                        tasks.unlink()


@contextmanager
def standing_in(folder: Path, python: str = sys.executable) -> Iterator[EnrootStandIn]:
    """Install the stand-ins in `folder`. `python` runs them."""
    for name in ("bin", "cache", "data", "locks", "registry", "tasks"):
        (folder / name).mkdir(parents=True)
    for name in ("cache", "data", "locks", "tasks"):
        (folder / name).chmod(0o1777)
    real = shutil.which("srun")
    assert real is not None
    (folder / "srun").symlink_to(real)
    script = shutil.copy(_STAND_IN, folder)
    for name in ("srun", "enroot"):
        program = folder / "bin" / name
        words = shlex.join([python, "-IS", str(script), str(folder), name])
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(0o755)
    over = Event()
    slurmstepd = Thread(target=_remove_what_has_ended, args=(folder, over))
    slurmstepd.start()
    try:
        yield EnrootStandIn(folder)
    finally:
        over.set()
        slurmstepd.join()


@pytest.fixture
def enroot_standin(tmp_path: Path) -> Iterator[EnrootStandIn]:
    with standing_in(tmp_path / "enroot") as standin:
        yield standin
