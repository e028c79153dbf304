"""What a cell that runs is told while nothing comes from its kernel, since the line is cut.

One display, kept up to date: why, what to do, and that all is well again. When that is known is
told from outside; nothing is known here of lines.
"""

from __future__ import annotations

import uuid
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.kernel import words
from jupyter_slurm.kernel.answers import Answers
from jupyter_slurm.kernel.messages import Message

_SHOWN_S = 10.0
"""A line that is cut for less is nobody's business."""


class CutNotice:
    """The notice in a cell that nothing comes from the cluster. Times are those of time.monotonic,
    in seconds."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._line: JupyterSlurmError | None = None
        """Why there is no line to the kernel."""
        self._way: JupyterSlurmError | None = None
        """Why there is no way to the cluster: nothing comes of a line that is still open."""
        self._since_s = 0.0
        self._shown: tuple[Message, str] | None = None
        self._data: dict[str, Any] | None = None

    @property
    def _error(self) -> JupyterSlurmError | None:
        return self._way or self._line

    def line_cut(self, error: JupyterSlurmError, now_s: float) -> None:
        self._begin(now_s)
        self._line = error

    def line_open(self, now_s: float) -> None:
        """Note that a line is open, and so a way to the cluster, whatever was heard of it last."""
        self._line = self._way = None
        self._end(now_s)

    def way(self, error: JupyterSlurmError | None, now_s: float) -> None:
        """Note why the cluster is not reached; None: it is reached."""
        if error is not None:
            self._begin(now_s)
        self._way = error
        self._end(now_s)

    def look(self, running: Message | None, cluster: str | None, now_s: float) -> None:
        """Show the notice in the cell that runs, when that is due."""
        error = self._error
        if error is None or running is None:
            return
        if not isinstance(error, LoginNeededError) and now_s - self._since_s <= _SHOWN_S:
            return
        data = words.cut(error, cluster)
        if self._shown is None or self._shown[0] is not running:
            self._shown = (running, f"slurm-{uuid.uuid4().hex}")
            self._answers.display(data, *self._shown, update=False)
        elif data != self._data:
            self._answers.display(data, *self._shown, update=True)
        self._data = data

    def forget(self) -> None:
        """Forget the cell that showed the notice: it is over."""
        self._shown = None

    def _begin(self, now_s: float) -> None:
        if self._error is None:
            self._since_s = now_s

    def _end(self, now_s: float) -> None:
        if self._error is not None or self._shown is None:
            return
        self._answers.display(words.mended(now_s - self._since_s), *self._shown, update=True)
        self._shown = None
