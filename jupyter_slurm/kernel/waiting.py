"""Requests while there is no kernel: some are answered at once, the others wait, as cells do.

The first cell that waits shows what it waits for, in one display that is kept up to date and taken
away when the cell begins to run. What there is to be said is told from outside.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from jupyter_slurm.kernel import words
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
        """Set what the first cell shows from now on: a MIME bundle."""
        if data == self._data:
            return
        self._data = data
        if self._shown is not None:
            self._answers.display(data, *self._shown, update=True)
        else:
            self._show_first()

    def interrupt(self) -> None:
        """Interrupt the first cell and do not run those behind it. What goes on beside cells (a
        debugger, subshells) waits on."""
        beside = [one for one in self._queue if one[0] == "control"]
        self._queue = [one for one in self._queue if one[0] != "control"]
        self.fail("KeyboardInterrupt", words.interrupted())
        self._queue = beside

    def fail(self, ename: str, evalue: str, advice: str | None = None) -> None:
        """End all that waits: the first cell says why."""
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
        """Return all that waits, in order, for the kernel that is there now; clear what was
        shown."""
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
