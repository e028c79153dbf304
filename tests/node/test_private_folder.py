"""The folders that labs and kernels have on a node: what was left behind goes with the next."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
# There they find each other by their bare names.
import private_folder  # noqa: E402

sys.path[:] = [path for path in sys.path if path != NODE]

PREFIX = "jslurm-test-"


@pytest.fixture
def locks() -> Iterator[list[int]]:
    held: list[int] = []
    yield held
    for lock in held:
        os.close(lock)


def made(locks: list[int], longest_parent: int = 1000) -> Path:
    path, lock = private_folder.made(PREFIX, longest_parent)
    locks.append(lock)
    return Path(path)


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_what_is_left_behind_goes_and_what_is_used_or_of_others_stays(
    parent: Path, locks: list[int]
) -> None:
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


def test_a_long_way_to_temporary_files_is_not_taken(parent: Path, locks: list[int]) -> None:
    path = made(locks, len(str(parent)) - 1)
    assert path.parent == Path("/tmp")
    path.rmdir()


def test_one_that_another_takes_for_left_behind_as_it_is_made_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, locks: list[int]
) -> None:
    """What is seen when twenty kernels begin at once: it is gone before it could be locked."""
    make = tempfile.mkdtemp
    gone: list[str] = []

    def make_and_lose(prefix: str, dir: str) -> str:  # noqa: A002 - tempfile's own word
        path = make(prefix=prefix, dir=dir)
        if not gone:
            gone.append(path)
            private_folder.remove_unless_used(path)
        return path

    monkeypatch.setattr("tempfile.mkdtemp", make_and_lose)
    path = made(locks)
    assert path.is_dir()
    assert str(path) not in gone
