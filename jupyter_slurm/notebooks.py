"""PURE: a notebook before it is run by a job, and the job's outputs -> the executed notebook.

Between the two is `node/driver.py`, which runs on the node and marks in the output where a cell
begins. Nothing here reads or writes files, and nothing of the outputs is executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import (
    ClearOutput,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Output,
    Stream,
    UpdateDisplayData,
)

MIME = "application/vnd.jupyter-slurm.notebook+json"
"""Of the driver's markers, which are no outputs of the notebook."""


def prepared(text: str, name: str) -> str:
    """The notebook `text` (a file's content) without outputs, as JSON for the driver.

    `name` is what the notebook is called in messages. RequestError: it cannot be run.
    """
    notebook = _checked(text, name)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return json.dumps(notebook)


def _checked(text: str, name: str) -> dict[str, Any]:
    try:
        notebook = json.loads(text)
    except ValueError as exc:
        raise RequestError(f"{name} is no notebook: {exc}.") from exc
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        raise RequestError(
            f"{name} is no notebook of format 4.", hint="Open and save it in Jupyter once."
        )
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    if language != "python":
        raise RequestError(f"{name} is written in {language}; only Python runs.")
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(
        isinstance(cell, dict) and "cell_type" in cell and "source" in cell for cell in cells
    ):
        raise RequestError(f"{name} is no notebook: its cells are not what they should be.")
    return notebook


class Executed:
    """The executed copy of a notebook, as far as the outputs given to `add` tell."""

    def __init__(self) -> None:
        self._notebook: dict[str, Any] | None = None
        self._outputs: list[dict[str, Any]] = []
        self._shown: dict[str, list[dict[str, Any]]] = {}
        self._count = 0
        self._clear = False

    @property
    def cells(self) -> int:
        """How many cells there are; 0 when the job runs no notebook."""
        return len(self._notebook["cells"]) if self._notebook else 0

    def text(self) -> str | None:
        """The file's content; None when the job has not run a notebook."""
        if self._notebook is None:
            return None
        return json.dumps(self._notebook, indent=1, ensure_ascii=False) + "\n"

    def add(self, output: Output) -> None:
        """Takes the next of the job's outputs; what came before the notebook is left out."""
        match output:
            case DisplayData() if is_marker(output):
                self._mark(output.data[MIME])
            case UpdateDisplayData():
                for shown in self._shown.get(output.display_id, []):
                    shown |= {"data": output.data, "metadata": output.metadata}
            case ClearOutput(wait=True):
                self._clear = True
            case ClearOutput():
                self._outputs.clear()
            case _:
                self._append(output)

    def _mark(self, content: Mapping[str, Any]) -> None:
        if "notebook" in content:  # again when the job was requeued: it starts from zero
            self._notebook, self._count, self._shown = content["notebook"], 0, {}
        elif "cell" in content and self._notebook is not None:
            self._count += 1
            self._clear = False
            cell = self._notebook["cells"][content["cell"]]
            cell["execution_count"] = self._count
            self._outputs = cell["outputs"]
        elif "error" in content:
            self._append(ErrorOutput(**content["error"]))

    def _append(self, output: Output) -> None:
        if self._clear:
            self._outputs.clear()
            self._clear = False
        last = self._outputs[-1] if self._outputs else {}
        match output:
            case Stream() if last.get("name") == output.name:
                last["text"] += output.text
            case Stream():
                stream = {"output_type": "stream", "name": output.name, "text": output.text}
                self._outputs.append(stream)
            case DisplayData():
                shown = _rich("display_data", output)
                self._outputs.append(shown)
                if output.display_id:
                    self._shown.setdefault(output.display_id, []).append(shown)
            case ExecuteResult():
                result = _rich("execute_result", output)
                self._outputs.append(result | {"execution_count": self._count})
            case ErrorOutput():
                error = {"ename": output.ename, "evalue": output.evalue}
                traceback = list(output.traceback)
                self._outputs.append({"output_type": "error", "traceback": traceback, **error})


def _rich(kind: str, output: DisplayData | ExecuteResult) -> dict[str, Any]:
    return {"output_type": kind, "data": output.data, "metadata": output.metadata}


# --- the driver's markers ---------------------------------------------------------------------


def is_marker(output: DisplayData) -> bool:
    """Whether this is the driver's, and not the notebook's."""
    return MIME in output.data


def cell_begun(marker: DisplayData) -> int | None:
    """The index of the cell that begins here, of a marker that says so."""
    index: int | None = marker.data[MIME].get("cell")
    return index


def allowed_error(marker: DisplayData) -> ErrorOutput | None:
    """The error that a cell was allowed to raise, of a marker that tells of one."""
    error = marker.data[MIME].get("error")
    return ErrorOutput(**error) if error else None
