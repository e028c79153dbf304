"""What the page of a lab says of its job, and of notebooks that are open in another lab too."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyterlab_server.config import get_federated_extensions

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
# There they find each other by their bare names.
import lab_notebooks  # noqa: E402
import lab_page  # noqa: E402

sys.path[:] = [path for path in sys.path if path != NODE]

Make = Callable[..., lab_page.Page]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Two labs may have the same home; each has a folder of its job's and one on its node."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def made(job_id: str, name: str = "fit", node: str = "n1") -> lab_page.Page:
        monkeypatch.setenv("SLURMD_NODENAME", node)
        folder, private = tmp_path / job_id, tmp_path / f"private-{job_id}"
        folder.mkdir()
        (folder / "started.0.json").write_text('{"slurm_id": "7", "time_s": 1000}')
        task = {"id": job_id, "name": name, "gpus": 2}
        page = lab_page.Page(str(private), str(folder), "0", task)
        page.write()
        return page

    return made


def facts(page: lab_page.Page) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path(page.static, "facts.json").read_text())
    return told


def session(path: str, kind: str = "notebook") -> dict[str, str]:
    return {"path": path, "type": kind}


def test_the_page_says_which_job_it_is_and_when_that_ends_once_the_agent_has_told(
    make: Make, tmp_path: Path
) -> None:
    page = make("abcdefgh", "fit · it's $2", "n7")
    assert page.title == "fit · it's $2 · n7 · JupyterLab"
    known = {"id": "abcdefgh", "name": "fit · it's $2", "node": "n7", "gpus": 2, "elsewhere": {}}
    assert facts(page) == {**known, "end_s": None}
    for limit_s in (3600, 7200):
        (tmp_path / "abcdefgh" / "limit").write_text(f"{limit_s}\n")
        page.renew(None)
        assert facts(page) == {**known, "end_s": 1000 + limit_s}


def test_jupyterlab_finds_the_extension_where_it_is_told_to_look(make: Make) -> None:
    page = make("abcdefgh")
    found = get_federated_extensions([page.extensions])[lab_page.NAME]
    build = found["jupyterlab"]["_build"]
    script = Path(found["ext_path"], build["load"])
    assert script.read_bytes() == Path(NODE, lab_page.SCRIPT).read_bytes()


def test_a_notebook_that_two_labs_have_open_is_told_in_both_until_one_has_closed_it(
    make: Make,
) -> None:
    one, other = make("aaaaaaaa"), make("bbbbbbbb", "train", "n2")
    one.renew([session("a.ipynb"), session("only.ipynb"), session("b.py", "console")])
    assert facts(one)["elsewhere"] == {}
    other.renew([session("../" + Path.cwd().name + "/a.ipynb"), session("b.py", "console")])
    [who] = facts(other)["elsewhere"].values()
    assert who == ["fit on n1"]
    one.renew([session("a.ipynb")])
    assert facts(one)["elsewhere"] == {"a.ipynb": ["train on n2"]}
    other.notes.remove()
    one.renew(None)  # its server does not answer just now
    assert facts(one)["elsewhere"] == {"a.ipynb": ["train on n2"]}
    one.renew([session("a.ipynb")])
    assert facts(one)["elsewhere"] == {}
    one.renew([])
    assert not list(Path(lab_notebooks.FOLDER).expanduser().iterdir())


def test_the_note_of_a_lab_that_was_killed_or_that_cannot_be_read_does_not_count(
    make: Make,
) -> None:
    one, killed, broken = make("aaaaaaaa"), make("bbbbbbbb"), make("cccccccc")
    for page in (killed, broken):
        page.renew([session("a.ipynb")])
    old_s = Path(killed.notes.path).stat().st_mtime - lab_notebooks.OLD_S - 1
    os.utime(killed.notes.path, (old_s, old_s))
    for text in ("[", "[]", '{"who": "x"}', '{"who": "x", "files": 7}'):
        Path(broken.notes.path).write_text(text)
        one.renew([session("a.ipynb")])
        assert facts(one)["elsewhere"] == {}
