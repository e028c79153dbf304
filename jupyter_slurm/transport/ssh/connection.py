"""One way to a cluster, shared by all that use it: opened once, kept, brought back.

Knows states, and what each caller waits for. The hops themselves are in `chain.py`, when they are
looked at in `watchdog.py`, their sessions in `sessions.py`, what runs over them above.
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
from jupyter_slurm.transport.ask import Ask, Prompt, nobody
from jupyter_slurm.transport.ssh.chain import Chain, end, leave
from jupyter_slurm.transport.ssh.master import Master
from jupyter_slurm.transport.ssh.mux import Session
from jupyter_slurm.transport.ssh.route import Hop
from jupyter_slurm.transport.ssh.sessions import Sessions
from jupyter_slurm.transport.ssh.watchdog import Watchdog
from jupyter_slurm.wire import ConnectionState, Problem

_AGAIN_AFTER_S, _LONGEST_AGAIN_AFTER_S = 1.0, 10.0
"""Within this time after a failure, which doubles with each, it is told again, not tried again."""

_END_TIMEOUT_S = 5.0
_OPENED = {ConnectionState.OPEN, ConnectionState.LOST}

_Error = TypeVar("_Error", bound=JupyterSlurmError)


class _RunningLogin:
    """A login that goes on; callers meanwhile wait for it."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.cancelled = False
        self.links: list[Master] = []
        self.error: JupyterSlurmError | None = None
        self.done = False
        self.new = False
        """A login was made."""

    def begun(self, link: Master) -> None:
        self.links.append(link)
        if self.cancelled:
            raise TransportError("Disconnected.")


class SshConnection:
    """One login chain, kept alive, shared by all who use the cluster."""

    def __init__(
        self,
        hops: Sequence[Hop],
        *,
        name: str,
        hint: str = "",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a connection. `hops`: as `route` gives them. `name`: the cluster's,
        for sentences. `hint`: what to look at when the first hop cannot be reached. `on_change` is
        called after each change of `state`, from any thread, and must not block."""
        self.hops = tuple(hops)
        self.name = name
        self.state = ConnectionState.CLOSED
        self.problem: Problem | None = None
        self.since_s = time.time()
        """When `state` last changed, in UTC epoch seconds."""
        self.round_trip_s: float | None = None
        self.generation = 0
        """One more at each login, of whichever hop."""
        self.pulse: Callable[[float], bool | None] = lambda timeout_s: None
        """Asks an open shell of the last hop for a sign of life; None: there is none to ask."""
        self._heard_s = 0.0
        self._on_change = on_change
        self._changed = threading.Condition()
        self._chain = Chain(name, hops, hint)
        self._attempt: _RunningLogin | None = None
        self._closed_as = ConnectionState.CLOSED
        """The state once an attempt that was cancelled has ended."""
        self._failed_at = float("-inf")
        self._again_after_s = _AGAIN_AFTER_S
        self._sessions = Sessions(name, self.suspect)
        self._watchdog = Watchdog(self)

    @property
    def hosts(self) -> tuple[str, ...]:
        """`user@host` of each hop, the cluster's own last."""
        return tuple(hop.label for hop in self.hops)

    @property
    def sessions_limit(self) -> int:
        """The most sessions that are open at once."""
        return self._sessions.limit

    @property
    def links(self) -> tuple[Master, ...]:
        """The hops that stand, the nearest first; all of them when it is open."""
        return self._chain.links

    # --- opening ---

    def open(self, ask: Ask = nobody) -> None:
        """Log in where that is needed. Callers meanwhile wait for the same login, and try with a
        person of their own where it failed for want of one.

        LoginNeededError, LoginError, HostKeyError, TransportError.
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
                with_person = ask is not nobody and attempt.ask is not nobody
                if attempt.error is not None and (with_person or attempt.cancelled):
                    raise _another(attempt.error) from attempt.error
        self._try(attempt)

    def standing(self) -> Master | None:
        """Return the last hop, as known without waiting; None: `last` may open it."""
        links = self.links
        return links[-1] if links and self._stands() else None

    def last(self) -> Master:
        """Return the last hop, opened without a person where needed. LoginNeededError,
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
        """Refuse, without a person, to ask a host again what it has just refused."""
        if ask is not nobody:
            return
        self.check_login()
        if self._watchdog.silent or time.monotonic() - self._failed_at < self._again_after_s:
            raise self._as_lost()

    def check_login(self) -> None:
        """Raise LoginNeededError where nothing goes before a person has logged in."""
        if self.state is ConnectionState.LOGIN_NEEDED:
            raise LoginNeededError(
                f"The connection to {self.name} is closed until you log in again.",
                hint="Log in: `%slurm login`.",
                detail=str(self.problem.message) if self.problem else None,
            )

    def _as_lost(self) -> TransportError:
        problem = self.problem
        if problem is None:
            return ConnectionLostError(f"The connection to {self.name} was lost.")
        return TransportError(problem.message, hint=problem.hint, detail=problem.detail)

    def _try(self, attempt: _RunningLogin) -> None:
        self._become(ConnectionState.CONNECTING, self.problem)
        try:
            attempt.new = self._chain.complete(self._asking(attempt), attempt.begun)
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

    def _finish(self, attempt: _RunningLogin) -> None:
        error = attempt.error
        with self._changed:  # `close` comes before or after all of this
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
        if attempt.ask is nobody:
            return nobody

        def ask(prompt: Prompt) -> str:
            if attempt.cancelled:
                raise TransportError("Disconnected.")
            self._become(ConnectionState.ASKING, self.problem)
            answer = attempt.ask(prompt)
            if attempt.cancelled:
                raise TransportError("Disconnected.")
            self._become(ConnectionState.CONNECTING, self.problem)
            return answer

        return ask

    # --- using ---

    @contextmanager
    def session(self, command: str, *, timeout_s: float = 60.0) -> Iterator[Session]:
        """Yield a session of the last hop that runs `command`; wait up to `timeout_s` until the
        host allows one more, and close it at the end. LoginNeededError, TransportError;
        ConnectionLostError when the connection breaks while it is used. What is read from it then
        ends early, as at its end: look for the exit status, or a mark of your own."""
        with self._sessions.session(self.last(), command, timeout_s) as session:
            yield session

    def heard(self) -> None:
        """Note a sign of life of the last hop."""
        self._heard_s = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self._heard_s

    def ping(self, timeout_s: float) -> float | None:
        """Return a round trip to the last hop in seconds, by a shell that is open if there is one;
        None: it has ended, or nothing came in time."""
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
        """Look at a connection now that a caller saw hang, which takes 3 s a hop at most, and as
        long again for the last."""
        self._watchdog.look()

    # --- what the watchdog does ---

    def lose(self, link: Master, problem: Problem) -> None:
        """Give up this link and those behind it, and tell the calls that wait in them."""
        with self._changed:  # a caller that opens it again comes after this, and keeps its login
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
        """Open what is lost, without a person; what is closed meanwhile stays so. TransportError,
        LoginNeededError."""
        with self._changed:
            if (other := self._attempt) is not None:
                self._changed.wait_for(lambda: other.done)
                return
            if self.state is not ConnectionState.LOST:
                return
            self._refuse_early(nobody)
            attempt = self._attempt = _RunningLogin(nobody)
        self._try(attempt)

    def fall_silent(self, problem: Problem) -> None:
        """Note that it does not answer, and may yet; nothing if closed, or being opened."""
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
        """Close for a person who wants it closed: nothing opens it again by itself."""
        self._close(ConnectionState.LOGIN_NEEDED, end)

    def close(self) -> None:
        """Close, so that no thread and no socket is left; `open` opens it again."""
        self._close(ConnectionState.CLOSED, end)

    def leave(self) -> None:
        """Close for this process alone: the next one goes on with a login that needed a person."""
        self._close(ConnectionState.CLOSED, leave)

    def _close(self, state: ConnectionState, let_go: Callable[[Sequence[Master]], None]) -> None:
        """Close, in that state from the first moment on: a caller that is sent away may try again
        at once, and keeps what it gets."""
        with self._changed:
            attempt = self._attempt
            if attempt is not None:
                attempt.cancelled = True
            self._closed_as = state
            thread = self._watchdog.dismiss()  # else it may end by itself, and nobody wait for it
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

    def _become(self, state: ConnectionState, problem: Problem | None = None) -> None:
        with self._changed:
            changed = self._set(state, problem)
        if changed:
            self._on_change()

    def _set(self, state: ConnectionState, problem: Problem | None = None) -> bool:
        """Set the state; return False where it is so already."""
        if (self.state, self.problem) == (state, problem):
            return False
        self.state, self.problem, self.since_s = state, problem, time.time()
        return True


def _another(error: _Error) -> _Error:
    """Copy the error for another thread, whose traceback it then has."""
    return type(error)(error.message, hint=error.hint, detail=error.detail)
