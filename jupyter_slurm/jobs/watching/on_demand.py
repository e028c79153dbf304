"""Viewers of what a cluster is asked for only while a client looks, and a value put up for them."""

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
    """Return how long to leave alone a cluster that was asked in vain so often in a row."""
    doubled_s: float = interval_s * 2.0 ** min(errors, _BACK_OFF_DOUBLINGS)
    return min(doubled_s, _BACK_OFF_LONGEST_S)


class Viewers:
    """Counts the clients that look at something which is asked for every `interval_s` meanwhile. A
    client that has looked counts as a viewer that long: it takes a moment to look again."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self.asked_s: float | None = None
        """When there was last an answer, in UTC epoch seconds."""
        self.problem: Problem | None = None
        """Why there was none since."""
        self._tried_s = float("-inf")
        self._counting = threading.Lock()
        self._viewing = 0
        self._left_s = float("-inf")

    @property
    def has_viewers(self) -> bool:
        return self._viewing > 0 or time.monotonic() - self._left_s < self.interval_s

    @property
    def due_s(self) -> float:
        """Seconds until it may be asked for again."""
        return max(0.0, self._tried_s + self.interval_s - time.monotonic())

    @property
    def is_old(self) -> bool:
        """Tell whether it was not asked for in time, as no client has looked."""
        return time.monotonic() - self._tried_s > 2 * self.interval_s

    @contextmanager
    def viewing(self, begin: Callable[[], None]) -> Iterator[None]:
        """Count a viewer. Call `begin` for the first one."""
        with self._counting:
            is_first = not self.has_viewers
            self._viewing += 1
        try:
            if is_first:
                begin()
            yield
        finally:
            with self._counting:
                # In this order: in between, too, a caller without the lock finds a viewer.
                self._left_s = time.monotonic()
                self._viewing -= 1

    def tried(self, problem: Problem | None) -> bool:
        """Note an answer, or why there was none; return whether viewers see a difference."""
        is_other = self.asked_s is None or problem != self.problem or self.is_old
        self._tried_s, self.problem = time.monotonic(), problem
        if problem is None:
            self.asked_s = time.time()
        return is_other


class OnDemand(Viewers):
    """A value that is asked for while clients look; `lock` guards the value."""

    def __init__(self, interval_s: float, closed: Callable[[], bool]) -> None:
        """Begin without an answer. `closed`: no client may wait any more."""
        super().__init__(interval_s)
        self.lock = threading.Condition()
        self.cursors = Cursors()
        self._closed = closed

    @property
    def cursor(self) -> str:
        return self.cursors.cursor(self.cursors.latest)

    # --- for those who look ---

    @contextmanager
    def look(self, cursor: str, wait_s: float, begin: Callable[[], None]) -> Iterator[int | None]:
        """Wait up to `wait_s` for news after `cursor`, then hold the lock. Yield the revision that
        the caller knows; None: nothing. Call `begin` for the first viewer."""
        with self.lock, self.viewing(begin):
            known, _ = self.cursors.read(cursor)
            self._wait(known, wait_s)
            yield known

    def _wait(self, known: int | None, wait_s: float) -> None:
        now_s = time.monotonic()
        # A client of an older cursor is told when it was asked anew, though nothing has changed.
        is_old_known = known is not None and self._tried_s < now_s - 2 * self.interval_s

        def ready() -> bool:
            if self._closed():
                return True
            if known is None or is_old_known:
                # What is old is shown only if nothing newer comes at once.
                return self._tried_s > now_s - self.interval_s
            return self.cursors.latest > known

        is_old_there = known is None and self._tried_s > float("-inf")
        self.lock.wait_for(ready, min(wait_s, _OLD_IS_SHOWN_AFTER_S) if is_old_there else wait_s)

    def wake(self) -> None:
        """Make waiting calls look whether they are over."""
        with self.lock:
            self.lock.notify_all()

    # --- for the one that asks ---

    def answered(self, *, changed: bool) -> None:
        """Note an answer; `changed`: another than before, put up at the next revision."""
        with self.lock:
            is_first = self.asked_s is None
            self._tell(changed or is_first, None)

    def failed(self, problem: Problem) -> None:
        """Note that there was no answer."""
        with self.lock:
            self._tell(False, problem)

    def _tell(self, changed: bool, problem: Problem | None) -> None:
        if changed or problem != self.problem:
            self.cursors.latest += 1
        self.tried(problem)
        self.lock.notify_all()
