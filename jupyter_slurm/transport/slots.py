"""How many sessions may be open on a connection at once, and who is next. Opens nothing itself."""

from __future__ import annotations

import threading
import time

MOST_SESSIONS = 8
"""sshd allows ten by default (MaxSessions); two are left for what its own side is still ending."""
_LEARNED_FOR_S = 600.0
"""A refusal may have come from commands that went on after their channel was closed."""


class Slots:
    """A counted budget; threads wait for a slot."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = 0
        self._learned = MOST_SESSIONS
        self._learned_at = 0.0
        self._generation = 0

    @property
    def limit(self) -> int:
        recent = time.monotonic() - self._learned_at < _LEARNED_FOR_S
        return self._learned if recent else MOST_SESSIONS

    def take(self, timeout_s: float) -> bool:
        """False: none was free in time, or everybody has been sent away."""
        with self._changed:
            generation = self._generation
            free = self._changed.wait_for(
                lambda: self._taken < self.limit or self._generation != generation, timeout_s
            )
            if not free or self._generation != generation:
                return False
            self._taken += 1
            return True

    def give_back(self) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()

    def give_back_refused(self) -> None:
        """The host has refused the session for which a slot was taken: it allows no more than are
        open now."""
        with self._changed:
            self._taken -= 1
            self._learned = max(1, self._taken)
            self._learned_at = time.monotonic()

    def renew(self) -> None:
        """Another connection: nothing is known of its limit."""
        with self._changed:
            self._learned_at = 0.0
            self._changed.notify_all()

    def send_away(self) -> None:
        """Whoever waits for a slot waits no longer."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()
