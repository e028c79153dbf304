"""OpenSSH's questions, which the user answers in a browser, a notebook or a terminal.

`ssh` starts `askpass` with the text of the question. `askpass` passes the text to the socket of the
running login and prints the answer. Programs that `ssh` starts, such as another `ssh` in a
ProxyCommand, ask in the same way. Answers are not stored.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from jupyter_slurm.errors import HostKeyError
from jupyter_slurm.transport.ask import Ask, Prompt
from jupyter_slurm.transport.server_text import shown, shown_line
from jupyter_slurm.wire import QuestionKind

ASKPASS = Path(__file__).with_name("askpass")
_MOST_BYTES = 1 << 16
_READ_S = 5.0

_HOST_KEY = re.compile(r"The authenticity of host .* can't be established", re.DOTALL)
_FINGERPRINT = re.compile(r"^(\S+) key fingerprint is:? (\S+?)\.?$", re.MULTILINE)
_KNOWN_AS = re.compile(r"    ~?\S+:\d+: ")
"""OpenSSH's lines about known_hosts entries with the same key under another name."""
_LOCAL = re.compile(r"Enter (passphrase|PIN) for ")
_BY_HOST = re.compile(r"\(\S+@\S+\) ")
"""The prefix of a host's keyboard-interactive questions, since OpenSSH 8.5."""
_VISIBLE = re.compile(r"\b(choice|choose|select(ion)?|option|menu|user ?name)\b", re.IGNORECASE)
_HIDDEN = re.compile(r"pass|code|pin\b|token|secret|otp", re.IGNORECASE)


class Question(NamedTuple):
    text: str
    hint: str
    """The kind of question: `confirm` takes yes or no; `none` does not need an answer, only a touch
    of a security key."""
    asker: int
    """The PID of the process that asks."""


class Questions:
    """The socket for a login's questions. `told` returns OpenSSH's output since the last call:
    banners and other texts that belong to the next question."""

    def __init__(self, path: Path, host: str, prefixes: bool, told: Callable[[], str]) -> None:
        """Listen at `path`. `host` is the label of the hop. `prefixes` is true if this OpenSSH
        marks a host's questions (8.5 and later)."""
        self._path = path
        self._host = host
        self._prefixes = prefixes
        self._told = told
        self._asked: set[str] = set()
        self.by_person = False
        """True if the user gave an answer that the next login needs, too."""
        self.count = 0
        """The number of questions from the host. Each may have got a wrong answer."""
        path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.fspath(path))
        self.listener.listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.listener.close()
        self._path.unlink(missing_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that make `ssh` ask at this socket."""
        return {
            "SSH_ASKPASS": os.fspath(ASKPASS),
            "SSH_ASKPASS_REQUIRE": "force",
            "DISPLAY": os.environ.get("DISPLAY") or ":0",  # for OpenSSH before 8.4
            "JUPYTER_SLURM_PYTHON": sys.executable,
            "JUPYTER_SLURM_QUESTIONS": os.fspath(self._path),
        }

    def serve(self, ssh: int, ask: Ask, end: Callable[[], None]) -> None:
        """Accept one question and get its answer. `ssh` is the process of this login, and `end`
        ends it. Without an answer, `ssh` would continue with an empty answer, which counts as a
        wrong password. So end `ssh` before `askpass` gets a reply.
        """
        conn, _ = self.listener.accept()
        with conn:
            conn.settimeout(_READ_S)
            try:
                told = json.loads(conn.makefile("rb").readline(_MOST_BYTES))
                question = Question(told["text"], told["hint"], told["asker"])
            except (OSError, ValueError, KeyError, TypeError):
                return
            try:
                answer = self._answer(question, ssh, ask)
            except BaseException:
                end()
                raise
            with contextlib.suppress(OSError):
                conn.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, question: Question, ssh: int, ask: Ask) -> str | None:
        host = self._host if question.asker == ssh else _asker(question.asker) or self._host
        prompt = self.prompt(question, host)
        text = ask(prompt)
        if prompt.kind is QuestionKind.TOUCH:
            return ""
        if prompt.kind is QuestionKind.HOST_KEY:
            if text.strip().lower() != "yes":
                raise HostKeyError(
                    f"You did not accept the host key of {prompt.host}.",
                    hint="Find out the host's fingerprint, then log in again.",
                )
            return "yes"
        self.by_person = True
        if question.hint == "confirm":
            return "yes" if text.strip().lower() in ("yes", "y") else None
        return text

    def prompt(self, question: Question, host: str) -> Prompt:
        """Return the question for the user."""
        text = question.text
        if question.hint == "none":
            self.by_person = True
            return Prompt(QuestionKind.TOUCH, host, shown_line(text))
        if _HOST_KEY.match(text):
            return _about_a_key(text, host)
        again = text in self._asked
        if again:  # a new round of questions
            self._asked.clear()
        self._asked.add(text)
        before = shown(self._told())
        if _LOCAL.match(text) and self._prefixes:
            return Prompt(QuestionKind.PASSPHRASE, host, shown_line(text), refused=again)
        self.count += 1
        said = shown(_BY_HOST.sub("", text, count=1))
        *words, asked = said.rsplit("\n", 1)
        hidden = _HIDDEN.search(asked) or not _VISIBLE.search(asked)
        return Prompt(
            QuestionKind.SECRET if hidden else QuestionKind.TEXT,
            host,
            shown_line(asked) or "Answer:",
            instruction="\n".join(part for part in (before, *words) if part),
            refused=again,
        )


def _about_a_key(text: str, host: str) -> Prompt:
    found = _FINGERPRINT.search(text)
    key = f"{found[1]} {found[2]}" if found else shown(text)
    said = [f"{host} is not in known_hosts on this machine. Its key:", key]
    said += [line.strip() for line in text.splitlines() if _KNOWN_AS.match(line)]
    return Prompt(
        QuestionKind.HOST_KEY,
        host,
        f"Is this the key of {host}? If you answer yes, the key is added to known_hosts.",
        instruction=shown("\n".join(said)),
    )


def _asker(pid: int) -> str | None:
    """Return the host that another `ssh` connects to (Linux only); None if unknown."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    return shown_line(words[-2]) if len(words) > 1 else None
