"""Files of the server as jobs, and logs as files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from jupyter_slurm.commands.notebooks import MIME
from jupyter_slurm.errors import RequestError
from jupyter_slurm.server.files import Folders, LineWish, TextPages, executed, line_spec
from jupyter_slurm.wire import (
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    JobKind,
    JobState,
    LogChunk,
    Output,
    Show,
    Stream,
    SweepSpec,
)
from tests.server.test_events import job


class Logged:
    """An Api whose jobs have these pages of output."""

    def __init__(
        self, *pages: Sequence[Output], notebook: str | None = None, show: Show = "full"
    ) -> None:
        self._pages = pages
        self._notebook = notebook
        self._show: Show = show

    def job(self, job_id: str) -> Any:
        return SimpleNamespace(id=job_id, slurm_id="7", name="n", notebook=self._notebook)

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        budget_bytes: int | None = 0,
        task: int | None = None,
    ) -> LogChunk:
        assert budget_bytes is None, "output would be skipped"
        at = int(cursor or 0)
        outputs = tuple(self._pages[at]) if at < len(self._pages) else ()
        running = job(job_id, JobState.RUNNING, 1)
        return LogChunk(job=running, outputs=outputs, cursor=str(at + 1), show=self._show)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(FileContentsManager(root_dir=str(tmp_path)))


def test_log_text_has_output_and_errors_in_order() -> None:
    api: Any = Logged(
        [Stream(name="stdout", text="out "), Stream(name="stderr", text="err\udce9\n")],
        [ExecuteResult(data={"text/plain": "42"})],
        [ErrorOutput(ename="E", evalue="", traceback=("Traceback:", "  E"))],
    )
    pages = TextPages(api, "a")
    text = []
    while (page := pages.next()) is not None:
        text.append(page)
    assert b"".join(text) == b"out err?\nTraceback:\n  E\n"


def test_path_stays_in_the_root(folders: Folders, tmp_path: Path) -> None:
    assert folders.local("/a b//c.py") == tmp_path / "a b" / "c.py"
    with pytest.raises(RequestError):
        folders.local("a/../../b")


def test_requirements_beside_the_notebook_are_read_only_with_execute_permission(
    tmp_path: Path,
) -> None:
    contents = FileContentsManager(root_dir=str(tmp_path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "r.txt").write_text("polars\n")
    wish = LineWish(code="1", line="--requirements r.txt", notebook="a/n.ipynb")
    spec = line_spec(Logged(), Folders(contents), wish)  # type: ignore[arg-type]
    assert spec.environment is not None
    assert spec.environment.text == "polars\n"
    for line in ("--requirements r.txt", "--with-mine"):
        wish = LineWish(code="1", line=line, notebook="a/n.ipynb")
        with pytest.raises(HTTPError):
            line_spec(Logged(), Folders(contents, pushes=False), wish)  # type: ignore[arg-type]


def test_notebook_outside_the_root_does_not_get_an_executed_copy(folders: Folders) -> None:
    cell = {"cell_type": "code", "source": "1", "metadata": {}, "outputs": []}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    marker = DisplayData(data={MIME: {"notebook": notebook}})
    api: Any = Logged([ExecuteResult(data={})], notebook="/elsewhere/x.ipynb")
    with pytest.raises(RequestError):
        executed(api, folders, "a")
    api = Logged([marker], notebook="/elsewhere/x.ipynb")
    with pytest.raises(RequestError):
        executed(api, folders, "a")


def test_executed_copy_is_not_trusted_until_the_user_trusts_it(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a script in the copy would run when it is opened."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    cell = {
        "cell_type": "code",
        "id": "a",
        "source": "1",
        "metadata": {"trusted": True},
        "outputs": [],
        "execution_count": 1,
    }
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"widgets": {"application/vnd.jupyter.widget-state+json": {}}},
        "cells": [cell],
    }
    shown = DisplayData(data={"text/html": "<script>"})
    markers = [DisplayData(data={MIME: said}) for said in ({"notebook": notebook}, {"cell": 0})]
    api: Any = Logged([*markers, shown], notebook=str(tmp_path / "x.ipynb"))
    path, content = executed(api, folders, "a")
    asyncio.run(folders.save(path, content))
    found = folders.contents.get(path)["content"]
    assert "widgets" not in found["metadata"]
    (opened,) = found["cells"]
    assert opened["outputs"][0]["data"] == {"text/html": "<script>"}
    assert not opened["metadata"]["trusted"]
    api = Logged([*markers, shown], notebook=str(tmp_path / "x.ipynb"), show="text")
    _, content = executed(api, folders, "a")
    assert content["cells"][0]["outputs"][0]["data"] == {"text/plain": "<script>"}


def test_servers_environment_sets_the_default_cluster(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_SLURM_CLUSTER", "arandu")
    api: Any = Logged()
    assert line_spec(api, folders, LineWish(line="", code="1")).cluster == "arandu"
    told = line_spec(api, folders, LineWish(line="--cluster here", code="#!/bin/sh"))
    assert (told.cluster, told.kind) == ("here", JobKind.PROGRAM)


def test_directives_make_a_file_a_batch_script_but_not_a_cell(folders: Folders) -> None:
    api: Any = Logged()
    code = "#!/bin/sh\n#SBATCH --time=5\n"
    told = line_spec(api, folders, LineWish(line="--cluster here --mem 1G", code=code))
    assert (told.kind, told.options) == (JobKind.SCRIPT, {"mem": "1G"})
    cell = LineWish(line="--cluster here", code=code, notebook="n.ipynb")
    assert line_spec(api, folders, cell).kind is JobKind.PROGRAM


@pytest.mark.parametrize("notebook", [None, "n.ipynb"])
def test_array_option_creates_an_array_job_for_shell_code_and_a_sweep_for_python(
    folders: Folders, notebook: str | None
) -> None:
    api: Any = Logged()
    line = "--cluster here --array 1-3"
    script = line_spec(api, folders, LineWish(line=line, code="#!/bin/sh\n", notebook=notebook))
    assert (script.kind, script.options) == (JobKind.SCRIPT, {"array": "1-3"})
    python = line_spec(api, folders, LineWish(line=line, code="print(1)\n", notebook=notebook))
    assert isinstance(python, SweepSpec)
    assert (python.tasks, python.options) == ("1-3", {})
