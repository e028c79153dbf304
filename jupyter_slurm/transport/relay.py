"""The relay: TCP connections through the standard input and output of one program over there.

Starts that program when a connection is wanted and it does not run, and shares it out; its text is
node/relay.py. What is made of the bytes is in relay_streams.py; its maker knows where the program
runs.
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.transport.node_program import RELAY, Beside, Converse, begin
from jupyter_slurm.transport.relay_streams import ConversationEndedError, Streams

_DOOR = "@"
"""Before the name of an abstract socket, in place of a host. node/relay.py has it too."""


def at_door(name: str) -> tuple[str, int]:
    """Return, as host and port of `Relay.carry`, the abstract Unix socket of that name on the node,
    where it is this user's."""
    return _DOOR + name, 0


class Relay:
    """`converse` is the transport's verb; `beside` puts a command in front of one that is to run
    on the node; `python` is the interpreter there."""

    def __init__(
        self,
        converse: Converse,
        beside: Beside,
        python: str,
    ) -> None:
        self._converse = converse
        self._beside = beside
        self._python = python
        self._lock = threading.Lock()
        self._start: Future[Streams] | None = None
        self._closed = False

    def carry(self, sock: socket.socket, host: str, port: int) -> None:
        """Carry from the node, as `Transport.carry`, but wait; a failure leaves `sock` as it
        was."""
        reason = ""
        for _ in range(2):
            streams = self._running()
            try:
                return streams.open(sock, host, port)
            except ConversationEndedError as exc:
                reason = str(exc)  # or it had run idle, or was cut off: a new one may do
            except ForwardError as exc:
                if host.startswith(_DOOR):
                    raise ForwardError(
                        "{host} cannot be reached on the job's node: {words}.",
                        host=host,
                        words=exc.message,
                    ) from exc
                raise ForwardError(
                    "{host}:{port} cannot be reached from the job's node: {words}.",
                    hint="Does the program in the job listen there already?",
                    host=host,
                    port=port,
                    words=exc.message,
                ) from exc
        if reason:
            raise ForwardError(
                "The relay in the job is not what was sent there: {reason}.", reason=reason
            )
        raise ForwardError("The relay in the job ended while it was connecting.")

    def start(self) -> None:
        """Return when the program runs, so that later callers need not wait. ForwardError."""
        self._running()

    def rest(self) -> None:
        """End the program where it carries nothing; a later caller begins it anew. Do not wait."""
        with self._lock:
            start = self._start
        if start is not None and start.done() and start.exception() is None:
            start.result().rest()

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
            self._converse, self._beside, self._python, RELAY, ["framing.py", "relay.py"]
        )
        return Streams(channel, after)
