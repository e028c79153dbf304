"""Values that are polled only while clients watch them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jupyter_slurm.jobs.records.change_log import Cursors
from jupyter_slurm.wire import Problem

_OLD_IS_SHOWN_AFTER_S = 1.0
_BACK_OFF_LONGEST_S = 300.0
_BACK_OFF_DOUBLINGS = 16


def backed_off_s(interval_s: float, errors: int) -> float:
    """Return the pause before polling again after a number of errors in a row."""
    doubled_s: float = interval_s * 2.0 ** min(errors, _BACK_OFF_DOUBLINGS)
    return min(doubled_s, _BACK_OFF_LONGEST_S)


class Viewers:
    """A count of the clients that watch a value. With viewers, the value is polled every
    `interval_s`. A client counts as a viewer for `interval_s` after a call, since it needs a moment
    to call again."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self.asked_s: float | None = None
        """The time of the last answer, in UTC epoch seconds."""
        self.problem: Problem | None = None
        """The reason why the last poll failed."""
        self._tried_s = float("-inf")
        self._counting = threading.Lock()
        self._viewing = 0
        self._left_s = float("-inf")

    @property
    def has_viewers(self) -> bool:
        return self._viewing > 0 or time.monotonic() - self._left_s < self.interval_s

    @property
    def due_s(self) -> float:
        """Seconds until the next poll is allowed."""
        return max(0.0, self._tried_s + self.interval_s - time.monotonic())

    @property
    def is_old(self) -> bool:
        """Return whether the value is outdated because no client was watching."""
        return time.monotonic() - self._tried_s > 2 * self.interval_s

    @contextmanager
    def viewing(self, begin: Callable[[], None]) -> Iterator[None]:
        """Count a viewer; call `begin` for the first viewer."""
        with self._counting:
            is_first = not self.has_viewers
            self._viewing += 1
        try:
            if is_first:
                begin()
            yield
        finally:
            with self._counting:
                # Keep this order, so that a caller without the lock always finds a viewer.
                self._left_s = time.monotonic()
                self._viewing -= 1

    def tried(self, problem: Problem | None) -> bool:
        """Record an answer, or the reason why a poll failed. Return whether viewers see a
        difference."""
        is_other = self.asked_s is None or problem != self.problem or self.is_old
        self._tried_s, self.problem = time.monotonic(), problem
        if problem is None:
            self.asked_s = time.time()
        return is_other


class OnDemand(Viewers):
    """A value polled while clients watch; `lock` guards it."""

    def __init__(self, interval_s: float, closed: Callable[[], bool]) -> None:
        """Start without an answer. `closed` returns whether clients must stop waiting."""
        super().__init__(interval_s)
        self.lock = threading.Condition()
        self.cursors = Cursors()
        self._closed = closed

    @property
    def cursor(self) -> str:
        return self.cursors.cursor(self.cursors.latest)

    # --- for viewers ---

    @contextmanager
    def look(self, cursor: str, wait_s: float, begin: Callable[[], None]) -> Iterator[int | None]:
        """Wait up to `wait_s` for changes after `cursor`, then hold the lock. Yield the revision
        that the caller has, or None. Call `begin` for the first viewer."""
        with self.lock, self.viewing(begin):
            known, _ = self.cursors.read(cursor)
            self._wait(known, wait_s)
            yield known

    def _wait(self, known: int | None, wait_s: float) -> None:
        now_s = time.monotonic()
        # A client with an older cursor gets the new poll time, even without changes.
        is_old_known = known is not None and self._tried_s < now_s - 2 * self.interval_s

        def ready() -> bool:
            if self._closed():
                return True
            if known is None or is_old_known:
                # Return an outdated value only if a newer value does not arrive at once.
                return self._tried_s > now_s - self.interval_s
            return self.cursors.latest > known

        is_old_there = known is None and self._tried_s > float("-inf")
        self.lock.wait_for(ready, min(wait_s, _OLD_IS_SHOWN_AFTER_S) if is_old_there else wait_s)

    def wake(self) -> None:
        """Make waiting calls check their condition."""
        with self.lock:
            self.lock.notify_all()

    # --- for the poller ---

    def answered(self, *, changed: bool) -> None:
        """Record an answer. `changed` is set if the value differs and has a new revision."""
        with self.lock:
            is_first = self.asked_s is None
            self._tell(changed or is_first, None)

    def failed(self, problem: Problem) -> None:
        """Record a failed poll."""
        with self.lock:
            self._tell(False, problem)

    def _tell(self, changed: bool, problem: Problem | None) -> None:
        if changed or problem != self.problem:
            self.cursors.latest += 1
        self.tried(problem)
        self.lock.notify_all()
