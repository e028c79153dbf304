"""The connection to one cluster, shared by all callers. It is opened once, kept open, and
reconnected.

This module manages the state of a connection, and the callers that wait for it. `watchdog.py`
checks the hops, and `sessions.py` limits their sessions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

from jupyter_slurm.errors import (
    ConnectionLostError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.formatting import joined
from jupyter_slurm.transport.ask import Ask, Prompt, no_prompt
from jupyter_slurm.transport.ssh.master import Master
from jupyter_slurm.transport.ssh.mux import Session
from jupyter_slurm.transport.ssh.route import Hop, has_openssh
from jupyter_slurm.transport.ssh.sessions import Sessions
from jupyter_slurm.transport.ssh.watchdog import Watchdog
from jupyter_slurm.wire import ConnectionState, Problem

_PING_S = 3.0


class Chain:
    """The open hops to a cluster, in order. Another thread can end a running login. `cluster` is
    the cluster's name, and `hint` the advice if the first hop cannot be reached.
    """

    def __init__(self, cluster: str, hops: Sequence[Hop], hint: str) -> None:
        self._cluster = cluster
        self._hops = tuple(hops)
        self._hint = hint
        self._lock = threading.Lock()
        self._links: tuple[Master, ...] = ()

    @property
    def links(self) -> tuple[Master, ...]:
        """The links, the nearest first."""
        return self._links

    @property
    def stands(self) -> bool:
        """Return whether all hops are open, as far as known."""
        links = self._links
        return bool(links) and links[-1].hop is self._hops[-1] and all(one.alive for one in links)

    def complete(self, ask: Ask, begun: Callable[[Master], None]) -> bool:
        """Log in to the missing hops, and keep the hops that still answer. `begun` is called with
        each new link before it is used. Return False if all hops were open. Raises
        TransportError."""
        broken = next((i for i, one in enumerate(self._links) if one.ping(_PING_S) is None), None)
        if broken is not None:
            end(self.take(broken))
        before = self._links
        for hop in self._hops[len(before) :]:
            previous = self._links[-1] if self._links else None
            try:
                self._add(self._link(hop, previous, ask, begun))
            except TransportError as exc:
                if previous is None and self._hint and type(exc) is TransportError:
                    exc.hint = joined(self._hint, exc.hint)
                raise
        return self._links != before

    def _link(
        self, hop: Hop, previous: Master | None, ask: Ask, begun: Callable[[Master], None]
    ) -> Master:
        """Take over a master of an earlier process if it answers; otherwise log in."""
        if not has_openssh():
            # The import takes 0.15 s.
            from jupyter_slurm.transport.ssh.fallback import ParamikoLink  # noqa: PLC0415

            before = cast("ParamikoLink | None", previous)
            made = ParamikoLink.log_in(
                hop, before, ask, cast("Callable[[ParamikoLink], None]", begun)
            )
            return cast("Master", made)
        found = Master.found(self._cluster, hop, previous)
        if found is not None:
            if found.ping(_PING_S) is not None:
                return found
            found.close()
        return Master.log_in(self._cluster, hop, previous, ask, begun)

    def take(self, first: int = 0) -> tuple[Master, ...]:
        """Remove the links starting at `first`, and return them for `end`. Do not wait."""
        with self._lock:
            gone, self._links = self._links[first:], self._links[:first]
        return gone

    def _add(self, made: Master) -> None:
        with self._lock:
            self._links = (*self._links, made)


def end(links: Sequence[Master]) -> None:
    """Close the links, and end the calls that use them."""
    for one in reversed(links):
        one.close()


def leave(links: Sequence[Master]) -> None:
    """Leave links that needed the user's answers or run a terminal, and all links before them, to
    the next process. Close the others."""
    kept = max(
        (n for n, one in enumerate(links, 1) if one.needs_person or one.has_terminal()), default=0
    )
    end(links[kept:])
    for one in links[:kept]:
        one.leave()


_AGAIN_AFTER_S, _LONGEST_AGAIN_AFTER_S = 1.0, 10.0
"""Seconds after a failure during which callers get the same error without another attempt; doubled
after each failure."""

_END_TIMEOUT_S = 5.0
_OPENED = {ConnectionState.OPEN, ConnectionState.LOST}

_Error = TypeVar("_Error", bound=JupyterSlurmError)


class _RunningLogin:
    """A running login; other callers wait for it."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.cancelled = False
        self.links: list[Master] = []
        self.error: JupyterSlurmError | None = None
        self.done = False
        self.new = False
        """True if this attempt logged in to a hop; false if all hops were open."""

    def begun(self, link: Master) -> None:
        self.links.append(link)
        if self.cancelled:
            raise TransportError("Disconnected.")


class SshConnection:
    """A chain of logins, kept alive and shared by all callers."""

    def __init__(
        self,
        hops: Sequence[Hop],
        *,
        name: str,
        hint: str = "",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a connection. `hops` is the result of `route`, and `name` the cluster's name for
        messages. `hint` is the advice if the first hop cannot be reached. `on_change` is called
        after each change of `state`, from any thread, and must not block."""
        self.hops = tuple(hops)
        self.name = name
        self.state = ConnectionState.CLOSED
        self.problem: Problem | None = None
        self.since_s = time.time()
        """The time of the last change of `state`, in UTC epoch seconds."""
        self.round_trip_s: float | None = None
        """The last round-trip time in seconds; None if not measured yet or if the connection is
        closed."""
        self.generation = 0
        """The number of attempts so far that logged in to a hop."""
        self.pulse: Callable[[float], bool | None] = lambda timeout_s: None
        """A function that pings through an open shell on the last hop. It returns None without an
        open shell."""
        self._heard_s = 0.0
        self._on_change = on_change
        self._changed = threading.Condition()
        self._chain = Chain(name, hops, hint)
        self._attempt: _RunningLogin | None = None
        self._closed_as = ConnectionState.CLOSED
        """The state after a cancelled attempt has ended."""
        self._failed_at = float("-inf")
        self._again_after_s = _AGAIN_AFTER_S
        self._sessions = Sessions(name, self.suspect)
        self._watchdog = Watchdog(self)

    @property
    def hosts(self) -> tuple[str, ...]:
        """`user@host` of each hop, with the cluster's host last."""
        return tuple(hop.label for hop in self.hops)

    @property
    def sessions_limit(self) -> int:
        """The maximum number of sessions that are open at once."""
        return self._sessions.limit

    @property
    def links(self) -> tuple[Master, ...]:
        """The open hops, the nearest first; all of them when the connection is open."""
        return self._chain.links

    # --- opening ---

    def open(self, ask: Ask = no_prompt) -> None:
        """Log in if needed. Concurrent callers wait for the same login, and retry with their own
        `ask` if it failed for lack of answers. Raises LoginNeededError, LoginError, HostKeyError or
        TransportError.
        """
        while True:
            with self._changed:
                if self._stands():
                    return
                attempt = self._attempt
                if attempt is None:
                    self._refuse_early(ask)
                    attempt = self._attempt = _RunningLogin(ask)
                    break
                self._changed.wait_for(lambda a=attempt: a.done)  # type: ignore[misc]
                with_person = ask is not no_prompt and attempt.ask is not no_prompt
                if attempt.error is not None and (with_person or attempt.cancelled):
                    raise _another(attempt.error) from attempt.error
        self._try(attempt)

    def standing(self) -> Master | None:
        """Return the last hop without waiting; None if the connection is not open."""
        links = self.links
        return links[-1] if links and self._stands() else None

    def last(self) -> Master:
        """Return the last hop; if needed, open it without questions. Raises LoginNeededError or
        TransportError."""
        self._watchdog.before_use()
        if self._watchdog.silent:
            self._watchdog.look()
        with self._changed:
            if self._stands():
                return self.links[-1]
        self.open()
        with self._changed:
            if self._stands():
                return self.links[-1]
            raise self._as_lost()

    def _stands(self) -> bool:
        return self.state is ConnectionState.OPEN and self._chain.stands

    def _refuse_early(self, ask: Ask) -> None:
        """Raise the last error again, rather than retry automatically so soon after a refusal."""
        if ask is not no_prompt:
            return
        self.check_login()
        if self._watchdog.silent or time.monotonic() - self._failed_at < self._again_after_s:
            raise self._as_lost()

    def check_login(self) -> None:
        """Raise LoginNeededError if the user has to log in first."""
        if self.state is ConnectionState.LOGIN_NEEDED:
            raise LoginNeededError(
                f"The connection to {self.name} is closed until you log in again.",
                hint="Log in with `%slurm login`.",
                detail=str(self.problem.message) if self.problem else None,
            )

    def _as_lost(self) -> TransportError:
        problem = self.problem
        if problem is None:
            return ConnectionLostError(f"The connection to {self.name} dropped.")
        return TransportError(problem.message, hint=problem.hint, detail=problem.detail)

    def _try(self, attempt: _RunningLogin) -> None:
        self._become(ConnectionState.CONNECTING)
        try:
            attempt.new = self._chain.complete(self._asking(attempt), attempt.begun)
        except JupyterSlurmError as exc:
            attempt.error = exc
        except Exception as exc:  # noqa: BLE001 (whatever it is, others wait for its end)
            attempt.error = TransportError(
                f"The login to {self.name} failed unexpectedly.",
                hint="Report this internal error.",
                detail=f"{type(exc).__name__}: {exc}",
            )
            attempt.error.__cause__ = exc
        except BaseException:
            attempt.error = TransportError(f"The login to {self.name} was cancelled.")
            raise
        finally:
            self._finish(attempt)
        if attempt.error is not None:
            raise attempt.error

    def _finish(self, attempt: _RunningLogin) -> None:
        error = attempt.error
        with self._changed:  # `close` runs either before or after this block
            if attempt.cancelled:
                error = attempt.error = TransportError(f"{self.name} was disconnected.")
                state = self._closed_as
            elif error is None:
                state = ConnectionState.OPEN
                self.generation += attempt.new
                self._again_after_s = _AGAIN_AFTER_S
            elif isinstance(error, (LoginNeededError, LoginError, HostKeyError)):
                state = ConnectionState.LOGIN_NEEDED
            else:
                state = ConnectionState.LOST if self.generation else ConnectionState.CLOSED
                self._failed_at = time.monotonic()
                self._again_after_s = min(2 * self._again_after_s, _LONGEST_AGAIN_AFTER_S)
            told = error.problem() if error and not attempt.cancelled else None
            changed = self._set(state, told)
            gone = self._chain.take() if attempt.cancelled else ()
            self._attempt = None
            attempt.done = True
            self._changed.notify_all()
        end(gone)
        if attempt.new:
            self._sessions.renew()
        if state is ConnectionState.OPEN:
            self._watchdog.start()
        if changed:
            self._on_change()

    def _asking(self, attempt: _RunningLogin) -> Ask:
        if attempt.ask is no_prompt:
            return no_prompt

        def ask(prompt: Prompt) -> str:
            if attempt.cancelled:
                raise TransportError("Disconnected.")
            self._become(ConnectionState.ASKING)
            answer = attempt.ask(prompt)
            if attempt.cancelled:
                raise TransportError("Disconnected.")
            self._become(ConnectionState.CONNECTING)
            return answer

        return ask

    # --- using ---

    @contextmanager
    def session(self, command: str, *, timeout_s: float = 60.0) -> Iterator[Session]:
        """Yield a session of the last hop that runs `command`, and close it at the end. Wait up to
        `timeout_s` until the host allows another session. Raises LoginNeededError, TransportError,
        or ConnectionLostError if the connection breaks. A broken connection looks like the end of
        the output, so check the exit status or a mark."""
        with self._sessions.session(self.last(), command, timeout_s) as session:
            yield session

    def heard(self) -> None:
        """Record that the last hop has answered."""
        self._heard_s = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last hop's last answer."""
        return time.monotonic() - self._heard_s

    def ping(self, timeout_s: float) -> float | None:
        """Return the round-trip time to the last hop in seconds, measured through a shell if one is
        open; None if the hop has ended or did not answer in time."""
        began_s = time.monotonic()
        link = self.links[-1] if self.links else None
        if link is None or not link.alive:
            return None
        answered = self.pulse(timeout_s)
        if answered is None:
            answered = link.ping(timeout_s) is not None
        if not answered:
            return None
        self.heard()
        return time.monotonic() - began_s

    def suspect(self) -> None:
        """Check the connection now, because a call over it hung. The check takes up to 3 s per hop,
        and up to 6 s for the last hop."""
        self._watchdog.look()

    # --- for the watchdog ---

    def lose(self, link: Master, problem: Problem) -> None:
        """Give up this link and all links after it, and end the calls that use them."""
        with self._changed:  # callers can reopen the connection only after this block
            links = self.links
            if self.state not in _OPENED or link not in links:
                return
            changed = self._set(ConnectionState.LOST, problem)
            gone = self._chain.take(links.index(link))
        if changed:
            self._on_change()
        end(gone)
        self._sessions.send_away()

    def come_back(self) -> None:
        """Reconnect without questions, unless the connection was closed. Raises TransportError or
        LoginNeededError."""
        with self._changed:
            if (other := self._attempt) is not None:
                self._changed.wait_for(lambda: other.done)
                return
            if self.state is not ConnectionState.LOST:
                return
            self._refuse_early(no_prompt)
            attempt = self._attempt = _RunningLogin(no_prompt)
        self._try(attempt)

    def fall_silent(self, problem: Problem) -> None:
        """Record that the host does not answer at the moment, unless the connection is closed or
        being opened."""
        with self._changed:
            if self.state not in _OPENED:
                return
            changed = self._set(ConnectionState.LOST, problem)
        if changed:
            self._on_change()

    def answers_again(self, round_trip_s: float) -> None:
        self.round_trip_s = round_trip_s
        with self._changed:
            changed = self.state is ConnectionState.LOST and self._chain.stands
            if changed:
                self._set(ConnectionState.OPEN)
        if changed:
            self._on_change()

    # --- ending ---

    def disconnect(self) -> None:
        """Close on the user's request. The connection then stays closed until the user logs in."""
        self._close(ConnectionState.LOGIN_NEEDED, end)

    def close(self) -> None:
        """Close, and end all threads and sockets. `open` opens the connection again."""
        self._close(ConnectionState.CLOSED, end)

    def leave(self) -> None:
        """Close for this process only. The next process takes over logins that needed answers."""
        self._close(ConnectionState.CLOSED, leave)

    def _close(self, state: ConnectionState, let_go: Callable[[Sequence[Master]], None]) -> None:
        """Close. The state changes first, so a caller that gets an error may reconnect at once and
        keep its login."""
        with self._changed:
            attempt = self._attempt
            if attempt is not None:
                attempt.cancelled = True
            self._closed_as = state
            thread = self._watchdog.dismiss()  # it may end on its own, without a join
            changed = self._set(state)
            gone = self._chain.take()
        for link in attempt.links if attempt else ():
            link.close()
        let_go(gone)
        self._sessions.send_away()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_TIMEOUT_S)
        if changed:
            self._on_change()

    def _become(self, state: ConnectionState) -> None:
        with self._changed:
            changed = self._set(state, self.problem)
        if changed:
            self._on_change()

    def _set(self, state: ConnectionState, problem: Problem | None = None) -> bool:
        """Set the state; return False if it did not change."""
        if (self.state, self.problem) == (state, problem):
            return False
        self.state, self.problem, self.since_s = state, problem, time.time()
        if state is not ConnectionState.OPEN:
            self.round_trip_s = None
        return True


def _another(error: _Error) -> _Error:
    """Copy the error for another thread, which adds its own traceback."""
    return type(error)(error.message, hint=error.hint, detail=error.detail)
