"""The watchdog of an open connection. It checks that the connection answers, and reconnects.

Each connection has one thread, which mostly sleeps until the connection ends. `connection.py`
handles a lost connection.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.wire import ConnectionState, Problem

if TYPE_CHECKING:
    from jupyter_slurm.transport.ssh.connection import SshConnection
    from jupyter_slurm.transport.ssh.master import Master

_INTERVAL_S = 15.0
_PING_S = 3.0
_STEP_S = 1.0
"""Seconds between checks of whether this machine has slept and whether the connection is silent."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_SLEPT_S = 2.0
"""Difference of the clocks, in seconds, above which the machine counts as having slept."""
_PATIENCE_S = 180.0
"""Seconds before giving up a silent connection if a reconnect needs the user. Most networks recover
sooner, and TCP then continues."""
_SILENT_INTERVAL_S = 2.0


class Watchdog:
    def __init__(self, connection: SshConnection) -> None:
        self._connection = connection
        self._wake = threading.Condition()
        self._looking = threading.Lock()
        self._thread: threading.Thread | None = None
        self._silent_since: float | None = None
        self._skew = _skew_s()
        self._looked_at = float("-inf")

    @property
    def silent(self) -> bool:
        """Return whether the connection does not answer but is still open."""
        return self._silent_since is not None

    def start(self) -> None:
        """Start watching after a login."""
        with self._wake:
            self._silent_since = None
            self._skew = _skew_s()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name=f"ssh-watch-{self._connection.name}", daemon=True
                )
                self._thread.start()
            self._wake.notify_all()

    def dismiss(self) -> threading.Thread | None:
        """Dismiss the watching thread and return it; it ends soon. The next `start` creates
        another."""
        with self._wake:
            self._silent_since = None
            thread, self._thread = self._thread, None
            self._wake.notify_all()
        return thread

    @property
    def _dismissed(self) -> bool:
        """Return, in the watching thread, whether it was dismissed."""
        return self._thread is not threading.current_thread()

    def before_use(self) -> None:
        """Check the connection if the machine has slept since the last check."""
        if self._has_slept():
            with self._looking:
                if self._has_slept():
                    self._look()

    def look(self) -> None:
        """Ping the hops, and drop those that do not answer. One thread at a time pings; other
        threads wait for its result."""
        began = time.monotonic()
        with self._looking:
            if self._looked_at < began:
                self._look()

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        skew_s = _skew_s()
        try:
            self._ask()
        finally:
            self._skew = skew_s  # not earlier, because others wait for this answer

    def _ask(self) -> None:
        links = self._connection.links
        if not links or not self._watched():
            return
        *outer, last = links
        round_trip_s = self._connection.ping(_PING_S)
        dead = len(outer)
        if round_trip_s is None:
            dead = next((i for i, one in enumerate(outer) if one.ping(_PING_S) is None), dead)
            if outer and dead == len(outer):
                # Try again, because the network may have recovered.
                round_trip_s = last.ping(_PING_S)
        if round_trip_s is None:
            self._judge(links, dead)
            return
        self._silent_since = None
        self._connection.answers_again(round_trip_s)

    def _watched(self) -> bool:
        return self._connection.state is ConnectionState.OPEN or self.silent

    def _has_slept(self) -> bool:
        return _skew_s() - self._skew > _SLEPT_S

    def _judge(self, links: tuple[Master, ...], dead: int) -> None:
        """Give up these links or wait for them, because link `dead` does not answer or has
        ended."""
        if self._connection.links[: dead + 1] != links[: dead + 1]:
            return  # closed since then, perhaps reopened
        label = links[dead].hop.label
        ended = not links[dead].alive
        now = time.monotonic()
        if not ended and any(one.needs_person for one in links[dead:]):
            self._silent_since = self._silent_since or now
            if now - self._silent_since < _PATIENCE_S:
                self._connection.fall_silent(_problem(f"{label} does not answer at the moment."))
                return
        self._silent_since = None
        sentence = (
            f"The connection to {label} dropped."
            if ended
            else f"The connection to {label} was closed because it no longer answers."
        )
        self._connection.lose(links[dead], _problem(sentence))

    # --- the watching thread ---

    def _watch(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._ends():
            if self._watched() and self._connection.links:
                self._sleep()
                pause_s = _FIRST_PAUSE_S
            elif self._connection.state is ConnectionState.LOST:
                self._pause(pause_s * random.uniform(0.8, 1.2))  # noqa: S311 (no secret)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                self._come_back()
            else:
                self._pause(_INTERVAL_S)

    def _ends(self) -> bool:
        with self._wake:
            if self._dismissed:
                return True
            if self._connection.state in {ConnectionState.CLOSED, ConnectionState.LOGIN_NEEDED}:
                self._thread = None
                return True
            return False

    def _sleep(self) -> None:
        """Sleep until the next check is due or the connection has ended; then check."""
        links = self._connection.links
        if not links:
            return
        last = links[-1]
        while not self._dismissed and last.alive:
            left_s = last.hop.alive_interval_s - self._connection.idle_s
            if self.silent:
                last.wait(_SILENT_INTERVAL_S)
                break
            if left_s <= 0:
                break
            before = time.monotonic()
            last.wait(min(left_s, _STEP_S))
            if self._has_slept() or time.monotonic() - before > _STEP_S + _SLEPT_S:
                break
        if not self._dismissed:
            with self._looking:
                self._look()

    def _pause(self, pause_s: float) -> None:
        with self._wake:
            if not self._dismissed:
                self._wake.wait(pause_s)

    def _come_back(self) -> None:
        if self._dismissed:
            return
        try:
            self._connection.come_back()
        except JupyterSlurmError:
            return  # the connection has it as its `problem`


def _skew_s() -> float:
    """Return the seconds that this machine has slept since its start (Linux only; otherwise 0)."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def _problem(sentence: str) -> Problem:
    return Problem(code="connection-lost", message=sentence, transient=True)
