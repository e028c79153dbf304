"""PURE. The output of a job's ranks but the first -> what a cell shows below it, folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

from jupyter_slurm.formatting import counted, visible_lines
from jupyter_slurm.wire import ErrorOutput, Output, Stream

MOST = 32
"""So many ranks are shown in a cell; the panel and `%slurm logs` show any."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def text_of(outputs: Iterable[Output]) -> str:
    """Return the text of a rank's output: what it printed, and its traceback."""
    found = []
    for one in outputs:
        match one:
            case Stream():
                found.append(one.text)
            case ErrorOutput():
                found.append("\n".join(one.traceback) + "\n")
    return visible_lines(_COLOURS.sub("", "".join(found)).rstrip("\n"))


def as_html(texts: Mapping[int, str], more: str) -> str:
    """Return one fold for each rank that has text, and `more`, where the others are."""
    folds = [
        f"<details><summary>Rank {rank}: {_lines(text)}</summary>"
        f'<pre style="margin:0 0 0 1.5em">{escape(text)}</pre></details>'
        for rank, text in texts.items()
        if text
    ]
    return "".join([*folds, f"<div>{escape(more)}</div>" if more else ""])


def as_text(texts: Mapping[int, str], job_id: str) -> str:
    """Return the same for front ends that cannot fold."""
    told = ", ".join(f"{rank} ({_lines(text)})" for rank, text in texts.items() if text)
    return f"Other ranks wrote, too: {told}. `%slurm logs {job_id} --task RANK` shows it."


def _lines(text: str) -> str:
    return counted(text.count("\n") + 1, "line")
