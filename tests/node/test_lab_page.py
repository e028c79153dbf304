"""What the page of a lab says of its job."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyterlab_server.config import get_federated_extensions

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
# There they find each other by their bare names.
import lab_page  # noqa: E402

sys.path[:] = [path for path in sys.path if path != NODE]

Make = Callable[..., lab_page.Page]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
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


def test_the_page_says_which_job_it_is_and_when_that_ends_once_the_agent_has_told(
    make: Make, tmp_path: Path
) -> None:
    page = make("abcdefgh", "fit · it's $2", "n7")
    assert page.title == "fit · it's $2 · n7 · JupyterLab"
    known = {"id": "abcdefgh", "name": "fit · it's $2", "node": "n7", "gpus": 2}
    assert facts(page) == {**known, "end_s": None}
    for limit_s in (3600, 7200):
        (tmp_path / "abcdefgh" / "limit").write_text(f"{limit_s}\n")
        page.renew()
        assert facts(page) == {**known, "end_s": 1000 + limit_s}


def test_jupyterlab_finds_the_extension_where_it_is_told_to_look(make: Make) -> None:
    page = make("abcdefgh")
    found = get_federated_extensions([page.extensions])[lab_page.NAME]
    build = found["jupyterlab"]["_build"]
    script = Path(found["ext_path"], build["load"])
    assert script.read_bytes() == Path(NODE, lab_page.SCRIPT).read_bytes()
