"""The relay: TCP connections through one program over there.

Starts that program when a connection is wanted and it does not run, and shares it out; its text is
node/relay.py. What is made of the bytes is in relay_streams.py; its maker knows where the program
runs, and how its node is reached.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.transport.node_program import Beside, Converse, begin
from jupyter_slurm.transport.relay_streams import ConversationEndedError, Streams

_STAY = b"S"
"""The stream stays on the program's standard input and output. node/relay.py has it too."""
_SECRET_DIGITS = 32
_OFFER_BYTES = 5 + 1 + _SECRET_DIGITS + 1 + _SECRET_DIGITS + 1
_ANSWER_S = 2.0

_DOOR = "@"
"""Before the name of an abstract socket, in place of a host. node/relay.py has it too."""


def at_door(name: str) -> tuple[str, int]:
    """Return, as host and port of `Relay.carry`, the abstract Unix socket of that name on the node,
    where it is this user's."""
    return _DOOR + name, 0


class NotListeningError(ForwardError):
    """There is no such port or socket on the node, or not yet."""


class Relay:
    """`converse` is the transport's verb; `beside` puts a command in front of one that is to run
    on the node; `python` is the interpreter there; `node` is its name; `reach` connects to a port
    of it, or returns None where that is not to be."""

    def __init__(
        self,
        converse: Converse,
        beside: Beside,
        python: str,
        node: str,
        reach: Callable[[int], socket.socket | None],
    ) -> None:
        self._converse = converse
        self._beside = beside
        self._python = python
        self._node = node
        self._reach = reach
        self._lock = threading.Lock()
        self._start: Future[Streams] | None = None
        self._closed = False

    def carry(self, sock: socket.socket, host: str, port: int) -> None:
        """Carry from the node, as `Transport.carry`, but wait; a failure leaves `sock` as it was.
        `host` may be the path of a Unix socket; `port` is then 0. NotListeningError;
        ForwardError: the program does not run."""
        reason = ""
        for _ in range(2):
            streams = self._running()
            try:
                return streams.open(sock, host, port)
            except ConversationEndedError as exc:
                reason = str(exc)  # or it had run idle, or was cut off: a new one may do
            except ForwardError as exc:
                raise NotListeningError(
                    f"{host if host.startswith((_DOOR, '/')) else f'{host}:{port}'} cannot be "
                    f"reached from {self._node}: {exc.message}.",
                    hint="Does the program there listen already?",
                ) from exc
        if reason:
            raise ForwardError(f"The relay in the job is not what was sent there: {reason}.")
        raise ForwardError("The relay in the job ended while it was connecting.")

    def start(self) -> None:
        """Return when the program runs, so that later callers need not wait. ForwardError."""
        self._running()

    def close(self) -> None:
        """End every connection and the program."""
        with self._lock:
            self._closed = True
            start = self._start
        if start is not None and start.exception() is None:
            start.result().close()

    def _running(self) -> Streams:
        """Return the streams that run or are being started; else start them."""
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
        channel, after = begin(
            self._converse, self._beside, self._python, ["framing.py", "relay.py"]
        )
        try:
            offer, after = _offer(channel, after)
            line = self._by_port(*offer)
            if line is not None:
                return Streams(line, held=channel)
            channel.sendall(_STAY)
        except (OSError, ValueError) as exc:
            channel.close()
            raise ForwardError(f"The relay ended as it began: {exc}.") from exc
        return Streams(channel, after)

    def _by_port(self, port: int, ours: bytes, theirs: bytes) -> socket.socket | None:
        """Return a connection to the program by the port that it offers; None: the port cannot be
        reached, or belongs to somebody else by now."""
        line = self._reach(port)
        if line is None:
            return None
        line.settimeout(_ANSWER_S)
        with suppress(OSError):
            line.sendall(ours)
            if line.recv(len(theirs), socket.MSG_WAITALL) == theirs:
                return line
        line.close()
        return None


def _offer(channel: socket.socket, said: bytes) -> tuple[tuple[int, bytes, bytes], bytes]:
    """Return the port that the program offers, what to say there and what it answers, and what came
    behind that. ValueError, OSError."""
    while b"\n" not in said and len(said) < _OFFER_BYTES:
        more = channel.recv(1 << 16)
        if not more:
            raise ValueError("it hung up")
        said += more
    offer, _, after = said.partition(b"\n")
    port, ours, theirs = offer.split(b" ")
    return (int(port), ours, theirs), after
