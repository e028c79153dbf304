"""Single files of a cluster, over SSH and through the agent."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from jupyter_slurm.api import Api
from jupyter_slurm.errors import FileAccessError, NotFoundError, RequestError
from jupyter_slurm.jobs.cluster.files import MOST_BYTES

HARD = "ü 'x' \"$HOME\" \\ `id`\n-rf *"
"""A name that arrives unchanged only if no program interprets it."""


def names(api: Api, folder: Path) -> set[str]:
    return {one.name for one in api.list_folder(str(folder), "local").entries}


def test_files_with_any_name_are_created_read_renamed_and_removed(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / f"in {HARD}"
    made = api.make_folder(str(folder), "local")
    assert (made.name, made.kind, made.writable) == (folder.name, "folder", True)
    path = folder / f"-{HARD}\n"
    content = bytes(range(256)) * 5000
    entry = api.write_file(str(path), content, "local")
    assert (entry.name, entry.kind, entry.size_bytes) == (path.name, "file", len(content))
    assert entry.modified_s == pytest.approx(path.stat().st_mtime, abs=0.001)
    assert path.read_bytes() == content
    mode = stat.S_IMODE(path.stat().st_mode)
    assert mode & 0o700 == 0o600
    assert not mode & 0o133, "more than the user's umask allows"
    assert api.read_file(str(path), "local").content == content
    to = folder / "-n"
    assert api.rename_file(str(path), str(to), "local").name == "-n"
    assert names(api, folder) == {"-n"}
    with pytest.raises(FileAccessError):
        api.remove_file(str(folder), "local")
    api.remove_file(str(to), "local")
    assert api.list_folder(str(folder), "local").entries == ()
    api.remove_file(str(folder), "local")
    assert not folder.exists()


def test_write_replaces_the_target_of_a_link_and_keeps_its_mode(api: Api, tmp_path: Path) -> None:
    target = tmp_path / "run.sh"
    target.write_text("old")
    target.chmod(0o750)
    link = tmp_path / "link"
    link.symlink_to("run.sh")
    reader = target.open()
    assert api.write_file(str(link), b"new", "local").size_bytes == 3
    with reader:
        assert reader.read() == "old", "the file was changed in place"
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o750
    assert names(api, tmp_path) >= {"run.sh", "link"}
    assert not [name for name in names(api, tmp_path) if name.startswith(".jupyter-slurm")]


def test_rename_and_create_do_not_overwrite_files(api: Api, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").symlink_to("nowhere")
    with pytest.raises(RequestError, match="already exists"):
        api.rename_file(str(tmp_path / "a"), str(tmp_path / "b"), "local")
    assert (tmp_path / "b").is_symlink()
    with pytest.raises(FileAccessError):
        api.make_folder(str(tmp_path / "a"), "local")
    with pytest.raises(FileAccessError):
        api.write_file(str(tmp_path), b"", "local")


def test_missing_and_special_files_are_errors(api: Api, tmp_path: Path) -> None:
    nowhere, pipe = tmp_path / "no" / "where", tmp_path / "pipe"
    os.mkfifo(pipe)
    for ask in (api.list_folder, api.file_entry, api.read_file):
        with pytest.raises(NotFoundError, match="no/where"):
            ask(str(nowhere), "local")
    with pytest.raises(NotFoundError):
        api.make_folder(str(nowhere), "local")
    with pytest.raises(NotFoundError):
        api.write_file(str(nowhere), b"x", "local")
    with pytest.raises(NotFoundError):
        api.rename_file(str(nowhere), str(tmp_path / "x"), "local")
    for ask in (api.list_folder, api.read_file):
        with pytest.raises(RequestError, match="not a f"):
            ask(str(pipe), "local")
    (tmp_path / "broken").symlink_to("nowhere")
    listed = api.list_folder(str(tmp_path), "local")
    kinds = {one.name: one.kind for one in listed.entries}
    assert (kinds["broken"], kinds["pipe"], listed.folder.kind) == ("other", "other", "folder")
    for path in ("", "etc/passwd", "~/x", "/a/../b", "/a\0b"):
        with pytest.raises(RequestError, match="absolute"):
            api.read_file(path, "local")


def test_too_large_file_is_rejected_before_the_transfer(api: Api, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(RequestError, match="larger than 40 MB"):
        api.read_file(str(large), "local")
    with pytest.raises(RequestError, match="larger than 40 MB"):
        api.write_file(str(large), bytes(MOST_BYTES + 1), "local")
