"""One way to a cluster, shared by everybody who uses it: opened once, kept, brought back.

Knows states and who waits for what. How a hop is logged in to is in `hops.py`, when the connection
is looked at in `watchdog.py`, what runs over it above.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from jupyter_slurm.errors import (
    ConnectionLostError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.transport import openssh
from jupyter_slurm.transport.ask import Ask, Prompt, nobody
from jupyter_slurm.transport.hops import Link, link
from jupyter_slurm.transport.identities import UnlockedKeys
from jupyter_slurm.transport.sessions import Sessions
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.transport.ssh_stream import SharedChannel
from jupyter_slurm.transport.ssh_transport import SharedTransport
from jupyter_slurm.transport.watchdog import Watchdog
from jupyter_slurm.wire import ConnectionState, Problem

_AGAIN_AFTER_S, _LONGEST_AGAIN_AFTER_S = 1.0, 10.0
"""Within this time after a failure, which doubles with each, it is told again, not tried again."""

_Error = TypeVar("_Error", bound=JupyterSlurmError)


class _Attempt:
    """A login that goes on; whoever comes meanwhile waits for it."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.cancelled = False
        self.transports: list[SharedTransport] = []
        self.error: JupyterSlurmError | None = None
        self.done = False


class Connection:
    """One login chain, kept alive, shared by all who use the cluster."""

    def __init__(
        self,
        hops: Sequence[Hop],
        *,
        name: str,
        hint: str = "",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`hops`: as `ssh_config.route` gives them. `name`: the cluster's, for sentences. `hint`:
        what to look at when the first hop cannot be reached. `on_change` is called after each
        change of `state`, from any thread, and must not block."""
        self.hops = tuple(hops)
        self.name = name
        self.state = ConnectionState.CLOSED
        self.problem: Problem | None = None
        self.since_s = time.time()
        """When `state` last changed, in UTC epoch seconds."""
        self.round_trip_s: float | None = None
        self.generation = 0
        """One more at each login, of whichever hop."""
        self._hint = hint
        self._on_change = on_change
        self._changed = threading.Condition()
        self._links: list[Link] = []
        self._attempt: _Attempt | None = None
        self._failed_at = float("-inf")
        self._again_after_s = _AGAIN_AFTER_S
        self._sessions = Sessions(name, self.suspect)
        self._unlocked = UnlockedKeys()
        self._watchdog = Watchdog(self)

    @property
    def via_openssh(self) -> bool:
        """Whether OpenSSH's login is used."""
        return bool(self._links) and self._links[0].stream is None

    @property
    def hosts(self) -> tuple[str, ...]:
        """`user@host` of each hop, the cluster's own last."""
        return tuple(hop.label for hop in self.hops)

    @property
    def sessions_limit(self) -> int:
        """As many sessions as are open at once at most."""
        return self._sessions.limit

    @property
    def links(self) -> tuple[Link, ...]:
        """The hops that stand, the nearest first; all of them when it is open."""
        return tuple(self._links)

    # --- opening ---

    def open(self, ask: Ask = nobody) -> None:
        """Logs in where that is needed. Who calls meanwhile waits for the same login, and tries
        with a person of their own where it failed for want of one.

        LoginNeededError, LoginError, HostKeyError, TransportError.
        """
        while True:
            with self._changed:
                if self._stands():
                    return
                attempt = self._attempt
                if attempt is None:
                    self._refuse_early(ask)
                    attempt = self._attempt = _Attempt(ask)
                    break
                self._changed.wait_for(lambda a=attempt: a.done)  # type: ignore[misc]
                if attempt.error is not None and (ask is nobody or attempt.ask is not nobody):
                    raise _another(attempt.error) from attempt.error
        self._try(attempt)

    def transport(self) -> SharedTransport:
        """The last hop's; opened without a person where needed. LoginNeededError,
        TransportError."""
        return self._last().transport

    def _last(self) -> Link:
        self._watchdog.after_sleep()
        with self._changed:
            if self._stands():
                return self._links[-1]
        self.open()
        with self._changed:
            if self._stands():
                return self._links[-1]
            raise self._as_lost()

    def _stands(self) -> bool:
        return (
            self.state is ConnectionState.OPEN
            and len(self._links) > 0
            and all(one.alive for one in self._links)
        )

    def _refuse_early(self, ask: Ask) -> None:
        """Without a person, a host is not asked again what it has just refused."""
        if ask is not nobody:
            return
        if self.state is ConnectionState.LOGIN_NEEDED:
            raise LoginNeededError(
                f"The connection to {self.name} is closed until you log in again.",
                hint="%slurm connect in a notebook, `jupyter slurm login` in a terminal.",
                detail=self.problem.message if self.problem else None,
            )
        if self._watchdog.silent or time.monotonic() - self._failed_at < self._again_after_s:
            raise self._as_lost()

    def _as_lost(self) -> TransportError:
        problem = self.problem
        if problem is None:
            return ConnectionLostError(f"The connection to {self.name} was lost.")
        return TransportError(problem.message, hint=problem.hint, detail=problem.detail)

    def _try(self, attempt: _Attempt) -> None:
        self._become(ConnectionState.CONNECTING, self.problem)
        try:
            self._build(attempt)
        except JupyterSlurmError as exc:
            attempt.error = exc
        except Exception as exc:  # noqa: BLE001 (whatever it is, others wait for its end)
            attempt.error = TransportError(
                f"The login to {self.name} failed unexpectedly.",
                hint="This is a defect of jupyter-slurm; its authors want to know of it.",
                detail=f"{type(exc).__name__}: {exc}",
            )
            attempt.error.__cause__ = exc
        except BaseException:
            attempt.error = TransportError(f"The login to {self.name} was given up.")
            raise
        finally:
            self._finish(attempt)
        if attempt.error is not None:
            raise attempt.error

    def _finish(self, attempt: _Attempt) -> None:
        error = attempt.error
        if attempt.cancelled:
            self._drop(0)
            attempt.error = TransportError(f"{self.name} was disconnected.")
            self._become(ConnectionState.CLOSED)
        elif error is None:
            self.generation += 1
            self._sessions.renew()
            self._again_after_s = _AGAIN_AFTER_S
            self._become(ConnectionState.OPEN)
            self._watchdog.start()
        elif isinstance(error, (LoginNeededError, LoginError, HostKeyError)):
            self._become(ConnectionState.LOGIN_NEEDED, error.problem())
        else:
            self._failed_at = time.monotonic()
            self._again_after_s = min(2 * self._again_after_s, _LONGEST_AGAIN_AFTER_S)
            lost = ConnectionState.LOST if self.generation else ConnectionState.CLOSED
            self._become(lost, error.problem())
        with self._changed:
            self._attempt = None
            attempt.done = True
            self._changed.notify_all()

    def _build(self, attempt: _Attempt) -> None:
        """Completes the chain, keeping what still stands of it."""
        kept = next((i for i, one in enumerate(self._links) if one.ping() is None), None)
        if kept is not None:
            self._drop(kept)
        if not self._links:
            self._links = self._from_openssh()
        position = self.hops.index(self._links[-1].hop) + 1 if self._links else 0
        for hop in self.hops[position:]:
            previous = self._links[-1] if self._links else None
            try:
                made = link(
                    hop, previous, self._asking(attempt), self._unlocked, attempt.transports.append
                )
            except TransportError as exc:
                raise self._hinted(exc, first=previous is None) from exc
            self._links.append(made)
            if attempt.cancelled:
                raise TransportError(f"{self.name} was disconnected.")

    def _from_openssh(self) -> list[Link]:
        """The hop nearest to the cluster that OpenSSH has an open master for."""
        for hop in reversed(self.hops):
            transport = openssh.attach(hop)
            if transport is not None:
                return [Link(hop, transport, needs_person=True, sessions=True, stream=None)]
        return []

    def _hinted(self, error: TransportError, *, first: bool) -> TransportError:
        if not (first and self._hint and type(error) is TransportError):
            return error
        hint = " ".join(part for part in (self._hint, error.hint) if part)
        return TransportError(error.message, hint=hint, detail=error.detail)

    def _asking(self, attempt: _Attempt) -> Ask:
        if attempt.ask is nobody:
            return nobody

        def ask(prompt: Prompt) -> str:
            self._become(ConnectionState.ASKING, self.problem)
            try:
                return attempt.ask(prompt)
            finally:
                self._become(ConnectionState.CONNECTING, self.problem)

        return ask

    # --- using ---

    @contextmanager
    def session(
        self, *, window_bytes: int | None = None, timeout_s: float = 60.0
    ) -> Iterator[SharedChannel]:
        """A session channel of the last hop; waits up to `timeout_s` until the host allows one
        more, and closes it at the end. LoginNeededError, TransportError; ConnectionLostError when
        the connection breaks while it is used."""
        with self._sessions.session(self._last(), window_bytes, timeout_s) as channel:
            yield channel

    def suspect(self) -> None:
        """Somebody saw it hang: it is looked at now, which takes 3 s a hop at most."""
        self._watchdog.look()

    # --- what the watchdog does ---

    def lose(self, first: int, problem: Problem) -> None:
        """The links from `first` on are given up; everybody who waits in them is told."""
        if self.state in {ConnectionState.OPEN, ConnectionState.LOST}:
            self._become(ConnectionState.LOST, problem)
            self._drop(first)

    def fall_silent(self, problem: Problem) -> None:
        """It does not answer, and may yet."""
        self._become(ConnectionState.LOST, problem)

    def answers_again(self, round_trip_s: float) -> None:
        self.round_trip_s = round_trip_s
        if self.state is ConnectionState.LOST and self._links and self._links[-1].alive:
            self._become(ConnectionState.OPEN)

    # --- ending ---

    def disconnect(self) -> None:
        """As `close`, for a person who wants it closed: nothing opens it again by itself."""
        self.close()
        self._become(ConnectionState.LOGIN_NEEDED)

    def close(self) -> None:
        """No thread and no socket is left; `open` opens it again."""
        with self._changed:
            attempt = self._attempt
            if attempt is not None:
                attempt.cancelled = True
            transports = list(attempt.transports) if attempt else []
            self._unlocked.clear()
        for transport in transports:
            transport.close()
        self._drop(0)
        self._become(ConnectionState.CLOSED)
        self._watchdog.stop()

    def _drop(self, first: int) -> None:
        with self._changed:
            gone, self._links = self._links[first:], self._links[:first]
        for one in reversed(gone):
            one.close()
        if gone:
            self._sessions.send_away()

    def _become(self, state: ConnectionState, problem: Problem | None = None) -> None:
        with self._changed:
            if (self.state, self.problem) == (state, problem):
                return
            self.state, self.problem, self.since_s = state, problem, time.time()
            self._changed.notify_all()
        self._on_change()


def _another(error: _Error) -> _Error:
    """The same for another thread, whose traceback it then has."""
    return type(error)(error.message, hint=error.hint, detail=error.detail)
