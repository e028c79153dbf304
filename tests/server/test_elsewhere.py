"""A notebook that is open in this server and in a lab: told here, and noted for the lab."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.server import elsewhere
from jupyter_slurm.wire import new_id
from tests.server.served import Served


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> elsewhere.Notes:
    monkeypatch.setenv("HOME", str(tmp_path))
    return elsewhere.Notes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the first lab makes it."""
    path = tmp_path / ".jupyter-slurm" / "notebooks"
    path.mkdir(parents=True)
    return path


def put(folder: Path, name: str, told: Any) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(told))
    return path


def test_where_no_lab_ever_was_nothing_is_written(notes: elsewhere.Notes, tmp_path: Path) -> None:
    assert notes.elsewhere("~", ["a.ipynb"]).notebooks == {}
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_of_a_lab_is_told_by_its_path_here_and_noted_for_the_lab(
    notes: elsewhere.Notes, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    put(folder, "abcdefgh", {"who": "fit on n1", "files": [f"{tmp_path}/mine/a.ipynb"]})
    told = notes.elsewhere("~", ["link/a.ipynb", "b.ipynb"])
    assert told.notebooks == {"link/a.ipynb": ["fit on n1"]}
    [own] = [path for path in folder.iterdir() if path.name != "abcdefgh.json"]
    assert own.stat().st_mode & 0o777 == 0o600
    noted = json.loads(own.read_text())
    assert sorted(noted["files"]) == [f"{tmp_path}/b.ipynb", f"{tmp_path}/mine/a.ipynb"]
    assert noted["who"].startswith("JupyterLab on ")
    assert notes.elsewhere("~", []).notebooks == {}
    assert not own.exists()


def test_the_note_of_a_lab_that_was_killed_or_that_cannot_be_read_does_not_count(
    notes: elsewhere.Notes, folder: Path, tmp_path: Path
) -> None:
    killed = put(folder, "abcdefgh", {"who": "fit on n1", "files": [f"{tmp_path}/a.ipynb"]})
    old_s = killed.stat().st_mtime - 200
    os.utime(killed, (old_s, old_s))
    put(folder, "bbbbbbbb", [])
    put(folder, "cccccccc", {"who": "x", "files": 7})
    assert notes.elsewhere("~", ["a.ipynb"]).notebooks == {}


def test_a_server_tells_of_the_notebooks_that_it_has_open(served: Served) -> None:
    client = served.client()
    folder = Path("~/.jupyter-slurm/notebooks").expanduser()  # all servers of tests have this one
    folder.mkdir(parents=True, exist_ok=True)
    file = os.path.realpath(served.folder / "a.ipynb")
    note = put(folder, new_id(), {"who": "fit on n1", "files": [file]})
    assert client.call("elsewhere") == {"notebooks": {}}
    auth = {"Authorization": f"token {served.token}"}
    asked = {"path": "a.ipynb", "type": "notebook", "name": "", "kernel": {"name": "python3"}}
    kernel_id = json.loads(client.post("api/sessions", asked, **auth).body)["kernel"]["id"]
    try:
        assert client.call("elsewhere") == {"notebooks": {"a.ipynb": ["fit on n1"]}}
    finally:
        note.unlink()
        client.ask("DELETE", f"api/kernels/{kernel_id}", None, **auth)
