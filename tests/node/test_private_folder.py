"""Private folders of labs and kernels on a node."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
# On the node, these modules import each other by bare names.
import private_folder  # noqa: E402

sys.path[:] = [path for path in sys.path if path != NODE]

PREFIX = "jslurm-test-"


@pytest.fixture
def locks() -> Iterator[list[int]]:
    held: list[int] = []
    yield held
    for lock in held:
        os.close(lock)


def made(locks: list[int]) -> Path:
    path, lock = private_folder.make(PREFIX, 1000)
    locks.append(lock)
    return Path(path)


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_unused_folders_are_removed(parent: Path, locks: list[int]) -> None:
    first = made(locks)
    (parent / f"{PREFIX}left" / "runtime").mkdir(parents=True)
    (parent / "jslurm-other-left").mkdir()
    (parent / f"{PREFIX}link").symlink_to(first)
    second = made(locks)
    assert {path.name for path in parent.iterdir()} == {
        *(first.name, second.name),
        *("jslurm-other-left", f"{PREFIX}link"),
    }
    assert first.stat().st_mode & 0o777 == 0o700
