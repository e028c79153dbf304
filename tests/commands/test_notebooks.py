"""Notebooks as jobs: run_file.py in the runner, and output in the executed copy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_slurm.commands import notebooks
from jupyter_slurm.commands.headless import of_notebook
from jupyter_slurm.commands.notebooks import Executed
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import (
    DisplayData,
    Output,
    Stream,
    UpdateDisplayData,
)

RUNNER = Path(notebooks.__file__).parents[1] / "node" / "runner.py"
NO_IPYTHON = "import sys; sys.modules['IPython'] = None\n"


def notebook(*cells: str | dict[str, Any], **metadata: Any) -> str:
    """Return the text of a notebook with these code cells. A dict is used as a whole cell."""
    made = [
        cell
        if isinstance(cell, dict)
        else {
            "cell_type": "code",
            "metadata": {},
            "source": cell.splitlines(keepends=True),
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "of yesterday"}],
            "execution_count": 9,
        }
        for cell in cells
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made})


def execute(tmp_path: Path, text: str, before: str = "") -> tuple[int, list[dict[str, Any]]]:
    """Run the notebook as a job's runner does. Return the exit code and the executed code cells."""
    (tmp_path / "cell.py").write_text(before + of_notebook(text, "n.ipynb"), encoding="utf-8")
    (tmp_path / "key").write_text("00" * 32)
    task = {"id": "aaaaaaaa", "cell_name": "slurm cell aaaaaaaa", "names_in": [], "names_out": []}
    (tmp_path / "task.json").write_text(json.dumps({**task, "env": {}, "cwd": None}))
    argv = [sys.executable, "-u", str(RUNNER), str(tmp_path), "0"]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=tmp_path, timeout=60)
    assert done.stderr == b""
    executed = Executed()
    for line in (tmp_path / "output.0.jsonl").read_bytes().splitlines():
        executed.add(msgspec.json.decode(line, type=Output))
    written = executed.text()
    assert written is not None
    cells = json.loads(written)["cells"]
    return done.returncode, [cell for cell in cells if cell["cell_type"] == "code"]


def text_of(cell: dict[str, Any]) -> str:
    return "".join(output.get("text", "") for output in cell["outputs"])


@pytest.mark.parametrize("before", ["", NO_IPYTHON], ids=["ipython", "no ipython"])
def test_cells_share_a_namespace_and_have_their_own_outputs(tmp_path: Path, before: str) -> None:
    code, cells = execute(
        tmp_path,
        notebook(
            "x = 20\nprint('one')",
            {"cell_type": "markdown", "metadata": {}, "source": "# Title"},
            "import sys\nprint('two', file=sys.stderr)\nx += 1",
            "x * 2",
            "x;",
            "",
        ),
        before,
    )
    assert code == 0
    assert cells[0]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "one\n"}]
    assert cells[1]["outputs"] == [{"output_type": "stream", "name": "stderr", "text": "two\n"}]
    assert cells[2]["outputs"][0]["data"]["text/plain"] == "42"
    assert cells[3]["outputs"] == []
    assert [cell["execution_count"] for cell in cells] == [1, 2, 3, 4, None]
    assert cells[4]["outputs"] == []


def test_first_error_ends_the_job_and_is_shown_in_its_cell(
    tmp_path: Path,
) -> None:
    code, cells = execute(tmp_path, notebook("print(1)", "y = 2\n1 / 0", "print(3)"))
    assert code == 1
    error = cells[1]["outputs"][0]
    assert (error["output_type"], error["ename"]) == ("error", "ZeroDivisionError")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))
    assert "1 / 0" in shown
    assert "run()" not in shown
    assert "types" not in shown
    assert "print(3)" not in shown
    assert cells[2]["outputs"] == []
    assert cells[2]["execution_count"] is None


def test_cell_tagged_raises_exception_does_not_end_the_notebook(tmp_path: Path) -> None:
    failing = {
        "cell_type": "code",
        "metadata": {"tags": ["raises-exception"]},
        "source": "print('before')\nraise KeyError('ü')",
    }
    code, cells = execute(tmp_path, notebook(failing, "print('after')"))
    assert code == 0
    assert [output["output_type"] for output in cells[0]["outputs"]] == ["stream", "error"]
    assert cells[0]["outputs"][1]["ename"] == "KeyError"
    assert "raise KeyError('ü')" in "\n".join(cells[0]["outputs"][1]["traceback"])
    assert "notebook_runner" not in "\n".join(cells[0]["outputs"][1]["traceback"])
    assert text_of(cells[1]) == "after\n"


def test_cells_can_await_in_one_event_loop(tmp_path: Path) -> None:
    code, cells = execute(
        tmp_path,
        notebook(
            "import asyncio\nasync def f():\n    return 7\n"
            "async def begin():\n    return asyncio.ensure_future(f())\ntask = await begin()",
            "print(await task)",
            "await asyncio.sleep(0, 'slept')",
        ),
    )
    assert code == 0
    assert text_of(cells[1]) == "7\n"
    assert cells[2]["outputs"][0]["data"]["text/plain"] == "'slept'"


def test_dead_process_keeps_earlier_outputs(tmp_path: Path) -> None:
    code, cells = execute(tmp_path, notebook("print('kept')", "import os\nos._exit(3)"))
    assert code == 3
    assert text_of(cells[0]) == "kept\n"
    assert cells[1]["outputs"][0]["ename"] == "ProcessEnded"


def test_hostile_text_in_cells_arrives_unchanged(tmp_path: Path) -> None:
    text = "quotes \" ' ''' \\ $HOME `x` {y} ünïcode 🐍 \\n"
    code, cells = execute(tmp_path, notebook(f"print({text!r})"))
    assert code == 0
    assert text_of(cells[0]) == text + "\n"


# --- invalid notebooks ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "n.ipynb is not a notebook"),
        ("[]", "not a notebook of format 4"),
        ('{"nbformat": 3}', "not a notebook of format 4"),
        (
            notebook(kernelspec={"language": "julia"}),
            "is written in julia; only Python is supported",
        ),
        ('{"nbformat": 4, "cells": [3]}', "its cells are malformed"),
    ],
)
def test_invalid_notebook_is_rejected(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        of_notebook(text, "n.ipynb")


# --- sorting outputs --------------------------------------------------------------------------


def begun(*cells: str) -> Executed:
    executed = Executed()
    made = json.loads(notebook(*cells))
    executed.add(DisplayData(data={notebooks.MIME: {"notebook": made}}))
    executed.add(DisplayData(data={notebooks.MIME: {"cell": 0}}))
    return executed


def outputs(executed: Executed) -> list[dict[str, Any]]:
    text = executed.text()
    assert text is not None
    found: list[dict[str, Any]] = json.loads(text)["cells"][0]["outputs"]
    return found


def test_display_is_updated_in_place() -> None:
    executed = begun("a")
    executed.add(DisplayData(data={"text/plain": "1"}, display_id="d"))
    executed.add(Stream(name="stdout", text="x"))
    executed.add(UpdateDisplayData(data={"text/plain": "2"}, display_id="d"))
    assert outputs(executed)[0]["data"] == {"text/plain": "2"}
    assert len(outputs(executed)) == 2


def test_executed_copy_omits_trust_widgets_and_old_outputs() -> None:
    """JupyterLab creates a notebook's saved widgets, and some of them are programs."""
    shown = {"output_type": "display_data", "data": {"text/html": "<b>"}, "metadata": {}}
    code = {"cell_type": "code", "source": "a", "metadata": {"trusted": True}, "outputs": [shown]}
    text = {"cell_type": "markdown", "source": "b", "metadata": 7, "outputs": [shown]}
    made = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"widgets": {"a": 1}, "b": 2}}
    executed = Executed()
    executed.add(DisplayData(data={notebooks.MIME: {"notebook": {**made, "cells": [code, text]}}}))
    said = json.loads(executed.text() or "")
    assert said["metadata"] == {"b": 2}
    assert [cell["metadata"] for cell in said["cells"]] == [{}, {}]
    assert [cell.get("outputs") for cell in said["cells"]] == [[], None]


def test_executed_copy_limits_html_as_requested() -> None:
    executed = begun("a")
    for show in ("text", "sandboxed", "full"):
        executed.add(DisplayData(data={"text/html": "<script>"}), show)
    executed.add(UpdateDisplayData(data={"text/html": "<i>"}, display_id="none"), "text")
    text, boxed, full = (one["data"] for one in outputs(executed))
    assert text == {"text/plain": "<script>"}
    assert "sandbox" in boxed["text/html"]
    assert full == {"text/html": "<script>"}
