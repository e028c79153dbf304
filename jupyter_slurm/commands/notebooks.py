"""The notebook for a job, and the executed notebook, built from the job's outputs. No I/O.

`node/run_file.py` runs the notebook and marks the start of each cell in the output. Other programs
that write to the job's folder can forge marks.
"""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Annotated, Any

import msgspec

from jupyter_slurm.errors import RequestError
from jupyter_slurm.views.trusted_output import trusted_as
from jupyter_slurm.wire import (
    ClearOutput,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Job,
    Output,
    Show,
    Stream,
    UpdateDisplayData,
)

MIME = "application/vnd.jupyter-slurm.notebook+json"
"""The MIME type of the markers, which are not outputs of the notebook."""


def prepared(text: str, name: str) -> str:
    """Return the notebook `text` (a file's content) without outputs, as JSON for the node.

    `name` is the notebook's name in messages. Raise RequestError if the notebook cannot run.
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
        raise RequestError(f"{name} is not a notebook: {exc}.") from exc
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        raise RequestError(
            f"{name} is not a notebook of format 4.",
            hint="Open and save it in Jupyter once.",
        )
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    if language != "python":
        raise RequestError(f"{name} is written in {language}; only Python is supported.")
    if not _has_cells(notebook):
        raise RequestError(f"{name} is not a notebook: its cells are malformed.")
    return notebook


def _has_cells(notebook: dict[str, Any]) -> bool:
    cells = notebook.get("cells")
    return isinstance(cells, list) and all(
        isinstance(cell, dict) and "cell_type" in cell and "source" in cell for cell in cells
    )


class Executed:
    """The executed copy of a notebook, from the outputs passed to `add`."""

    def __init__(self) -> None:
        self._notebook: dict[str, Any] | None = None
        self._outputs: list[dict[str, Any]] = []
        self._shown: dict[str, list[dict[str, Any]]] = {}
        self._count = 0
        self._clear = False

    @property
    def cells(self) -> int:
        """Return the number of cells; 0 if the job does not run a notebook."""
        return len(self._notebook["cells"]) if self._notebook else 0

    def text(self) -> str | None:
        """Return the file's content; None if the job has not run a notebook."""
        if self._notebook is None:
            return None
        return json.dumps(self._notebook, indent=1, ensure_ascii=False) + "\n"

    def add(self, output: Output, show: Show = "full") -> None:
        """Add the next output of the job. `show` sets the trust in the output. Skip outputs that
        precede the notebook."""
        marker = marker_of(output)
        if marker is not None:
            self._mark(marker)
            return
        output = trusted_as(output, show)
        match output:
            case UpdateDisplayData():
                for shown in self._shown.get(output.display_id, []):
                    shown |= {"data": output.data, "metadata": output.metadata}
            case ClearOutput(wait=True):
                self._clear = True
            case ClearOutput():
                self._outputs.clear()
            case _:
                self._append(output)

    def _mark(self, marker: Marker) -> None:
        if marker.notebook is not None:  # a notebook starts, or starts again after a requeue
            self._begin(marker.notebook)
        elif marker.cell is not None and self._notebook is not None and marker.cell < self.cells:
            self._count += 1
            self._clear = False
            cell = self._notebook["cells"][marker.cell]
            cell["execution_count"] = self._count
            self._outputs = cell.setdefault("outputs", [])
        elif marker.error is not None:
            self._append(marker.error.output())

    def _begin(self, notebook: dict[str, Any]) -> None:
        """Start the copy, without the notebook's trust marks, outputs and saved widgets. JupyterLab
        would restore saved widgets."""
        self._notebook, self._count, self._shown, self._outputs = notebook, 0, {}, []
        _metadata(notebook).pop("widgets", None)
        for cell in notebook["cells"]:
            _metadata(cell).pop("trusted", None)
            cell.pop("outputs", None)
            if cell["cell_type"] == "code":
                cell |= {"outputs": [], "execution_count": None}

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


def executed_name(job: Job) -> str:
    """Return the file name of the executed copy, different for each job."""
    return f"{PurePath(job.notebook or job.name).stem}.slurm-{job.slurm_id or job.id}.ipynb"


def _metadata(part: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a notebook or cell; replace invalid metadata with a new dict."""
    if not isinstance(part.get("metadata"), dict):
        part["metadata"] = {}
    found: dict[str, Any] = part["metadata"]
    return found


def _rich(kind: str, output: DisplayData | ExecuteResult) -> dict[str, Any]:
    return {"output_type": kind, "data": output.data, "metadata": output.metadata}


# --- the markers --------------------------------------------------------------------------------


class _Error(msgspec.Struct, frozen=True):
    ename: str
    evalue: str
    traceback: tuple[str, ...]

    def output(self) -> ErrorOutput:
        return ErrorOutput(ename=self.ename, evalue=self.evalue, traceback=self.traceback)


class Marker(msgspec.Struct, frozen=True):
    """A marker between outputs. One of its fields is set."""

    notebook: dict[str, Any] | None = None
    """The notebook that starts at this marker."""
    cell: Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)] | None = None
    """The index of the cell that starts at this marker."""
    error: _Error | None = None
    """An error that the cell was allowed to raise."""


def marker_of(output: Output) -> Marker | None:
    """Return the marker in the output; None for any other output."""
    if not isinstance(output, DisplayData) or MIME not in output.data:
        return None
    try:
        marker = msgspec.convert(output.data[MIME], Marker)
    except msgspec.ValidationError:
        return None
    if marker.notebook is not None and not _has_cells(marker.notebook):
        return None
    return marker
