"""A client's link to its agent: it finds, starts or replaces the agent and keeps connections to its
Unix socket open.

Requests and answers are bytes. A link is thread-safe, works on both sides of a fork, and does not
start threads.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from jupyter_slurm.agent import launch
from jupyter_slurm.agent.peers import check_socket_file, peer_uid
from jupyter_slurm.agent.place import log_path
from jupyter_slurm.agent.protocol import (
    ONCE,
    PREFIX,
    PROTOCOL,
    Hello,
    may_be_done,
    release,
    version,
)
from jupyter_slurm.errors import AgentError
from jupyter_slurm.wire import Problem

_GONE = (ConnectionError, FileNotFoundError, BlockingIOError)
"""Errors that occur if no agent is listening, or if the agent ends during the call. BlockingIOError
means that the agent's queue of new connections is full (connect(2), EAGAIN)."""

_HELLO_TIMEOUT_S = 10.0
_PAUSES_S = (0.0, 0.1, 1.0)
"""Pauses before each attempt of a call. Calls in `ONCE` are repeated only if they had no effect."""
_RECOVERY_S = 30.0
"""Seconds to find or start an agent; longer than an agent takes to end."""
_LOOK_S = 0.05
_LONGEST_LOOK_S = 1.0
_IDLE_CONNECTIONS = 8
_PIECE_BYTES = 1 << 18


class Link:
    """A link to the agent at `path`. `command` starts an agent. If `command` is None, the link
    never starts or replaces an agent."""

    def __init__(self, path: Path, command: Sequence[str] | None) -> None:
        self._path = path
        self._command = command
        # Threads share the connections without a lock, because the methods of deque are atomic.
        self._idle: deque[AgentConnection] = deque(maxlen=_IDLE_CONNECTIONS)
        self._pid = os.getpid()
        self._replaces = command is not None

    def check(self) -> None:
        """Wait for an agent. If needed, start an agent or replace an older agent. Raises
        AgentError."""
        self._idle.append(self._take(time.monotonic() + _RECOVERY_S))

    def reaches(self) -> bool:
        """Return whether an agent answers. Raise AgentError if its version is incompatible."""
        try:
            self._idle.append(self._connected())
        except _GONE:
            return False
        return True

    def ask(self, name: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Return the status and the body of the answer. Raise AgentError if no agent starts, if the
        agent does not answer within `timeout_s` or ends repeatedly, or if a call in `ONCE` may have
        had an effect."""
        connection, answer = self._exchange(name, body, timeout_s)
        self._idle.append(connection)
        return answer

    def stream(self, name: str, body: bytes, timeout_s: float) -> socket.socket | tuple[int, bytes]:
        """Send a request like `ask`. If the status is 101, return the connection as a socket."""
        connection, answer = self._exchange(name, body, timeout_s)
        if answer[0] == 101:
            return connection.into_stream()
        self._idle.append(connection)
        return answer

    def _exchange(
        self, name: str, body: bytes, timeout_s: float
    ) -> tuple[AgentConnection, tuple[int, bytes]]:
        deadline_s = None
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            sent = False
            try:
                until_s = deadline_s or time.monotonic() + _RECOVERY_S
                # A call in `ONCE` gets a new connection, since an idle connection may be dead.
                connection = self._obtain(until_s) if name in ONCE else self._take(until_s)
                sent = True
                answer = _post(connection, name, body, timeout_s)
            except _GONE as exc:
                if sent and name in ONCE and not isinstance(exc, NotDoneError):
                    raise may_be_done(name, exc) from exc
                gone = exc
                self.close()  # idle connections reach the same agent
                deadline_s = deadline_s or time.monotonic() + _RECOVERY_S
            else:
                return connection, answer
        raise AgentError(
            f"The agent ended {len(_PAUSES_S)} times during {name}.",
            hint=f"See the agent's log: {log_path()}",
            detail=repr(gone),
        ) from gone

    def close(self) -> None:
        """Close the idle connections; the link remains usable."""
        with suppress(IndexError):  # all closed, or taken by another thread
            while True:
                self._idle.pop().close()

    def _take(self, deadline_s: float) -> AgentConnection:
        if self._pid != os.getpid():  # the parent keeps its connections
            self.close()
            self._pid = os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return self._obtain(deadline_s)

    def _obtain(self, deadline_s: float) -> AgentConnection:
        """Return a new connection; start or replace the agent if needed."""
        pause_s = 0.0
        while True:
            try:
                return self._connected()
            except _GONE as exc:
                left_s = self._time_left(deadline_s, exc)
            assert self._command is not None
            launch.start(self._command, self._path, left_s)
            time.sleep(pause_s)
            pause_s = min(pause_s + _LOOK_S, _LONGEST_LOOK_S)

    def _time_left(self, deadline_s: float, gone: Exception) -> float:
        """Return the seconds left. Raise AgentError after the deadline, or if this link does not
        start agents."""
        if self._command is None:
            raise AgentError("No agent is running.", detail=str(gone)) from gone
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise AgentError(
                f"No agent has answered at {self._path} for {_RECOVERY_S:.0f} s.",
                hint=f"See the agent's log: {log_path()}",
                detail=str(gone),
            ) from gone
        return left_s

    def _connected(self) -> AgentConnection:
        """Return a connection to an agent of a compatible version. Ask an older agent to end, and
        then raise one of `_GONE`."""
        try:
            connection = AgentConnection(self._path)
        except _GONE:
            raise
        except OSError as exc:  # no permission, or a path too long for a socket
            raise AgentError(
                f"Cannot use the agent's socket {self._path}: {exc}.",
                hint="Set JUPYTER_RUNTIME_DIR to your own folder on a local disk.",
            ) from exc
        if self._replaces and is_older(connection.hello):
            # Replace an agent only once, because the version on disk may be older than the loaded
            # version.
            self._replaces = False
            connection.retire()
            connection.close()
            raise ConnectionResetError("an older agent was asked to end")
        if connection.hello.protocol != PROTOCOL:
            connection.close()
            raise AgentError(
                f"The agent (version {connection.hello.version}) and this process (version "
                f"{version()}) are incompatible.",
                hint="Restart the kernel or the Jupyter server to load the installed version.",
            )
        return connection


def is_older(hello: Hello) -> bool:
    """Return whether the agent is older than this process."""
    return (hello.protocol, release(hello.version)) < (PROTOCOL, release(version()))


def _post(
    connection: AgentConnection, name: str, body: bytes, timeout_s: float
) -> tuple[int, bytes]:
    try:
        return connection.post(name, body, timeout_s)
    except BaseException:  # also after an interrupt: the next call would read this answer
        connection.close()
        raise


class NotDoneError(ConnectionResetError):
    """The agent did not start the call."""


class AgentConnection:
    """A connection to an agent that has answered; `hello` identifies it. The constructor raises one
    of `_GONE` if no agent answers, AgentError if the socket is not trustworthy or the agent hangs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            check_socket_file(path)
            self._connect()
            self.hello = msgspec.json.decode(self._ask("GET", "hello", b""), type=Hello)
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def _connect(self) -> None:
        self.sock.settimeout(_HELLO_TIMEOUT_S)
        self.sock.connect(os.fspath(self._path))
        if (uid := peer_uid(self.sock)) != os.getuid():
            raise AgentError(f"Another user (uid {uid}) serves {self._path}.")

    def post(self, name: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Return the status and body of the answer. Raise one of `_GONE` if the agent ends,
        AgentError after the timeout."""
        self.sock.settimeout(timeout_s)
        try:
            status, answer = self._exchange("POST", name, body)
        except TimeoutError as exc:
            raise AgentError(
                f"The agent (pid {self.hello.pid}) did not answer {name} within {timeout_s:.0f} s.",
                hint="Try again, since the cluster may be slow. Show the agent's state "
                "with `jupyter slurm status`.",
            ) from exc
        if status == 503 and _is_retiring(answer):
            raise NotDoneError("the agent is exiting")
        return status, answer

    def into_stream(self) -> socket.socket:
        """Return the socket after an answer of 101, and close this object."""
        stream = self.sock.dup()
        stream.settimeout(None)
        self.close()
        return stream

    def retire(self) -> None:
        """Ask the agent to end after its pending requests."""
        self._ask("POST", "retire", b"")

    def _ask(self, verb: str, name: str, body: bytes) -> bytes:
        try:
            status, answer = self._exchange(verb, name, body)
        except TimeoutError as exc:
            raise AgentError(
                f"The agent at {self._path} did not answer within {_HELLO_TIMEOUT_S:.0f} s.",
                hint="If it hangs, kill the process whose ID is in "
                f"{self._path.parent / 'agent.lock'}.",
            ) from exc
        if status != 200:
            raise ConnectionResetError(f"the agent answered {name} with {status}")
        return answer

    def _exchange(self, verb: str, name: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and body of the answer. http.client would wake the agent twice, once
        for the head and once for the body, and would parse slowly."""
        lines = f"{verb} {PREFIX}{name} HTTP/1.1", "Host: agent", f"Content-Length: {len(body)}"
        self.sock.sendall("\r\n".join((*lines, "", "")).encode() + body)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._received()
        first, *headers = received[:end].decode("latin-1").lower().split("\r\n")
        status = int(first.split(" ")[1])
        values = dict(line.split(": ", 1) for line in headers)
        parts, left = [received[end + 4 :]], int(values.get("content-length", 0))
        left -= len(parts[0])
        while left > 0:
            parts.append(self._received())
            left -= len(parts[-1])
        return status, b"".join(parts)

    def _received(self) -> bytes:
        data = self.sock.recv(_PIECE_BYTES)
        if not data:
            raise ConnectionResetError("the agent closed the connection")
        return data


def _is_retiring(answer: bytes) -> bool:
    try:
        problem = msgspec.json.decode(answer, type=Problem)
    except msgspec.MsgspecError:
        return False
    return problem.code == AgentError.code and problem.transient
