"""The live end of a job's log, for the log panel of the queue widget."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

from jupyter_slurm.api import Api
from jupyter_slurm.errors import JupyterSlurmError, NotFoundError
from jupyter_slurm.job import text_of
from jupyter_slurm.wire import Job

_LOG_BYTES = 16_384
_WAIT_S = 15.0
_BETWEEN_CHANGES_S = 0.5
_RETRY_S = 10.0
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Control sequences of a terminal (ECMA-48), such as colours."""


class OpenLog:
    """A job's log on the page. It calls `show` for new text, first in the opening thread and later
    in the log's own thread. `watched` returns whether the log is visible."""

    def __init__(
        self,
        api: Api,
        job_id: str,
        show: Callable[[OpenLog], None],
        watched: Callable[[], bool],
    ) -> None:
        self.thread: threading.Thread | None = None
        """The thread that follows the log; None if the log is not followed."""
        self._api = api
        self._job_id = job_id
        self._show = show
        self._watched = watched
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._written = ""
        self._cursor = ""
        self._ended = False
        self._job: Job | None = None
        self._read(0.0)

    @property
    def text(self) -> str:
        """Return the log as in a terminal, without colours."""
        lines = _ESCAPES.sub("", self._written).split("\n")
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
        return text or "No output yet."

    @property
    def title(self) -> str:
        job = self._job
        if job is None:
            return ""
        return f"{job.name} ({job.state.word}); show in a cell: %slurm attach {job.id}"

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        """Stop updating. The thread ends after its current call."""
        self._closed.set()

    def follow(self) -> None:
        """Follow the log in a thread until the job ends, or until the log is closed or hidden."""
        with self._lock:
            if self.thread is None and not self._ended and not self.closed:
                self.thread = threading.Thread(
                    target=self._keep, name=f"jupyter-slurm log {self._job_id}", daemon=True
                )
                self.thread.start()

    def _keep(self) -> None:
        while self._goes_on():
            try:
                self._read(_WAIT_S)
            except NotFoundError:  # the agent has forgotten the job
                self._ended = True
            except JupyterSlurmError:  # the rows show the problem
                self._closed.wait(_RETRY_S)
            else:
                self._closed.wait(_BETWEEN_CHANGES_S)

    def _goes_on(self) -> bool:
        with self._lock:
            goes_on = self._watched() and not self._ended and not self.closed
            if not goes_on:
                self.thread = None
            return goes_on

    def _read(self, wait_s: float) -> None:
        chunk = self._api.logs(self._job_id, self._cursor, wait_s, _LOG_BYTES)
        self._written = (self._written + text_of(chunk.outputs))[-_LOG_BYTES:]
        self._cursor, self._job, self._ended = chunk.cursor, chunk.job, chunk.end
        if not self.closed:
            self._show(self)
