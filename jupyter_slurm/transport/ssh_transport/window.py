"""How much the peer may send on a channel before it has to wait for us: arithmetic, no I/O.

A small window makes a long line slow; a large one fills the queues of a narrow line, and all else
on the connection waits behind it. So windows follow what is measured: goodput, and round trips.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from paramiko.ssh_exception import SSHException

FIRST_BYTES = 1 << 19
CARRIED_BYTES = 6 << 17
"""At first, of a carried socket. Where other programs want the processor too, each end fills and
empties more of a larger one in its turn: with half of this a download took a third longer. With a
third more, others' round trips meanwhile were longer than beside `ssh -L`."""
_LEAST_BYTES = 1 << 17
_MOST_BYTES = 1 << 24
_LEAST_QUEUE_S = 0.01
_MOST_QUEUE_S = 0.03
"""The time that data of one channel may stand in the line's queues: half of what the line itself
takes, within these. Less would let a window on a long line grow too slowly."""
_INFLATED_S = 0.025
_ROOM = 2.5
"""A window may be this many times what is under way in the shortest round trip, so that it doubles
with each until the line is full."""
_SAMPLE_S = 0.03
_FORGET_S = 30.0
_DRAINING_SAMPLES = 4


class Window:
    """The credit of one channel. `size_bytes` is what the peer may have sent and nobody taken."""

    def __init__(self, size_bytes: int = FIRST_BYTES) -> None:
        self.size_bytes = size_bytes
        self.least_bytes = min(size_bytes, _LEAST_BYTES)
        self.first_bytes = size_bytes
        self.taken_bytes = 0
        self._came_bytes = 0
        self._open_bytes = size_bytes
        self._seen_bytes = 0

    def take(self, n: int) -> int:
        """Note that readers have `n` bytes more; return how many to allow the peer now."""
        self.taken_bytes += n
        self._open_bytes -= n
        due = self.size_bytes - self._open_bytes
        if due <= self.size_bytes >> 3:
            return 0
        self._open_bytes += due
        return due

    def came(self, n: int) -> None:
        """Note that `n` bytes have come from the peer. SSHException: it may not send that many, and
        would fill our memory."""
        self._came_bytes += n
        if self._came_bytes - self.taken_bytes > self._open_bytes:
            raise SSHException("the server sends more than it was allowed: its window is exceeded")

    def taken_since(self) -> int:
        """Return the bytes taken since this was last asked."""
        since = self.taken_bytes - self._seen_bytes
        self._seen_bytes = self.taken_bytes
        return since


class Pace:
    """Sizes the windows of one connection by its round trips.

    The shortest round trip is what the line itself takes. It is measured anew from time to time,
    with the windows small for a few round trips, so that the queues that they fill are empty.
    """

    def __init__(self) -> None:
        self._line_s = math.inf
        self._measured_s = -math.inf
        self._draining = 0
        self._sampled_s = -math.inf
        self._asked = False
        self._sent_bytes = 0

    def wants_sample(self, now_s: float) -> bool:
        """Tell whether to measure a round trip now; `sampled` is called with it."""
        if self._asked or now_s - self._sampled_s < _SAMPLE_S:
            return False
        self._asked = True
        return True

    def sampled(
        self, round_trip_s: float, now_s: float, windows: Iterable[Window], sent_bytes: int
    ) -> None:
        """Learn from a round trip. `sent_bytes`: all that has ever gone the other way."""
        self._asked = False
        since_s, self._sampled_s = now_s - self._sampled_s, now_s
        sent, self._sent_bytes = sent_bytes - self._sent_bytes, sent_bytes
        taken = [(window, window.taken_since()) for window in windows]
        # A round trip that is long because of what we send is not a reason to receive less.
        full = self._inflated(round_trip_s) and 4 * sent < sum(n for _, n in taken)
        self._measure_line(round_trip_s, now_s, full)
        for window, n in taken:
            if self._draining:
                window.size_bytes = window.least_bytes
            elif n and since_s < 1 + 4 * round_trip_s:  # after a pause it may have become faster
                wanted = self._wanted(window, n / since_s)
                window.size_bytes = wanted if full else max(wanted, window.size_bytes)

    def _inflated(self, round_trip_s: float) -> bool:
        return round_trip_s - self._line_s > _INFLATED_S  # never at first: the line is not known

    def _measure_line(self, round_trip_s: float, now_s: float, full: bool) -> None:
        if self._draining:
            self._draining -= 1
            if not self._draining:
                self._line_s = round_trip_s
        elif full and now_s - self._measured_s > _FORGET_S:
            self._draining = _DRAINING_SAMPLES
        if not full:
            self._measured_s = now_s
        self._line_s = min(self._line_s, round_trip_s)

    def _wanted(self, window: Window, goodput: float) -> int:
        queue_s = min(max(_LEAST_QUEUE_S, self._line_s / 2), _MOST_QUEUE_S)
        queued = int(goodput * (self._line_s + queue_s))
        wanted = min(queued, max(window.first_bytes, int(_ROOM * goodput * self._line_s)))
        return min(max(wanted, window.least_bytes), _MOST_BYTES)
