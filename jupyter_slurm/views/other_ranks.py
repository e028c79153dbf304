"""The output of a job's other ranks, folded, below the cell's output. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

from jupyter_slurm.formatting import counted, visible_lines
from jupyter_slurm.wire import ErrorOutput, Output, Stream

MOST = 32
"""Maximum number of ranks to show in a cell; the panel and `%slurm logs` can show any rank."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def text_of(outputs: Iterable[Output]) -> str:
    """Return the text of a rank's output and traceback."""
    found = []
    for one in outputs:
        match one:
            case Stream():
                found.append(one.text)
            case ErrorOutput():
                found.append("\n".join(one.traceback) + "\n")
    return visible_lines(_COLOURS.sub("", "".join(found)).rstrip("\n"))


def as_html(texts: Mapping[int, str], more: str) -> str:
    """Return a fold for each rank with text, followed by the text `more`."""
    folds = [
        f"<details><summary>Rank {rank}: {_lines(text)}</summary>"
        f'<pre style="margin:0 0 0 1.5em">{escape(text)}</pre></details>'
        for rank, text in texts.items()
        if text
    ]
    return "".join([*folds, f"<div>{escape(more)}</div>" if more else ""])


def as_text(texts: Mapping[int, str], job_id: str) -> str:
    """Return a text for front ends that cannot fold."""
    told = ", ".join(f"{rank} ({_lines(text)})" for rank, text in texts.items() if text)
    return f"Output of other ranks: {told}. Show it with `%slurm logs {job_id} --task RANK`."


def _lines(text: str) -> str:
    return counted(text.count("\n") + 1, "line")
