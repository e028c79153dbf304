"""The login to a cluster, shared by all callers, with its questions, answers and outcome.

`transport/` logs in. A login runs in its own thread, so that calls do not wait for the user.
Answers are not stored.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Protocol

from jupyter_slurm.errors import JupyterSlurmError, LoginError, TransportError
from jupyter_slurm.transport.ask import Ask, Prompt
from jupyter_slurm.wire import Connection, ConnectionState, Problem, Question, QuestionKind

_OFFERED_TO_OTHERS_S = 30.0
_LONGEST_THOUGHT_S = 600.0
"""Seconds until an unanswered question ends the login. sshd usually ends it earlier
(LoginGraceTime, 120 s, sshd_config(5))."""
_JOIN_S = 5.0

_log = logging.getLogger(__name__)


class LoginConnection(Protocol):
    """The part of an `SshConnection` that a Login uses."""

    @property
    def state(self) -> ConnectionState: ...

    @property
    def since_s(self) -> float: ...

    @property
    def problem(self) -> Problem | None: ...

    @property
    def hosts(self) -> tuple[str, ...]: ...

    @property
    def round_trip_s(self) -> float | None: ...

    def open(self, ask: Ask) -> None: ...

    def disconnect(self) -> None: ...


class _Attempt:
    """One login attempt. Its fields change under the lock of its Login."""

    def __init__(self, caller: str) -> None:
        self.began_s = time.time()
        self.asked: str | None = caller
        """The caller that gets the questions; None if the next caller gets them."""
        self.callers = {caller}
        """The callers that have not received the outcome yet."""
        self.question: Question | None = None
        self.question_since_s = 0.0
        self.question_ids: set[str] = set()
        self.answer: str | None = None
        self.given_up = False
        """Set once the login is cancelled. The login then does not ask further questions."""
        self.ended = False
        self.error: JupyterSlurmError | None = None


class Login:
    """The login to one cluster. `answered` is set if the user had to answer a question."""

    def __init__(
        self, cluster: str, connection: LoginConnection, on_change: Callable[[], None]
    ) -> None:
        """Call `on_change`, with locks held, whenever the result of `seen_by` may have changed."""
        self._cluster = cluster
        self._connection = connection
        self._on_change = on_change
        self._changed = threading.Condition()
        self._attempt: _Attempt | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self.answered = False

    def connect(self, caller: str, wait_s: float) -> Connection:
        """Connect, and log in if needed; see `Api.connect`."""
        with self._changed:
            attempt = self._joined(caller)
            if attempt is None:
                return self._seen_by(caller)
        return self._follow(attempt, caller, wait_s)

    def answer(self, question_id: str, text: str | None, wait_s: float) -> Connection:
        """Answer a question; see `Api.answer`. The caller that got this question also gets the next
        question."""
        with self._changed:
            attempt = self._attempt
            question = attempt.question if attempt else None
            if attempt is None or question is None or question.id != question_id:
                return self._seen_by((attempt.asked if attempt else None) or "")
            attempt.answer, attempt.question = text, None
            self._notify()
        if text is None and question.kind is QuestionKind.TOUCH:  # no thread waits for an answer
            self._connection.disconnect()
        return self._follow(attempt, attempt.asked or "", wait_s)

    def has_asked(self, question_id: str) -> bool:
        """Return whether the current or last login attempt asked the question, answered or not."""
        with self._changed:
            return self._attempt is not None and question_id in self._attempt.question_ids

    def seen_by(self, caller: str) -> Connection:
        with self._changed:
            return self._seen_by(caller)

    def notify(self) -> None:
        """Wake waiting calls after the connection has changed."""
        with self._changed:
            self._notify()

    def left(self, caller: str) -> None:
        """Note that the caller's process has ended. Any other caller may then answer the open
        question."""
        with self._changed:
            attempt = self._attempt
            if attempt is not None and attempt.asked == caller:
                attempt.asked = None
                self._notify()

    def give_up(self) -> None:
        """Cancel the current login. A later caller starts another login."""
        with self._changed:
            if self._attempt is not None:
                self._attempt.callers.clear()
        self._end()

    def close(self) -> None:
        """End the current login, and reject later logins."""
        with self._changed:
            self._closed = True
        self._end()

    def _end(self) -> None:
        with self._changed:
            if self._attempt is not None:
                self._attempt.given_up = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=_JOIN_S)

    # --- the caller's side; methods without `with` need the lock ---

    def _joined(self, caller: str) -> _Attempt | None:
        """Return the current login attempt, or the last attempt if this caller has not received its
        outcome, or a new attempt. Return None if the connection is open."""
        attempt = self._attempt
        if attempt is not None and (not attempt.ended or caller in attempt.callers):
            attempt.callers.add(caller)
            attempt.asked = attempt.asked or caller
            return attempt
        if self._connection.state is ConnectionState.OPEN:
            return None
        attempt = self._attempt = _Attempt(caller)
        attempt.given_up = self._closed
        self._thread = threading.Thread(
            target=self._run, args=(attempt,), name=f"login to {self._cluster}", daemon=True
        )
        self._thread.start()
        self._notify()
        return attempt

    def _notify(self) -> None:
        self._changed.notify_all()
        self._on_change()

    def _follow(self, attempt: _Attempt, caller: str, wait_s: float) -> Connection:
        deadline_s = time.monotonic() + wait_s
        with self._changed:
            while not attempt.ended and self._question_for(caller) is None and not self._closed:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    break
                # Check every second, because after `_OFFERED_TO_OTHERS_S` other callers get the
                # question without a notification.
                self._changed.wait(min(left_s, 1.0))
            if attempt.ended:
                attempt.callers.discard(caller)
                if attempt.error is not None:
                    raise attempt.error
            return self._seen_by(caller)

    def _question_for(self, caller: str) -> Question | None:
        attempt = self._attempt
        if attempt is None or attempt.question is None:
            return None
        lain_s = time.monotonic() - attempt.question_since_s
        mine = attempt.asked in (caller, None) or lain_s > _OFFERED_TO_OTHERS_S
        return attempt.question if mine else None

    def _seen_by(self, caller: str) -> Connection:
        attempt, connection = self._attempt, self._connection
        state, since_s = connection.state, connection.since_s
        if attempt is not None and not attempt.ended and state is not ConnectionState.OPEN:
            asking = attempt.question is not None
            state = ConnectionState.ASKING if asking else ConnectionState.CONNECTING
            since_s = attempt.began_s
        return Connection(
            cluster=self._cluster,
            state=state,
            since_s=since_s,
            hosts=connection.hosts,
            question=self._question_for(caller),
            problem=connection.problem,
            round_trip_s=connection.round_trip_s,
        )

    # --- the login's own thread ---

    def _run(self, attempt: _Attempt) -> None:
        answered = False

        def ask(prompt: Prompt) -> str:
            nonlocal answered
            answer = self._ask(attempt, prompt)
            answered = True
            return answer

        error: JupyterSlurmError | None = None
        try:
            self._connection.open(ask)
        except JupyterSlurmError as exc:
            error = exc
        except Exception as exc:  # noqa: BLE001 (a thread must not die silently)
            _log.exception("the login to %s failed", self._cluster)
            error = TransportError(f"Internal error during login: {exc!r}.")
        with self._changed:
            attempt.ended, attempt.error, attempt.question = True, error, None
            if error is None and answered:
                self.answered = True
            self._notify()

    def _ask(self, attempt: _Attempt, prompt: Prompt) -> str:
        deadline_s = time.monotonic() + _LONGEST_THOUGHT_S
        with self._changed:
            if attempt.given_up:
                raise _broken_off(prompt)
            attempt.answer = None
            question = attempt.question = Question(
                id=secrets.token_hex(8),
                cluster=self._cluster,
                host=prompt.host,
                kind=prompt.kind,
                prompt=prompt.text,
                instruction=prompt.instruction,
                names_a_key=prompt.names_a_key,
                refused=prompt.refused,
            )
            attempt.question_ids.add(question.id)
            attempt.question_since_s = time.monotonic()
            self._notify()
            if prompt.kind is QuestionKind.TOUCH:  # shown until the next event
                return ""
            self._changed.wait_for(
                lambda: attempt.question is not question or attempt.given_up,
                deadline_s - time.monotonic(),
            )
            unanswered = attempt.question is question and not attempt.given_up
            attempt.question = None
            self._on_change()
            answer, attempt.answer = attempt.answer, None
        if unanswered:
            raise LoginError(
                f"Login to {prompt.host} timed out waiting for an answer.", hint="Log in again."
            )
        if answer is None:
            raise _broken_off(prompt)
        return answer


def _broken_off(prompt: Prompt) -> LoginError:
    return LoginError(f"Login to {prompt.host} cancelled.", hint="Log in again to continue.")


class Logins:
    """The logins to all remote clusters."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._logins: dict[str, tuple[LoginConnection, Login]] = {}

    def of(self, cluster: str, connection: LoginConnection) -> Login:
        """Return the login of this connection. A changed profile has a new connection, which gets a
        new login."""
        with self._lock:
            known = self._logins.get(cluster)
            if known is not None and known[0] is connection:
                return known[1]
            login = Login(cluster, connection, self._on_change)
            self._logins[cluster] = (connection, login)
        if known is not None:
            known[1].close()
        return login

    def asking(self, question_id: str) -> Login | None:
        """Return the login that asked this question; None if unknown."""
        with self._lock:
            logins = [login for _, login in self._logins.values()]
        return next((login for login in logins if login.has_asked(question_id)), None)

    def left(self, caller: str) -> None:
        """Call `left` on each login."""
        with self._lock:
            logins = [login for _, login in self._logins.values()]
        for login in logins:
            login.left(caller)

    def notify(self) -> None:
        with self._lock:
            logins = [login for _, login in self._logins.values()]
        for login in logins:
            login.notify()

    def answered_by_a_person(self) -> bool:
        """Return whether reconnecting to any of the connected clusters would need answers from the
        user."""
        with self._lock:
            known = list(self._logins.values())
        return any(
            login.answered and connection.state is ConnectionState.OPEN
            for connection, login in known
        )

    def close(self) -> None:
        with self._lock:
            logins = [login for _, login in self._logins.values()]
        for login in logins:
            login.close()
