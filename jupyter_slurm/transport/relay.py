"""The relay: TCP connections through the standard input and output of one program over there.

Starts that program when a connection is wanted and it does not run, and shares it out; its text
is node/relay.py. What is made of the bytes is in relay_streams.py; where the program runs is known
to who makes one.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib import resources

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.transport.relay_streams import ConversationEndedError, Streams

_START_S = 40.0
"""From the call to the far end's first word: Slurm may take its time to make a step."""

_PROGRAM = """mark=$1; shift
exec 3>&1
words=$("$@" 2>&1 >&3 3>&-)
printf '\\n%s%s' "$mark" "$words"
"""
"""POSIX sh: runs the rest with its standard output as it is, and says at the end, after a mark,
what came on the other one: the reason, where it failed."""
_PYTHON = """for python in "$1" python3 /usr/libexec/platform-python; do
  command -v "$python" >/dev/null && exec "$python" -I -S -c "$2" "$3"
done
echo "There is no Python on $(uname -n): neither $1 nor python3." >&2
"""
"""POSIX sh, run on the node: the first of the Pythons that is there."""
_LOADER = """import os
text = b""
while len(text) < {size}:
    text += os.read(0, {size} - len(text)) or os._exit(0)
exec(compile(text, "relay.py", "exec"))
"""
"""Reads the far end's text from standard input, and not a byte more, and becomes it."""


class Relay:
    """`converse` is the transport's verb; `beside` puts a command in front of one that is to run
    on the node; `python` is the interpreter there."""

    def __init__(
        self,
        converse: Callable[[Sequence[str]], socket.socket],
        beside: Callable[[Sequence[str]], Sequence[str]],
        python: str,
    ) -> None:
        self._converse = converse
        self._beside = beside
        self._python = python
        self._lock = threading.Lock()
        self._start: Future[Streams] | None = None
        self._closed = False

    def carry(self, sock: socket.socket, host: str, port: int) -> None:
        """As `Transport.carry`, from the node, but waits; a failure leaves `sock` as it was."""
        for _ in range(2):
            streams = self._running()
            try:
                return streams.open(sock, host, port)
            except ConversationEndedError:
                continue  # it had run idle, or was cut off: a new one may do
            except ForwardError as exc:
                raise ForwardError(
                    f"{host}:{port} cannot be reached from the job's node: {exc.message}.",
                    hint="Does the program in the job listen there already?",
                ) from exc
        raise ForwardError("The relay in the job ended while it was connecting.")

    def close(self) -> None:
        """Ends every connection and the program."""
        with self._lock:
            self._closed = True
            start = self._start
        if start is not None and start.exception() is None:
            start.result().close()

    def _running(self) -> Streams:
        """What runs, or is being started by somebody, or else by this caller."""
        with self._lock:
            if self._closed:
                raise ForwardError("The tunnel is closed.")
            start = self._start
            ours = start is None or (
                start.done() and (start.exception() is not None or not start.result().alive)
            )
            if ours:
                start = self._start = Future()
        assert start is not None
        if ours:
            try:
                start.set_result(self._started())
            except BaseException as exc:
                start.set_exception(exc)
                raise
        return start.result()

    def _started(self) -> Streams:
        text = (resources.files("jupyter_slurm") / "node" / "relay.py").read_bytes()
        first, last = secrets.token_hex(16), secrets.token_hex(16)
        loader = _LOADER.format(size=len(text))
        python = ["/bin/sh", "-c", _PYTHON, "sh", self._python, loader, first]
        channel = self._converse(["/bin/sh", "-c", _PROGRAM, "sh", last, *self._beside(python)])
        try:
            channel.settimeout(_START_S)
            with suppress(ConnectionError):  # why it has ended already, it will have said
                channel.sendall(text)
            return Streams(channel, _after_first_word(channel, first.encode(), last.encode()))
        except BaseException:
            channel.close()
            raise


def _after_first_word(channel: socket.socket, first: bytes, last: bytes) -> bytes:
    """What the far end has sent after its first word; what a prolog printed before is passed over.

    ForwardError: with what came after `last`, the words of the program that was to start it.
    """
    said = bytearray()
    deadline_s = time.monotonic() + _START_S
    # A reset is an end as well: the program has left what it was sent unread.
    with suppress(ConnectionError):
        while data := _received(channel, deadline_s):
            said += data
            _, found, after = said.partition(first)
            if found:
                return bytes(after)
    words = said.partition(last)[2].decode(errors="replace").strip()
    raise ForwardError(
        "The relay could not be started inside the job.",
        hint="Does the job still run?",
        detail=words or None,
    )


def _received(channel: socket.socket, deadline_s: float) -> bytes:
    channel.settimeout(max(0.1, deadline_s - time.monotonic()))
    try:
        return channel.recv(1 << 16)
    except TimeoutError as exc:
        raise ForwardError(
            f"The relay inside the job was not heard of within {_START_S:g} s."
        ) from exc
