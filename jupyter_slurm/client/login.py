"""The front end's half of a login, which asks the user the questions of `Api.connect`.

A `Prompter` asks on a terminal (this module) or in a notebook (`magics`). Answers are never stored.
"""

from __future__ import annotations

import getpass
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from jupyter_slurm import core_dumps
from jupyter_slurm.api import Api
from jupyter_slurm.errors import JupyterSlurmError, LoginError, LoginNeededError, from_problem
from jupyter_slurm.formatting import visible
from jupyter_slurm.wire import Connection, ConnectionState, Question, QuestionKind

_WAIT_S = 20.0
_SHORT_PROMPT = 40
"""The maximum length of a host's prompt that fits after `alice@gateway.example.org asks:`."""
_QUOTED_WIDTH = 70


class Prompter(Protocol):
    """A way to ask the user."""

    def there(self) -> bool:
        """Return whether the front end can ask a user. If not, callers do not log in."""

    def say(self, text: str) -> None:
        """Show a line."""

    def secret(self, prompt: str) -> str:
        """Read a hidden answer. Raise KeyboardInterrupt or EOFError if the user cancels,
        LoginNeededError if no user can be asked."""

    def choice(self, prompt: str) -> str:
        """Read a visible answer, e.g. a number in a menu."""

    def confirm(self, prompt: str) -> str:
        """Read a yes-or-no answer."""


class LoginDeclined(KeyboardInterrupt):
    """The user cancelled the login, and with it the cell and Run All."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def log_in(api: Api, cluster: str | None, prompter: Prompter, caller: str) -> Connection:
    """Log in and return the open connection. Raises LoginError, HostKeyError or TransportError.

    Raise LoginDeclined if the user cancels, LoginNeededError if no user can be asked.
    """
    try:
        return _Conversation(api, cluster, prompter, caller).run()
    except (KeyboardInterrupt, EOFError):
        to = f" to {cluster}" if cluster else ""
        raise LoginDeclined(f"login{to} cancelled; nothing else was done") from None


class _Conversation:
    """The questions and answers of one login."""

    def __init__(self, api: Api, cluster: str | None, prompter: Prompter, caller: str) -> None:
        self._api = api
        self._cluster = cluster
        self._prompter = prompter
        self._caller = caller
        self._is_anothers = False
        """Set if another window also shows the questions of this login."""

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
            self._prompter.say(
                f"Waiting for the login to {connection.cluster} in another window. Answer "
                "there, or stop waiting with ■ or Ctrl-C."
            )

    def _answer(self, question: Question) -> Connection:
        if question.refused:
            told = f"{question.host} rejected that answer. Try again."
            self._prompter.say(told)
        try:
            answer = _ask(question, self._prompter)
        except (KeyboardInterrupt, EOFError):
            self._decline(question)
            raise
        except LoginNeededError:
            if not self._is_anothers:
                self._decline(question)
            raise
        return self._api.answer(question.id, answer, wait_s=_WAIT_S)

    def _decline(self, question: Question) -> None:
        """Cancel the login for all windows, and wait for its end. Otherwise this caller's next
        login would get the error of the cancelled login."""
        with suppress(JupyterSlurmError):  # the login has ended
            self._api.answer(question.id, None, wait_s=_WAIT_S)


def is_yes(answer: str) -> bool:
    """Return whether the answer means yes."""
    return answer.strip().lower() in ("y", "yes")


def typed_unseen(prompt: str) -> str:
    """Read a password from the terminal, after disabling core dumps of this process."""
    core_dumps.refuse()
    return getpass.getpass(prompt)


def _not_open(connection: Connection) -> JupyterSlurmError:
    if connection.problem is not None:
        return from_problem(connection.problem)
    return LoginError(f"Login to {connection.cluster} failed.", hint="Log in again.")


def _ask(question: Question, prompter: Prompter) -> str:
    """Ask in a form that shows the receiver of the answer. A host's text always follows a mark or
    the host's name, so that it cannot imitate our text."""
    prompt = visible(question.prompt).strip()
    match question.kind:
        case QuestionKind.HOST_KEY:
            for line in question.instruction.splitlines():
                prompter.say(visible(line))
            asked = f"{prompt} (yes/no)"
            return "yes" if is_yes(prompter.confirm(f"{asked} ")) else "no"
        case QuestionKind.PASSPHRASE:
            return prompter.secret(f"Your answer stays on this machine. {prompt} ")
        case QuestionKind.TOUCH:
            prompter.say(f"Touch your security key. {prompt}")
            return ""
        case QuestionKind.TEXT:
            return prompter.choice(_quoted(question, prompt, prompter))
        case QuestionKind.SECRET:
            return prompter.secret(_quoted(question, prompt, prompter))


def _quoted(question: Question, prompt: str, prompter: Prompter) -> str:
    """Show the host's instruction as a quotation and return the prompt."""
    lines = question.instruction.splitlines()
    if len(prompt) > _SHORT_PROMPT:
        # A terminal would wrap the prompt, and the host could choose the start of the next line.
        lines, prompt = [*lines, prompt], "Your answer:"
    if any(line.strip() for line in lines):
        prompter.say(f"{question.host} says:")
    for line in lines:
        for part in textwrap.wrap(visible(line), _QUOTED_WIDTH):
            prompter.say(f"  | {part}")
    if question.names_a_key:
        prompter.say(
            f"Careful: {question.host} asks this question and does not need the passphrase of "
            "your key. Your answer is sent to that host."
        )
    return f"{question.host} asks: {prompt} "


class TerminalPrompter:
    """A prompter on the process's terminal, regardless of stdin and stdout."""

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
        self._write("")  # without a terminal, getpass would read stdin
        with self._line_ended():
            return typed_unseen(prompt)

    def choice(self, prompt: str) -> str:
        return self.confirm(prompt)

    def confirm(self, prompt: str) -> str:
        self._write(prompt)
        with self._line_ended():
            with self._tty.open(encoding="utf-8", errors="replace") as terminal:
                line = terminal.readline()
            if not line:
                raise EOFError
        return line.rstrip("\n")

    @contextmanager
    def _line_ended(self) -> Iterator[None]:
        """End the prompt's line when the user cancels."""
        try:
            yield
        except (KeyboardInterrupt, EOFError):
            self._write("\n")
            raise

    def _write(self, text: str) -> None:
        try:
            with self._tty.open("rb+", buffering=0) as terminal:
                terminal.write(text.encode("utf-8", "replace"))
        except OSError as exc:
            raise LoginNeededError(
                "The login needs answers, which require a terminal.",
                hint="Log in first with `jupyter slurm login` in a terminal.",
            ) from exc
