"""Files that are not pushed: git's patterns, and their order of precedence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.transport.files.ignore import Exclusion, Patterns
from jupyter_slurm.transport.files.manifest import scan


@pytest.mark.parametrize(
    ("pattern", "name", "folder", "matched"),
    [
        ("*.pyc", b"a/b.pyc", False, True),
        ("/top", b"top", False, True),
        ("/top", b"a/top", False, None),
        ("data/", b"data", True, True),
        ("data/", b"data", False, None),
        ("results/**", b"results/a/b.png", False, True),
        ("!keep", b"keep", False, False),
        ("a b", b"x/a b", False, True),
        ("*.bin", b"\xff.bin", False, True),
        ("# comment", b"# comment", False, None),
    ],
)
def test_patterns_match_as_in_git(
    pattern: str, name: bytes, folder: bool, matched: bool | None
) -> None:
    assert Patterns([pattern]).match(name, folder=folder) is matched


def test_error_names_invalid_pattern() -> None:
    with pytest.raises(RequestError, match="'!' is not a pattern"):
        Patterns(["ok", "!"])


def test_caches_and_git_folder_are_excluded_by_default() -> None:
    assert Exclusion().leaves_out(b"a/__pycache__", folder=True)
    assert Exclusion().leaves_out(b".git", folder=True)
    assert not Exclusion().leaves_out(b".git", folder=False)
    assert not Exclusion(["!.git/"]).leaves_out(b".git", folder=True)


TREE = {
    ".gitignore": "*.log\n/build/\n!keep.log\n",
    "a.log": "",
    "keep.log": "",
    "build/x": "",
    "sub/build/x": "",
    "sub/.gitignore": "*.txt\n!*.log\n/only\n",
    "sub/b.txt": "",
    "sub/c.log": "",
    "sub/deep/d.txt": "",
    "sub/only": "",
    "other/only": "",
    "other/b.txt": "",
}


def test_nested_gitignores_match_git(tmp_path: Path) -> None:
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = scan(os.fsencode(tmp_path), Exclusion()).entries
    ours = {os.fsdecode(name) for name, entry in found.items() if entry.kind == "file"}
    assert ours == {
        ".gitignore",
        "keep.log",
        "sub/.gitignore",
        "sub/build/x",
        "sub/c.log",
        "other/only",
        "other/b.txt",
    }


def test_explicit_patterns_override_gitignore(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.bin\n")
    (tmp_path / "model.bin").write_text("")
    (tmp_path / "notes").write_text("")
    found = scan(os.fsencode(tmp_path), Exclusion(["!model.bin", "notes"])).entries
    assert set(found) == {b".gitignore", b"model.bin"}
