"""The relay of a job: our program node/relay.py, which opens connections from inside the job.

The program starts with the first connection and serves all later ones. It gets its source code on
standard input, not from a file. relay_streams.py exchanges its frames.
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
from jupyter_slurm.formatting import size
from jupyter_slurm.transport import limits
from jupyter_slurm.transport.relay_streams import Streams, StreamsEndedError

_START_S = 40.0
"""Seconds to wait for the program's first output: Slurm may be slow to create a step."""
_LAST_WORDS = 2000
_ABSTRACT = "@"
"""Prefix that marks a host as the name of an abstract socket; node/relay.py defines the same
prefix."""

_PROGRAM = """mark=$1; shift
exec 3>&1
words=$("$@" 2>&1 >&3 3>&-)
printf '\\n%s%s' "$mark" "$words"
"""
"""A POSIX sh script that runs the command in its arguments, passes on the command's standard
output, and then prints a mark and the command's standard error."""
_PYTHON = """for python in "$1" python3 /usr/libexec/platform-python; do
  command -v "$python" >/dev/null && shift && exec "$python" "$@"
done
echo "Found no Python on $(uname -n): neither $1 nor python3." >&2
exit 127
"""
"""A POSIX sh script for the node. It runs the first existing Python with the script's other
arguments. `$1` is the preferred Python."""
_LOADER = """import os
text = b""
while len(text) < {size}:
    text += os.read(0, {size} - len(text)) or os._exit(0)
exec(compile(text, "relay.py", "exec"))
"""
"""Python code that reads only the program from standard input, not the data after it, and runs the
program."""
_FRAMING = """import sys, types
module = sys.modules["framing"] = types.ModuleType("framing")
exec(compile({text!a}, "framing.py", "exec"), module.__dict__)
"""
"""Python code that precedes the program and provides its module `framing`."""

OpenStream = Callable[[Sequence[str]], socket.socket]
"""The method `Transport.open_stream`."""
OnNode = Callable[[Sequence[str]], Sequence[str]]
"""A function from an argv to the command that runs it on the node."""


def abstract_socket(name: str) -> tuple[str, int]:
    """Return the host and port by which `Relay.connect` reaches the abstract socket `name` of this
    user on the node."""
    return _ABSTRACT + name, 0


def _node_file(name: str) -> bytes:
    """Return the content of a file in `node/`."""
    return (resources.files("jupyter_slurm") / "node" / name).read_bytes()


class NotListeningError(ForwardError):
    """No program on the node listens at that port or socket yet."""


class Relay:
    """The relay of one job. `open_stream` runs a command on the cluster. `on_node` wraps that
    command so that it runs on the node. `python` is the interpreter on the node, and `node` the
    node's name for messages."""

    def __init__(self, open_stream: OpenStream, on_node: OnNode, python: str, node: str) -> None:
        self._open_stream = open_stream
        self._on_node = on_node
        self._python = python
        self._node = node
        self._lock = threading.Lock()
        self._start: Future[Streams] | None = None
        self._closed = False

    def connect(self, sock: socket.socket, host: str, port: int) -> None:
        """Connect `sock` from the node as `Transport.connect` does, but wait until it is connected.
        `host` may be the path of a Unix socket if `port` is 0. After a failure, the caller still
        owns `sock`. Raises NotListeningError, or ForwardError if the relay does not run."""
        reason = ""
        for _ in range(2):
            streams = self._running()
            try:
                return streams.open(sock, host, port)
            except StreamsEndedError as exc:
                reason = str(exc)  # "" after idling or a lost connection: start another
            except ForwardError as exc:
                target = host if host.startswith((_ABSTRACT, "/")) else f"{host}:{port}"
                raise NotListeningError(
                    f"Cannot reach {target} from {self._node}: {exc.message}.",
                    hint="Check that the program on the node is listening.",
                ) from exc
        if reason:
            raise ForwardError(f"The relay in the job sent invalid data: {reason}.")
        raise ForwardError("The relay in the job ended while it was connecting.")

    def start(self) -> None:
        """Start the program unless it is running, and wait until it runs. Raises ForwardError."""
        self._running()

    def close(self) -> None:
        """End every connection and the program."""
        with self._lock:
            self._closed = True
            start = self._start
        if start is not None and start.exception() is None:
            start.result().close()

    def _running(self) -> Streams:
        """Return the streams of the running program. Start the program if needed. Raises
        ForwardError."""
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
        framing = _node_file("framing.py").decode()
        text = _FRAMING.format(text=framing).encode() + _node_file("relay.py")
        first, last = secrets.token_hex(16), secrets.token_hex(16)
        loader = _LOADER.format(size=len(text))
        program = ["/bin/sh", "-c", _PYTHON, "sh", self._python, "-I", "-S", "-c", loader, first]
        argv = ["/bin/sh", "-c", _PROGRAM, "sh", last, *self._on_node(program)]
        channel = self._open_stream(argv)
        try:
            channel.settimeout(_START_S)
            with suppress(ConnectionError):  # it has already ended; its output has the reason
                channel.sendall(text)
            return Streams(channel, _after_first_word(channel, first.encode(), last.encode()))
        except BaseException:
            channel.close()
            raise


def _after_first_word(channel: socket.socket, first: bytes, last: bytes) -> bytes:
    """Skip a prolog's output and the program's first output; return the rest. Raise ForwardError if
    the program did not start (with the text after `last`), or if the prolog prints too much.
    """
    output = bytearray()
    deadline_s = time.monotonic() + _START_S
    # A reset is also an end: the program did not read all its input.
    with suppress(ConnectionError):
        while data := _received(channel, deadline_s):
            output += data
            _, found, after = output.partition(first)
            if found:
                return bytes(after)
            if len(output) > limits.WORDS_BYTES:
                raise ForwardError(
                    "Cannot start the relay on the cluster: more than "
                    f"{size(limits.WORDS_BYTES)} of other output arrived first.",
                    hint="Check whether a prolog on the node prints endlessly.",
                )
    words = output.partition(last)[2].decode(errors="replace").strip()
    raise ForwardError(
        "Cannot start the relay on the cluster.",
        hint="Check that the job is still running.",
        detail=words[-_LAST_WORDS:] or None,
    )


def _received(channel: socket.socket, deadline_s: float) -> bytes:
    channel.settimeout(max(0.1, deadline_s - time.monotonic()))
    try:
        return channel.recv(1 << 16)
    except TimeoutError as exc:
        raise ForwardError(
            f"The relay on the cluster did not answer within {_START_S:g} s."
        ) from exc
