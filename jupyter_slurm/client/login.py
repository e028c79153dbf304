"""The front end's half of a login: the questions of `Api.connect`, put to the person who is there.

`attended` is the one place where a call that needs a login gets one. Who is asked, and where, is
an `Answerer`: a terminal here, a notebook in `magics`. Answers are passed on and kept nowhere.
"""

from __future__ import annotations

import functools
import getpass
import inspect
import secrets
import textwrap
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from jupyter_slurm import core_dumps
from jupyter_slurm.agent.protocol import calls
from jupyter_slurm.api import Api
from jupyter_slurm.errors import JupyterSlurmError, LoginError, LoginNeededError, from_problem
from jupyter_slurm.readable import visible
from jupyter_slurm.wire import Connection, ConnectionState, Question, QuestionKind

_R = TypeVar("_R")

_WAIT_S = 20.0
_SHORT_PROMPT = 40
"""Characters of a host's prompt that fit on a line behind `alice@gateway.example.org asks:`."""
_QUOTED_WIDTH = 70


class Answerer(Protocol):
    """A person, reached in some way."""

    def there(self) -> bool:
        """Tell whether anybody can be asked here: else no host is troubled with a login."""

    def say(self, text: str) -> None:
        """Show a line."""

    def secret(self, prompt: str) -> str:
        """Return what the person typed, unseen. KeyboardInterrupt, EOFError: they would rather not;
        LoginNeededError: nobody can be asked here."""

    def choice(self, prompt: str) -> str:
        """Return the same for what may be seen while typed, e.g. the number of a menu's line."""

    def confirm(self, prompt: str) -> str:
        """Return the same for a yes or no."""


class LoginDeclined(KeyboardInterrupt):
    """The person would rather not: what they had begun ends, and Run All with it."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class Attended:
    """An Api with a person at hand: what needs a login asks them for it, and goes on.

    Only in the main thread, which is where a person waits for something: in any other one the
    LoginNeededError comes through, for `repeating` or for somebody to read.
    """

    def __init__(self, api: Api, answerer: Answerer) -> None:
        self._api = api
        self._answerer = answerer
        self._caller = secrets.token_hex(8)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)
        if name not in calls():
            return method

        @functools.wraps(method)
        def attended_call(*args: Any, **kwargs: Any) -> Any:
            named = inspect.signature(method).bind(*args, **kwargs).arguments
            return self.repeating(lambda: method(*args, **kwargs), lambda: self._cluster_of(named))

        return attended_call

    def repeating(self, act: Callable[[], _R], cluster: Callable[[], str | None]) -> _R:
        """Return what `act` gives; where that needs a login on `cluster`, log in and act again."""
        try:
            return act()
        except LoginNeededError as exc:
            in_front = threading.current_thread() is threading.main_thread()
            if not (in_front and self._answerer.there()):
                raise
            self._answerer.say(visible(exc.message))
        self.log_in(cluster())
        return act()

    def log_in(self, cluster: str | None) -> Connection:
        """Log in as the function `log_in` does; every login of this object is one caller's."""
        return log_in(self._api, cluster, self._answerer, self._caller)

    def _cluster_of(self, named: dict[str, Any]) -> str | None:
        """Return the cluster that the call with these arguments goes to; None: the default."""
        if named.get("job_id") is not None:
            return self._api.job(named["job_id"]).cluster
        if "spec" in named:
            return cast("str | None", named["spec"].cluster)
        return cast("str | None", named.get("cluster"))


def attended(api: Api, answerer: Answerer) -> Api:
    """Return the same Api; a call that needs a login gets one from the person at hand."""
    return cast("Api", Attended(api, answerer))


def log_in(api: Api, cluster: str | None, answerer: Answerer, caller: str) -> Connection:
    """Return the connection, once it is open. LoginError, HostKeyError, TransportError: it is not.

    LoginDeclined: the person would rather not. LoginNeededError: nobody can be asked here.
    """
    try:
        return _Conversation(api, cluster, answerer, caller).run()
    except (KeyboardInterrupt, EOFError):
        to = f" to {cluster}" if cluster else ""
        raise LoginDeclined(f"login{to} cancelled; nothing else was done") from None


class _Conversation:
    """One login, from its first question to its end."""

    def __init__(self, api: Api, cluster: str | None, answerer: Answerer, caller: str) -> None:
        self._api = api
        self._cluster = cluster
        self._answerer = answerer
        self._caller = caller
        self._is_anothers = False
        """Somebody else was asked first, and may still answer."""

    def run(self) -> Connection:
        connection = self._connect()
        while connection.state not in (ConnectionState.OPEN, ConnectionState.LOCAL):
            if connection.question is not None:
                connection = self._answer(connection.question)
                continue
            if connection.state is ConnectionState.ASKING:
                self._wait_for_another(connection)
            elif connection.state is not ConnectionState.CONNECTING:
                raise _not_open(connection)
            connection = self._connect()
        return connection

    def _connect(self) -> Connection:
        return self._api.connect(self._cluster, self._caller, wait_s=_WAIT_S)

    def _wait_for_another(self, connection: Connection) -> None:
        if not self._is_anothers:
            self._is_anothers = True
            self._answerer.say(
                f"Waiting for the login on {connection.cluster} in another window: answer "
                "there. ■ or Ctrl-C stops waiting."
            )

    def _answer(self, question: Question) -> Connection:
        if question.refused:
            told = f"{question.host} rejected that answer. Try again."
            self._answerer.say(told)
        try:
            answer = _ask(question, self._answerer)
        except (KeyboardInterrupt, EOFError):
            self._decline(question)
            raise
        except LoginNeededError:
            if not self._is_anothers:
                self._decline(question)
            raise
        return self._api.answer(question.id, answer, wait_s=_WAIT_S)

    def _decline(self, question: Question) -> None:
        """End the login for everybody, so that no host and no window waits."""
        with suppress(JupyterSlurmError):  # it says what is known here
            self._api.answer(question.id, None)


def is_yes(answer: str) -> bool:
    """Return whether the answer is a yes."""
    return answer.strip().lower() in ("y", "yes")


def typed_unseen(prompt: str) -> str:
    """Read a password from this process's terminal; no core dump of the process holds it."""
    core_dumps.refuse()
    return getpass.getpass(prompt)


def _not_open(connection: Connection) -> JupyterSlurmError:
    if connection.problem is not None:
        return from_problem(connection.problem)
    return LoginError(f"Login to {connection.cluster} failed.", hint="Log in again.")


def _ask(question: Question, answerer: Answerer) -> str:
    """Put the question so that its form says where the answer goes: what a host says stands behind
    a mark or the host's name, and begins no line, so it cannot look like ours."""
    prompt = visible(question.prompt).strip()
    match question.kind:
        case QuestionKind.HOST_KEY:
            for line in question.instruction.splitlines():
                answerer.say(visible(line))
            asked = f"{prompt} (yes/no)"
            return "yes" if is_yes(answerer.confirm(f"{asked} ")) else "no"
        case QuestionKind.PASSPHRASE:
            return answerer.secret(f"Stays on this machine. {prompt} ")
        case QuestionKind.TOUCH:
            answerer.say(prompt)
            return ""
        case QuestionKind.TEXT:
            return answerer.choice(_quoted(question, prompt, answerer))
        case QuestionKind.SECRET:
            return answerer.secret(_quoted(question, prompt, answerer))


def _quoted(question: Question, prompt: str, answerer: Answerer) -> str:
    """Return what to ask with, after showing the rest of what the host says as the host's."""
    lines = question.instruction.splitlines()
    if len(prompt) > _SHORT_PROMPT:
        # A terminal would break it, and the host choose what begins the next line.
        lines, prompt = [*lines, prompt], "Your answer:"
    if any(line.strip() for line in lines):
        answerer.say(f"{question.host} says:")
    for line in lines:
        for part in textwrap.wrap(visible(line), _QUOTED_WIDTH):
            answerer.say(f"  | {part}")
    if question.names_a_key:
        answerer.say(
            f"Careful: this is a question of {question.host}, which has no need of the "
            "passphrase of your key. Your answer is sent there."
        )
    return f"{question.host} asks: {prompt} "


class TerminalAnswerer:
    """The person at this process's terminal, whatever stdin and stdout are."""

    def __init__(self, tty: Path = Path("/dev/tty")) -> None:
        self._tty = tty

    def there(self) -> bool:
        try:
            self._write("")
        except LoginNeededError:
            return False
        return True

    def say(self, text: str) -> None:
        with suppress(LoginNeededError):
            self._write(text + "\n")

    def secret(self, prompt: str) -> str:
        self._write("")  # without a terminal getpass would read stdin
        return typed_unseen(prompt)

    def choice(self, prompt: str) -> str:
        return self.confirm(prompt)

    def confirm(self, prompt: str) -> str:
        self._write(prompt)
        with self._tty.open(encoding="utf-8", errors="replace") as terminal:
            line = terminal.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def _write(self, text: str) -> None:
        try:
            with self._tty.open("rb+", buffering=0) as terminal:
                terminal.write(text.encode("utf-8", "replace"))
        except OSError as exc:
            raise LoginNeededError(
                "A login needs answers, and there is no terminal to ask for them.",
                hint="Log in first: `jupyter slurm login` in a terminal.",
            ) from exc
