"""The display of jobs: the card and output of a job in the waiting cell, then updates of the card.

`views/card.py` creates the cards' content. One background thread per kernel updates all cards
without a waiting cell, with one long poll of the agent. If the page updates cards itself
(`renders_jobs`), the thread publishes only new states and the end, for the saved notebook.

The Jupyter server drops output above 1000 messages/s or 1 MB/s, averaged over 3 s (ServerApp's
iopub limits), and a notebook file stores all output. So this module limits the output that it
shows.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.formatting import Coloured
from jupyter_slurm.job import until_ready
from jupyter_slurm.magics.frontend import change, clear, flush, in_place, renders_jobs, show
from jupyter_slurm.views.card import bundle, title
from jupyter_slurm.views.trusted_output import stricter, trusted_as
from jupyter_slurm.wire import (
    ClearOutput,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Hello,
    Job,
    JobState,
    LogChunk,
    Output,
    Problem,
    Show,
    Stream,
    UpdateDisplayData,
)

_Calls = Callable[[Callable[[], LogChunk], Callable[[], None]], LogChunk]
"""A function that returns the value of a call, and calls its second argument if the value is late
(`CallThread`)."""
_WAIT_S = 20.0
_BETWEEN_CHANGES_S = 1.0
_BETWEEN_CLOCKS_S = 15.0
_SETTLED_AFTER_S = 20.0
"""Seconds to wait for the usage of an ended job, because slurmdbd receives it late."""
_LONGEST_WAIT_S = 20.0
_PACE_S = 0.1
"""Seconds between requests for changes. A session changes several times with each of its cells, and
one request fetches all of these changes."""
_RETRY_S = 10.0
_MESSAGES_PER_S = 10.0
_BURST_MESSAGES = 20.0
_BYTES_PER_S = 300_000.0
_BURST_BYTES = 1_000_000.0
_MOST_BYTES = 1_000_000
_TAIL_LINES = 40
_TAIL_BYTES = 32_768
_TAIL_COLUMNS = 300


class LiveCard:
    """A job's card in the cell that was running at its creation."""

    def __init__(self, job: Job, *, is_complete: bool = False) -> None:
        self.job = job
        self._is_complete = is_complete
        self._shown: tuple[JobState, int] | None = None
        self._shown_s = 0.0
        # ipykernel sends a plain thread's output to the current cell (its parent header is a
        # ContextVar). A copy of this cell's context keeps the output in this cell.
        self._context = contextvars.copy_context()

    def show(self) -> None:
        """Show the card for the first time, or again after the cell was cleared."""
        self._publish(update=False)

    def appear(self) -> None:
        """Show the card if it is not shown yet. A short cell without output does not need its
        card."""
        if self._shown is None:
            self.show()

    def update(self, job: Job) -> None:
        """Show a new state at once, other changes within a second, and the elapsed time less often.
        If the page updates cards itself, send it only new states and changes of an ended job."""
        if job.revision < self.job.revision:
            return
        self.job = job
        if self.due_s() <= 0:
            self._publish(update=True)

    def complete(self) -> None:
        """Mark the card as complete: the cell has all output of the job, and the page can
        acknowledge it."""
        self._is_complete = True
        self._publish(update=True)

    def update_from_elsewhere(self, job: Job) -> None:
        """Update the card from another thread, after the cell has ended."""
        self._context.run(self.update, job)

    def no_news(self, problem: Problem) -> None:
        """Report once that the agent cannot get updates. `update` removes the note."""
        if self.job.problem is None and not renders_jobs():
            self.job = msgspec.structs.replace(
                self.job, problem=problem, problem_since_s=time.time()
            )
            self._context.run(self._publish, update=True)

    def due_s(self) -> float:
        """Return the seconds until the next update is due."""
        if self._shown is None:  # `appear` has not shown the card yet
            return _LONGEST_WAIT_S
        if self._shown[0] is not self.job.state:
            return 0.0
        past_s = time.monotonic() - self._shown_s
        is_new = self._shown[1] != self.job.revision
        if self.job.state.final:
            return 0.0 if is_new else _LONGEST_WAIT_S
        if renders_jobs():
            return _LONGEST_WAIT_S
        if is_new:
            return max(0.0, _BETWEEN_CHANGES_S - past_s)
        return max(0.0, _BETWEEN_CLOCKS_S - past_s)

    @property
    def settled(self) -> bool:
        """Return whether the job can no longer change."""
        job = self.job
        ended_s = job.ended_s or job.state_since_s
        old = time.time() - ended_s > _SETTLED_AFTER_S
        return job.state.final and (job.usage is not None or old)

    def _publish(self, *, update: bool) -> None:
        update = update and self._shown is not None
        state_is_new = self._shown is None or self._shown[0] is not self.job.state
        self._shown, self._shown_s = (self.job.state, self.job.revision), time.monotonic()
        if update and not in_place() and not state_is_new:
            return  # a terminal would print it a second time
        publish = change if update else show
        data = bundle(self.job, time.time(), is_complete=self._is_complete)
        publish(data, {}, display_id=f"slurm-card-{self.job.id}")


def wait_until_ready(
    api: Api,
    worker: Callable[[Callable[[], LogChunk]], LogChunk],
    card: LiveCard,
    is_ready: Callable[[Job], bool],
    stop: str,
    show: Callable[[LogChunk], None] = lambda _: None,
) -> None:
    """Wait until the card's job is ready or has ended. An interrupt raises a KeyboardInterrupt. Its
    message reports that the job continues, and names the command `stop`."""
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
    """The output of a job in this cell. The cell can stop and resume following, and shows each
    output once."""

    def __init__(self, api: Api, card: LiveCard, replay: Replay) -> None:
        self._api = api
        self._card = card
        self._replay = replay
        self._cursor = ""

    def run(self, worker: _Calls, *, until_s: float = float("inf")) -> Job:
        """Wait until the job has ended and all its output is shown, or until `until_s`
        (`time.monotonic()`). Return the job."""
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


class Pace:
    """The rate limit for publishing, with a bucket of messages and a bucket of bytes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at_s = clock()
        self._messages = _BURST_MESSAGES
        self._bytes = _BURST_BYTES

    def spend(self, size_bytes: int) -> None:
        self._refill()
        self._messages -= 1
        self._bytes -= size_bytes

    def pause_s(self) -> float:
        self._refill()
        return max(0.0, (1 - self._messages) / _MESSAGES_PER_S, -self._bytes / _BYTES_PER_S)

    def _refill(self) -> None:
        now_s = self._clock()
        past_s, self._at_s = now_s - self._at_s, now_s
        self._messages = min(_BURST_MESSAGES, self._messages + past_s * _MESSAGES_PER_S)
        self._bytes = min(_BURST_BYTES, self._bytes + past_s * _BYTES_PER_S)


class Replay:
    """The output of a job, shown chunk by chunk. Above `limit_bytes` of text, the cell shows only
    the last lines, updated in place.

    The stricter of `show_as` and the cluster's profile applies. `on_clear` is called after the job
    cleared the cell, to show its card again. `error` is the cell's exception, which the caller
    raises instead of printing it.
    """

    def __init__(
        self, job_id: str, limit_bytes: int, show_as: Show, on_clear: Callable[[], None]
    ) -> None:
        self.job_id = job_id
        self._show_as = show_as
        self.error: ErrorOutput | None = None
        self._limit_bytes = limit_bytes
        self._on_clear = on_clear
        self._clear_first = False
        self._left_bytes = limit_bytes
        self._pace = Pace()
        self._tail: _Tail | None = None
        self._stream_name: str | None = None
        self._has_written = False
        """True if text has been printed since the last flush. Even without text, a flush takes a
        kernel a millisecond."""
        self._coloured = Coloured()

    @property
    def budget_bytes(self) -> int:
        """Return the number of bytes of stream text to request next."""
        return _TAIL_BYTES if self._tail else max(1, min(self._left_bytes, _MOST_BYTES))

    def pause_s(self) -> float:
        """Return the seconds to wait before the next chunk. The agent buffers output until then."""
        return 1.0 if self._tail else self._pace.pause_s()

    def show(self, chunk: LogChunk) -> None:
        if chunk.skipped_bytes:
            self._tail = self._tail or _Tail(self.job_id)
            self._tail.skip(chunk.skipped_bytes)
        trust = stricter(chunk.show, self._show_as)
        for output in condense(chunk.outputs):
            match trusted_as(output, trust):
                case Stream() as stream:
                    self._stream(stream)
                case ClearOutput() as clearing:
                    self._clear(clearing)
                case ErrorOutput() as error:
                    self.error = error
                case (DisplayData() | UpdateDisplayData() | ExecuteResult()) as shown:
                    self._display(shown)
                case Hello():
                    pass
        self._flush()
        if self._tail and (chunk.end or in_place()):
            self._tail.show()

    def _flush(self) -> None:
        if self._has_written:
            self._has_written = False
            flush()

    def _clear(self, output: ClearOutput) -> None:
        self._left_bytes, self._tail = self._limit_bytes, None
        self._clear_first = True
        if not output.wait:
            self._clear_now(wait=False)

    def _clear_now(self, *, wait: bool) -> None:
        self._clear_first = False
        self._flush()
        clear(wait=wait)
        self._on_clear()

    def _stream(self, output: Stream) -> None:
        if self._clear_first:
            self._clear_now(wait=True)
        # A lone surrogate cannot be sent to the front end.
        data = output.text.encode("utf-8", "replace")
        if output.name != self._stream_name:
            self._flush()  # each stream has its own buffer: keep their order
            self._stream_name = output.name
        if self._tail is None:
            head = data[: self._left_bytes].decode("utf-8", "ignore")
            self._pace.spend(len(head))
            shown = head if in_place() else self._coloured.feed(head)
            (sys.stderr if output.name == "stderr" else sys.stdout).write(shown)
            self._has_written = True
            self._left_bytes -= len(head.encode())
            data = data[len(head.encode()) :]
            if not data:
                return
            self._tail = _Tail(self.job_id)
        self._tail.add(data.decode())

    def _display(self, output: DisplayData | UpdateDisplayData | ExecuteResult) -> None:
        if self._clear_first:
            self._clear_now(wait=True)
        while pause_s := self._pace.pause_s():
            time.sleep(pause_s)
        size_bytes = sum(len(value) for value in output.data.values() if isinstance(value, str))
        self._pace.spend(size_bytes)
        self._flush()
        match output:
            case UpdateDisplayData():
                change(output.data, output.metadata, display_id=self._id(output.display_id))
            case DisplayData(display_id=str(display_id)):
                show(output.data, output.metadata, display_id=self._id(display_id))
            case _:
                show(output.data, output.metadata)

    def _id(self, display_id: str) -> str:
        """Return a display ID for this job only, since another job or this kernel may use the same
        ID."""
        return f"slurm-{self.job_id}-{display_id}"


class _Tail:
    """The last lines of a log that is too long for a notebook, in one updated display."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._partial = ""
        self._more_bytes = 0
        self._shown = False

    def skip(self, skipped_bytes: int) -> None:
        self._more_bytes += skipped_bytes
        self._lines.clear()
        self._partial = ""

    def add(self, text: str) -> None:
        self._more_bytes += len(text.encode("utf-8", "replace"))
        *whole, partial = (self._partial + text[-_TAIL_BYTES:]).split("\n")
        self._lines.extend(_last_of_overwritten(line) for line in whole)
        self._partial = partial[-_TAIL_BYTES:]

    def show(self) -> None:
        head = (
            f"… {self._more_bytes / 1e6:.1f} MB more. These are the last lines. Save the whole "
            f"log with `%slurm logs {self._job_id} --to FILE`."
        )
        lines = [*self._lines, _last_of_overwritten(self._partial)]
        text = "\n".join([head, *lines]).encode("utf-8", "replace").decode()
        data = {"text/plain": text}
        (change if self._shown else show)(data, {}, display_id=f"slurm-tail-{self._job_id}")
        self._shown = True


def _last_of_overwritten(line: str) -> str:
    """Return the part of a line that is visible after its carriage returns."""
    return line.rstrip("\r").rpartition("\r")[2][:_TAIL_COLUMNS]


def condense(outputs: Iterable[Output]) -> list[Output]:
    """Return equivalent outputs in fewer messages: drop output that is cleared at once, join text
    of the same stream, and keep the last of several updates of one display."""
    kept: list[Output] = []
    updates: dict[str, int] = {}
    for output in _joined(outputs):
        match output:
            case ClearOutput():
                kept, updates = [one for one in kept if isinstance(one, ErrorOutput)], {}
            case UpdateDisplayData():
                before = updates.setdefault(output.display_id, len(kept))
                if before < len(kept):
                    kept[before] = output
                    continue
            case DisplayData(display_id=str(shown_again)):
                updates.pop(shown_again, None)
            case _:
                pass
        kept.append(output)
    return kept


def _joined(outputs: Iterable[Output]) -> Iterator[Output]:
    for name, group in groupby(outputs, lambda one: one.name if isinstance(one, Stream) else None):
        if name is None:
            yield from group
        else:
            text = "".join(one.text for one in group if isinstance(one, Stream))
            yield Stream(name=name, text=text)


class LiveCards:
    """The cards of the background thread, updated until their jobs have ended."""

    def __init__(self, api: Callable[[], Api]) -> None:
        self._api = api
        self._cards: dict[str, LiveCard] = {}
        self._has_new = False
        """True if there is a new card, whose job may have changed since the cursor."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, card: LiveCard) -> None:
        card.appear()
        with self._lock:
            self._cards[card.job.id] = card
            self._has_new = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._keep, name="jupyter-slurm cards", daemon=True
                )
                self._thread.start()

    def drop(self, job_id: str) -> None:
        """Drop the card of this job, because a waiting cell now updates it."""
        with self._lock:
            self._cards.pop(job_id, None)

    def _keep(self) -> None:
        cursor = ""
        while self._unsettled():
            cursor = self._from(cursor)
            try:
                changes = self._api().changes(cursor, wait_s=self._wait_s())
                cursor = changes.cursor
                self._update({job.id: job for job in changes.jobs})
                time.sleep(_PACE_S)
            except JupyterSlurmError as exc:
                self._say(exc)
                cursor = ""  # reload all jobs, so that the cards drop the problem
                time.sleep(_RETRY_S)
            except Exception as exc:  # noqa: BLE001 - otherwise lost
                self._say(JupyterSlurmError(f"This card is no longer updated: {exc!r}"))
                with self._lock:
                    self._cards.clear()

    def _now(self) -> list[LiveCard]:
        with self._lock:
            return list(self._cards.values())

    def _unsettled(self) -> bool:
        with self._lock:
            self._cards = {key: card for key, card in self._cards.items() if not card.settled}
            if not self._cards:
                self._thread = None
            return bool(self._cards)

    def _from(self, cursor: str) -> str:
        """Return the cursor; "" if there is a new card."""
        with self._lock:
            has_new, self._has_new = self._has_new, False
        return "" if has_new else cursor

    def _wait_s(self) -> float:
        return min([_LONGEST_WAIT_S, *(max(0.1, card.due_s()) for card in self._now())])

    def _update(self, jobs: dict[str, Job]) -> None:
        for card in self._now():
            card.update_from_elsewhere(jobs.get(card.job.id, card.job))

    def _say(self, exc: JupyterSlurmError) -> None:
        for card in self._now():
            card.no_news(exc.problem())
