"""Follow a job in the running cell, with card and output, until it has ended.

Cells wait only here. The waiting call runs in a thread, so that an interrupt arrives at once and
does not disturb the client. `cell.py` decides what an interrupt does.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from jupyter_slurm.api import Api
from jupyter_slurm.client.login import InteractiveClient
from jupyter_slurm.job import until_ready
from jupyter_slurm.magics.live import LiveCard
from jupyter_slurm.magics.replay import Replay
from jupyter_slurm.views.card import title
from jupyter_slurm.wire import Job, LogChunk

T = TypeVar("T")

_WAIT_S = 20.0
_LATE_S = 0.05


class CallThread:
    """A thread that makes blocking calls, one by one, for the waiting cell.

    It returns a call's value or raises its error. If a call needs a login on `cluster`, `person`
    logs in from the cell's own thread, and the call is repeated. KeyboardInterrupt in the waiting
    cell abandons the call, which still runs to its end.
    """

    def __init__(self, person: InteractiveClient, cluster: str | None) -> None:
        self._person = person
        self._cluster = cluster
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._work,), name="jupyter-slurm call", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> CallThread:
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread after its current call, without waiting."""
        self._calls.put(None)

    def __call__(self, call: Callable[[], T], late: Callable[[], None] | None = None) -> T:
        """`late` is called if the value does not come soon."""
        return self._person.repeating(lambda: self._value(call, late), lambda: self._cluster)

    def _value(self, call: Callable[[], T], late: Callable[[], None] | None) -> T:
        future = self.post(call)
        if late is not None and not wait([future], _LATE_S).done:
            late()
        return future.result()

    def post(self, call: Callable[[], T]) -> Future[T]:
        """Make the call in the thread and return its future, without waiting."""
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(call())
            except BaseException as exc:  # noqa: BLE001 - raised in the waiting thread
                future.set_exception(exc)

        self._calls.put(work)
        return future

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def wait_until_ready(
    api: Api,
    worker: CallThread,
    card: LiveCard,
    is_ready: Callable[[Job], bool],
    stop: str,
    show: Callable[[LogChunk], None] = lambda _: None,
) -> None:
    """Wait until the card's job is ready or has ended. An interrupt raises KeyboardInterrupt, which
    reports that the job continues, and the command to `stop` it."""
    try:
        for chunk in until_ready(
            api, card.job, is_ready, lambda _: min(_WAIT_S, card.due_s()), worker
        ):
            card.update(chunk.job)
            show(chunk)
    except KeyboardInterrupt:
        told = f"{title(card.job)} is {card.job.state.word} and continues; `{stop}` stops it"
        raise KeyboardInterrupt(told) from None


class Following:
    """The output of a job in this cell. The cell can leave it and resume: nothing is shown
    twice."""

    def __init__(self, api: Api, card: LiveCard, replay: Replay) -> None:
        self._api = api
        self._card = card
        self._replay = replay
        self._cursor = ""

    def run(self, worker: CallThread, *, until_s: float = float("inf")) -> Job:
        """Return the job once it is final and all its output is shown, or its state at `until_s`
        (of `time.monotonic`)."""
        while True:
            wait_s = max(0.0, min(_WAIT_S, self._card.due_s(), until_s - time.monotonic()))
            chunk = worker(
                partial(
                    self._api.logs,
                    self._card.job.id,
                    self._cursor,
                    wait_s=wait_s,
                    budget_bytes=self._replay.budget_bytes,
                ),
                self._card.appear,
            )
            self._cursor = chunk.cursor
            self._card.update(chunk.job)
            if chunk.outputs or chunk.skipped_bytes:
                self._card.appear()
            self._replay.show(chunk)
            if chunk.end or time.monotonic() >= until_s:
                return chunk.job
            if pause_s := self._replay.pause_s():
                time.sleep(pause_s)


class Detached(KeyboardInterrupt):
    """An interrupt of a cell. It ends the cell and Run All, but not the job."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def ways(job_id: str) -> str:
    """Return the commands to attach to and stop a job."""
    return f"attach with `%slurm attach {job_id}`, stop with `%slurm cancel {job_id}`"
