"""Requests that wait for the kernel, and the notice of a lost connection.

Requests that do not need the kernel are answered at once; the others wait. The first waiting cell
shows the state of the job in a display. `Waiting` updates the display, and removes it when the cell
starts to run.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.kernel import texts
from jupyter_slurm.kernel.answers import Answers, quick, runs_code
from jupyter_slurm.kernel.messages import Message


class Waiting:
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._queue: list[tuple[str, Message]] = []
        self._shown: tuple[Message, str] | None = None
        self._data: Mapping[str, Any] | None = None

    def take(self, channel: str, message: Message, info: Mapping[str, Any]) -> None:
        content = quick(message, info)
        if content is not None:
            self._answers.around(channel, message, content)
            return
        self._queue.append((channel, message))
        self._show_first()

    def tell(self, data: Mapping[str, Any]) -> None:
        """Set the display of the first waiting cell to a MIME bundle."""
        if data == self._data:
            return
        self._data = data
        if self._shown is not None:
            self._answers.display(data, *self._shown, update=True)
        else:
            self._show_first()

    def interrupt(self) -> None:
        """Interrupt the first cell and abort the cells behind it. Requests on the control channel
        (a debugger, subshells) keep waiting."""
        beside = [one for one in self._queue if one[0] == "control"]
        self._queue = [one for one in self._queue if one[0] != "control"]
        self.fail("KeyboardInterrupt", texts.interrupted())
        self._queue = beside

    def fail(self, ename: str, evalue: str, advice: str | None = None) -> None:
        """Answer all waiting requests with an error. The first cell shows it."""
        queue, self._queue, self._shown = self._queue, [], None
        cells = runs_code(queue)
        for channel, message in queue:
            if cells and message is not cells[0][1]:
                self._answers.aborted(channel, message)
            elif cells:
                self._answers.failed(channel, message, ename, evalue, advice)
            else:
                self._answers.failed(channel, message, ename, evalue)

    def let_go(self) -> list[tuple[str, Message]]:
        """Return all waiting requests in order, and clear the display."""
        queue, self._queue = self._queue, []
        if self._shown is not None:
            self._answers.publish("clear_output", {"wait": False}, self._shown[0])
            self._shown = None
        return queue

    def _show_first(self) -> None:
        if self._shown is not None or self._data is None:
            return
        for _, message in runs_code(self._queue):
            if not message.content.get("silent"):
                self._shown = (message, f"slurm-{uuid.uuid4().hex}")
                self._answers.state("busy", message)
                self._answers.display(self._data, *self._shown, update=False)
                return


_SHOWN_S = 10.0
"""Seconds after which a cell shows that the connection is lost."""


class ConnectionNotice:
    """A notice, shown in a cell, that the cluster does not answer. Times are values of
    time.monotonic()."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._stream: JupyterSlurmError | None = None
        """The reason why the kernel is not connected."""
        self._cluster: JupyterSlurmError | None = None
        """The reason why the cluster cannot be reached. Even an open stream then does not deliver
        messages."""
        self._since_s = 0.0
        self._shown: tuple[Message, str] | None = None
        self._data: dict[str, Any] | None = None

    @property
    def _error(self) -> JupyterSlurmError | None:
        return self._cluster or self._stream

    def stream_lost(self, error: JupyterSlurmError, now_s: float) -> None:
        self._begin(now_s)
        self._stream = error

    def stream_open(self, now_s: float) -> None:
        """Note that the stream is open, so the cluster can be reached."""
        self._stream = self._cluster = None
        self._end(now_s)

    def cluster_reachable(self, error: JupyterSlurmError | None, now_s: float) -> None:
        """Note why the cluster cannot be reached. `error` is None if it can be reached."""
        if error is not None:
            self._begin(now_s)
        self._cluster = error
        self._end(now_s)

    def look(self, running: Message | None, cluster: str | None, now_s: float) -> None:
        """Show the notice in the running cell when it is due."""
        error = self._error
        if error is None or running is None:
            return
        if not isinstance(error, LoginNeededError) and now_s - self._since_s <= _SHOWN_S:
            return
        data = texts.cut(error, cluster)
        if self._shown is None or self._shown[0] is not running:
            self._shown = (running, f"slurm-{uuid.uuid4().hex}")
            self._answers.display(data, *self._shown, update=False)
        elif data != self._data:
            self._answers.display(data, *self._shown, update=True)
        self._data = data

    def forget(self) -> None:
        """Forget the cell that showed the notice, because it has ended."""
        self._shown = None

    def _begin(self, now_s: float) -> None:
        if self._error is None:
            self._since_s = now_s

    def _end(self, now_s: float) -> None:
        if self._error is not None or self._shown is None:
            return
        self._answers.display(texts.mended(now_s - self._since_s), *self._shown, update=True)
        self._shown = None
