"""From ways to connect a socket that wait to ways that call back, and the other way round; and what
is said at a connection's beginning to who is at its other end.

Nothing here knows where a socket is carried to, or over what.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from jupyter_slurm.errors import ForwardError, JupyterSlurmError

Answered = Callable[[JupyterSlurmError | None], None]
"""Called once, in any thread, and must not wait. None: the connection stands, and its socket has
got another owner; an error: it is as it was."""


class Greeting(Protocol):
    """The greeting of one connection, before it carries anything: both ends learn who is there."""

    first: bytes
    """Said as soon as it stands."""
    answer_bytes: int
    """How long the answer is."""

    def last(self, answer: bytes) -> bytes:
        """Return what to say to the far end, and right behind that what is carried. Do not wait.
        ForwardError: the far end is another."""


_log = logging.getLogger(__name__)


def call_back(connect: Callable[[], None], answered: Answered) -> None:
    """Run `connect`, which waits, and raises where it fails, in a thread of its own."""

    def run() -> None:
        try:
            connect()
        except JupyterSlurmError as exc:
            answered(exc)
        except Exception as exc:  # noqa: BLE001 (nobody waits for an answer in vain)
            _log.exception("a connection stumbled")
            answered(ForwardError("The connection failed: {exc}.", exc=exc))
        else:
            answered(None)

    threading.Thread(target=run, name="carry", daemon=True).start()


def wait_for(carry: Callable[[Answered], None]) -> None:
    """Return when the connection stands; raise what it was answered."""
    answer: Future[JupyterSlurmError | None] = Future()
    carry(answer.set_result)
    error = answer.result()
    if error is not None:
        raise error


def greet(there: socket.socket, greeting: Greeting, timeout_s: float) -> None:
    """Greet, and wait. ForwardError; OSError: the connection is broken, or timed out."""
    until_s = time.monotonic() + timeout_s
    there.settimeout(timeout_s)
    there.sendall(greeting.first)
    answer = b""
    while len(answer) < greeting.answer_bytes:
        there.settimeout(max(0.001, until_s - time.monotonic()))
        data = there.recv(greeting.answer_bytes - len(answer))
        if not data:
            raise ForwardError("Whoever is there has hung up.")
        answer += data
    there.sendall(greeting.last(answer))
