"""Sessions over a connection, as many at once as the host allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport.ssh.master import Master
from jupyter_slurm.transport.ssh.mux import RefusedError, Session

_MOST_SESSIONS = 8
"""The initial limit: sshd allows ten by default (MaxSessions), and two may still be ending."""
_LEARNED_FOR_S = 600.0
"""Seconds to remember a limit learned from a refusal, because commands that outlived their channels
may have caused it."""
_DYING_S = 0.5
"""Seconds to wait for a master to end after it has closed its sockets."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0


class Sessions:
    """The session budget of one connection. `suspect` is called when the host does not answer."""

    def __init__(self, name: str, suspect: Callable[[], None]) -> None:
        self._name = name
        self._suspect = suspect
        self._changed = threading.Condition()
        self._taken = 0
        self._learned = _MOST_SESSIONS
        self._learned_at = float("-inf")
        self._generation = 0

    @property
    def limit(self) -> int:
        recent = time.monotonic() - self._learned_at < _LEARNED_FOR_S
        return self._learned if recent else _MOST_SESSIONS

    @contextmanager
    def session(self, link: Master, command: str, timeout_s: float) -> Iterator[Session]:
        """Yield a session that runs `command`, and close it at the end. Raises TransportError or
        ConnectionLostError."""
        if not link.sessions:
            raise TransportError(
                f"{link.hop.label} does not allow SSH sessions.",
                hint=(
                    "Ask its administrators to allow sessions (MaxSessions), or to name the login "
                    "host if this host is only a gateway."
                ),
            )
        session = self._open(link, command, timeout_s)
        try:
            yield session
        except OSError as exc:
            if not link.wait(_DYING_S):
                raise
            raise self._broken() from exc
        finally:
            session.close()
            self._give_back()

    def renew(self) -> None:
        """Forget the learned limit, after another login."""
        with self._changed:
            self._learned_at = float("-inf")
            self._changed.notify_all()

    def send_away(self) -> None:
        """End all calls that wait for a slot."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()

    def _open(self, link: Master, command: str, timeout_s: float) -> Session:
        """Open a session and take a slot. Retry after a refusal: sshd counts a session until its
        command has ended, perhaps after its channel has closed."""
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_PAUSE_S
        while (left_s := deadline - time.monotonic()) > 0 and self._take(left_s):
            try:
                return link.session(command, left_s)
            except RefusedError:
                self._learn()
            except (ConnectionLostError, OSError) as exc:
                self._give_back()
                self._suspect()
                raise self._broken() from exc
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if not link.alive:
            raise self._broken()
        raise TransportError(
            f"{link.hop.label} allows {self.limit} commands at a time, and all of them are "
            "still running.",
            hint="End hanging commands with `%slurm logout`.",
        )

    def _take(self, timeout_s: float) -> bool:
        """Take a slot. Return False if none was free in time, or if all waiting calls were
        ended."""
        with self._changed:
            generation = self._generation
            self._changed.wait_for(
                lambda: self._taken < self.limit or self._generation != generation, timeout_s
            )
            if self._taken >= self.limit or self._generation != generation:
                return False
            self._taken += 1
            return True

    def _give_back(self) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()

    def _learn(self) -> None:
        """Learn from a refusal that the host allows only as many sessions as are open now."""
        with self._changed:
            self._taken -= 1
            self._learned = max(1, self._taken)
            self._learned_at = time.monotonic()
            self._changed.notify_all()  # the freed slot may be the only free one

    def _broken(self) -> ConnectionLostError:
        return ConnectionLostError(f"The connection to {self._name} dropped while in use.")
