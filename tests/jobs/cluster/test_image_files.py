"""The files sent with a recipe, and their digest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.jobs.cluster import image_files
from jupyter_slurm.jobs.cluster.image_files import files_in
from jupyter_slurm.transport.files.ignore import Exclusion
from jupyter_slurm.transport.files.manifest import scan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "the notebook's"
    for name in ("code/main.py", "code/lib/ünter.py", "a b.txt", "c.csv", "n [1].ipynb"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def pushed(folder: Path, notebook: str | None = None) -> set[str]:
    """Return the files that the job's push sends."""
    files = files_in(str(folder), notebook)
    found = scan(os.fsencode(files.folder), Exclusion(files.exclude))
    return {os.fsdecode(name) for name, one in found.entries.items() if one.kind == "file"}


def test_notebook_and_caches_are_not_pushed(folder: Path) -> None:
    for name in (".git/config", "code/__pycache__/main.pyc", ".ipynb_checkpoints/n.ipynb"):
        (folder / name).parent.mkdir()
        (folder / name).touch()
    everything = {"code/main.py", "code/lib/ünter.py", "a b.txt", "c.csv"}
    assert pushed(folder, str(folder / "n [1].ipynb")) == everything
    assert pushed(folder, "/elsewhere/n [1].ipynb") == {*everything, "n [1].ipynb"}


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("# so\n\n*.py\n*.csv\n", {"code/main.py", "code/lib/ünter.py", "a b.txt", "n [1].ipynb"}),
        ("**/*.py\n/c.csv\n./a b.txt\n", {"n [1].ipynb"}),
        ("code\n!code/lib\n", {"code/lib/ünter.py", "a b.txt", "c.csv", "n [1].ipynb"}),
        ("*\n!code/main.py\n", {"code/main.py"}),
        ("*\n!code/**\n!c.csv\n", {"code/main.py", "code/lib/ünter.py", "c.csv"}),
        ("n*\n!n*\ncode/lib/\n", {"code/main.py", "a b.txt", "c.csv", "n [1].ipynb"}),
    ],
)
def test_dockerignore_patterns_match_as_in_docker(folder: Path, lines: str, left: set[str]) -> None:
    (folder / ".dockerignore").write_text(lines)
    assert pushed(folder) - {".dockerignore"} == left


def test_digest_changes_with_every_file_but_the_notebook(folder: Path) -> None:
    def digest() -> str:
        return files_in(str(folder), str(folder / "n [1].ipynb")).digest

    digests = [digest()]
    (folder / "n [1].ipynb").write_text("saved again")
    assert digest() == digests[0]
    (folder / "c.csv").chmod(0o755)
    digests.append(digest())
    (folder / "c.csv").write_text("c,csv,")
    digests.append(digest())
    os.utime(folder / "c.csv", (1, 1))
    digests.append(digest())
    (folder / "empty").mkdir()
    digests.append(digest())
    (folder / "empty").rmdir()
    (folder / "empty").symlink_to("x")
    digests.append(digest())
    assert len(set(digests)) == 6


def test_unsuitable_folders_are_rejected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError):
        files_in(str(folder / "nowhere"), None)
    for wrong in (None, "relative"):
        with pytest.raises(RequestError):
            files_in(wrong, None)
    monkeypatch.setattr(image_files, "_MOST_BYTES", 20)
    with pytest.raises(RequestError, match="limit for an image is 20") as caught:
        files_in(str(folder), None)
    assert ".dockerignore" in str(caught.value.hint)
    monkeypatch.setenv("HOME", str(folder))
    with pytest.raises(RequestError, match="Cannot push all"):
        files_in(str(folder), None)
