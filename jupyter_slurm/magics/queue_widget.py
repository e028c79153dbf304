"""The Python half of `%slurm`'s queue widget. The browser half is `queue_widget.js` and `.css`.

The widget uses only `Api`. A thread updates it while a browser reports that it is visible.
Callbacks may run in any thread (subshells of ipykernel 7). They do not print, because messages go
into the widget.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anywidget
from traitlets import Bool, Dict, List, Unicode

from jupyter_slurm.api import Api
from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.formatting import moment
from jupyter_slurm.magics.open_log import OpenLog
from jupyter_slurm.views import rows
from jupyter_slurm.views.table import Table
from jupyter_slurm.wire import Job, JobState, Row

_EVERYONE_EVERY_S = 10.0
_MINE_EVERY_S = 15.0
"""Seconds after which the times in the rows are refreshed without a change. Changes are shown at
once."""
_SHOWN_FOR_S = 75.0
"""Seconds for which the widget counts as visible after a browser's report, which arrives every
30 s."""
_MOST_ROWS = 500
_RETRY_S = 10.0

Line = dict[str, str | bool]


class QueueWidget(anywidget.AnyWidget):
    """The user's jobs, or everyone's, with buttons to cancel, hold and release them and to show
    logs."""

    _esm = Path(__file__).with_name("queue_widget.js")
    _css = Path(__file__).with_name("queue_widget.css")

    words: Dict[str, str | list[str]] = Dict().tag(sync=True)
    """The texts for the browser half."""
    rows: List[Line] = List().tag(sync=True)
    everyone = Bool(False).tag(sync=True)
    as_of = Unicode("").tag(sync=True)
    """The age of the rows, or the reason why they are not updated."""
    message = Unicode("").tag(sync=True)
    """The outcome of the last click and nothing else, because screen readers read it out."""
    log = Unicode("").tag(sync=True)
    log_of = Unicode("").tag(sync=True)

    def __init__(self, api: Api, cluster: str | None) -> None:
        super().__init__(words=_words())
        self._api = api
        self._cluster = cluster
        self._shown_s = float("-inf")
        self._switched = threading.Event()
        self._lock = threading.Lock()
        self._rows_lock = threading.RLock()
        self._reads = count(1)
        self._shown_read = 0
        """The number of the request that returned the rows. The rows of an earlier request that
        finishes later are dropped."""
        self._thread: threading.Thread | None = None
        self._log: OpenLog | None = None
        self._log_lock = threading.RLock()
        self.on_msg(self._on_message)
        self.observe(self._on_switch, names="everyone")
        self.observe(self._on_log_of, names="log_of")
        # ipykernel 7.4 handles a click in the shell that last sent a message, so the click would
        # wait for a busy cell. In its default subshell the click is answered at once
        # (ipykernel/comm/comm.py).
        if hasattr(self.comm, "_reply_subshell_for"):
            self.comm._reply_subshell_for = lambda _data, default: default
        self._refresh()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget, and its rows for a front end without widgets."""
        found = super()._repr_mimebundle_(**kwargs)
        data, metadata = found if isinstance(found, tuple) else (found or {}, {})
        table = self.table()
        return {**data, "text/html": table._repr_html_(), "text/plain": table.text}, metadata

    def table(self) -> Table:
        """Return the visible rows."""
        values = tuple(tuple(str(row[name.lower()]) for name in rows.HEAD) for row in self.rows)
        return Table(rows.HEAD, values, caption=self.as_of)

    def _on_message(self, _widget: object, content: dict[str, Any], _buffers: object) -> None:
        match content:
            case {"do": "shown"}:
                self._shown()
            case {"do": "hidden"}:
                self._shown_s = float("-inf")
            case {"do": ("cancel" | "hold" | "release") as verb, "id": str(job_id)}:
                self._try(lambda: self._steer(verb, job_id), "message")
            case {"do": "log", "id": str(job_id)}:
                self._try(lambda: self._open_log(job_id), "message")
            case _:
                pass

    def _on_switch(self, _change: object) -> None:
        self._switched.set()
        self._refresh()

    def _shown(self) -> None:
        self._shown_s = time.monotonic()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._keep, name="jupyter-slurm queue", daemon=True
                )
                self._thread.start()
        if self._log is not None:
            self._log.follow()

    def _keep(self) -> None:
        cursor = ""

        def wait() -> None:
            nonlocal cursor
            if self.everyone:
                self._switched.wait(_EVERYONE_EVERY_S)
                self._switched.clear()
            else:
                cursor = self._api.changes(cursor, wait_s=_MINE_EVERY_S).cursor

        while self._is_shown():
            if not (self._try(wait, "as_of") and self._refresh()):
                time.sleep(_RETRY_S)

    def _is_shown(self) -> bool:
        with self._lock:
            shown = self._is_watched()
            if not shown:
                self._thread = None
            return shown

    def _is_watched(self) -> bool:
        return time.monotonic() - self._shown_s < _SHOWN_FOR_S

    def _refresh(self) -> bool:
        def read() -> None:
            with self._rows_lock:
                number, everyone = next(self._reads), self.everyone
            now_s = time.time()
            found: list[Row]
            found = [*(self._api.queue if everyone else self._api.jobs)(self._cluster)]
            lines = [_line(row, now_s) for row in found[:_MOST_ROWS]]
            more = len(found) - len(lines)
            at = f"as of {moment(now_s, now_s)}"
            if more:
                at += f", and {more} more: %slurm queue, %slurm jobs"
            with self._rows_lock:
                if number > self._shown_read:
                    self._shown_read = number
                    self.rows, self.as_of = lines, at if lines else f"No jobs, {at}"

        return self._try(read, "as_of")

    def _steer(self, verb: str, job_id: str) -> None:
        call: Callable[[str], Job] = getattr(self._api, verb)
        job = call(job_id)
        self._refresh()
        asked = " with cancellation requested" if verb == "cancel" and not job.state.final else ""
        self.message = f"Job {job.name} ({job.id}) is {job.state.word}{asked}."

    def _open_log(self, job_id: str) -> None:
        """Open the end of the job's log. `%slurm attach` shows the whole log in a cell."""
        self._close_log()
        self._log = OpenLog(self._api, job_id, self._show_log, self._is_watched)
        self.message = ""
        if self._is_watched():
            self._log.follow()

    def _show_log(self, log: OpenLog) -> None:
        with self._log_lock:
            if log.closed:
                return
            with self.hold_sync():
                self.log, self.log_of = log.text, log.title

    def _on_log_of(self, _change: object) -> None:
        """Close the log after the browser has closed the log's panel, which empties the title."""
        if not self.log_of:
            self._close_log()

    def _close_log(self) -> None:
        with self._log_lock:
            if self._log is not None:
                self._log.close()

    def _try(self, call: Callable[[], None], told: str) -> bool:
        """Make the call. If it fails, put the error into the trait `told` and return False."""
        try:
            call()
        except LoginNeededError as exc:  # a prompt needs a running cell
            cluster = f" {self._cluster}" if self._cluster else ""
            self.set_trait(told, f"{exc.message} Log in: %slurm login{cluster}")
            return False
        except JupyterSlurmError as exc:
            self.set_trait(told, str(exc))
            return False
        except Exception as exc:  # noqa: BLE001 - otherwise lost in the thread
            self.set_trait(told, f"Internal error: {exc!r}")
            return False
        return True


def _words() -> dict[str, str | list[str]]:
    """Return the widget's texts by their place. Each button has a label and an accessible name."""
    return {
        "everyone": "Everyone's jobs",
        "jobs": "Jobs",
        "head": ["Job", "State", "Where", "Actions"],
        "log": ["Log", "Log of job {name} ({id})"],
        "hold": ["Hold", "Hold job {name} ({id})"],
        "release": ["Release", "Release job {name} ({id})"],
        "cancel": ["Cancel", "Cancel job {name} ({id})"],
        "confirm": ["Cancel it", "Cancel it: end job {name} ({id})"],
        "keep": ["Keep", "Keep job {name} ({id})"],
        "log_of": "Log of {title}",
        "end_of_log": "End of the log",
        "close": ["Close", "Close the log"],
    }


def _line(row: Row, now_s: float) -> Line:
    cells = dict(zip(map(str.lower, rows.HEAD), rows.cells(row, now_s), strict=True))
    return {
        **cells,
        "id": row.id or row.slurm_id or "",
        "colour": rows.row_colour(row),
        "live": not rows.state_of(row).final,
        "held": row.state == JobState.PENDING and "Held" in (row.reason or ""),
        "ours": row.id is not None,
    }
