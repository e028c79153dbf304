"""Where something is put up that a cluster is asked for only while somebody looks at it.

Knows the clients that look, how far each knows and when to tell it; what it is, and how it is asked
for, is others'.
"""

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


class OnDemand:
    """`lock` guards what is put up. `interval_s`: how often it is asked for while somebody looks;
    so long a client that has looked counts as looking, for between two looks there is a moment."""

    def __init__(self, interval_s: float, closed: Callable[[], bool]) -> None:
        """Begin without an answer. `closed`: nobody is to wait any more."""
        self.lock = threading.Condition()
        self.cursors = Cursors()
        self.asked_s: float | None = None
        """When there was last an answer, in UTC epoch seconds."""
        self.problem: Problem | None = None
        """Why there was none since."""
        self.interval_s = interval_s
        self._closed = closed
        self._tried_s = float("-inf")
        self._looking = 0
        self._left_s = float("-inf")

    @property
    def cursor(self) -> str:
        return self.cursors.cursor(self.cursors.latest)

    @property
    def looked_at(self) -> bool:
        return self._looking > 0 or time.monotonic() - self._left_s < self.interval_s

    @property
    def due_s(self) -> float:
        """Seconds until it may be asked for again."""
        return max(0.0, self._tried_s + self.interval_s - time.monotonic())

    # --- for those who look ---

    @contextmanager
    def look(self, cursor: str, wait_s: float, begin: Callable[[], None]) -> Iterator[int | None]:
        """Wait up to `wait_s` for news after `cursor`, then hold the lock. Yield the revision that
        the caller knows; None: nothing.

        `begin` is called, with the lock, when nobody has looked before.
        """
        with self.lock:
            was_looked_at = self.looked_at
            self._looking += 1
            try:
                if not was_looked_at:
                    begin()
                known, _ = self.cursors.read(cursor)
                self._wait(known, wait_s)
                yield known
            finally:
                # In this order: in between, too, a caller without the lock sees somebody look.
                self._left_s = time.monotonic()
                self._looking -= 1

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
            self.asked_s = time.time()
            self._tell(changed or is_first, None)

    def failed(self, problem: Problem) -> None:
        """Note that there was no answer."""
        with self.lock:
            self._tell(False, problem)

    def _tell(self, changed: bool, problem: Problem | None) -> None:
        self._tried_s = time.monotonic()
        if changed or problem != self.problem:
            self.problem = problem
            self.cursors.latest += 1
        self.lock.notify_all()
