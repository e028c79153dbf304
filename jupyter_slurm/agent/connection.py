"""One HTTP connection to the agent's Unix socket.

Imported at the first connection, since http.client loads slowly.
"""

from __future__ import annotations

import http.client
import os
import socket
from pathlib import Path

import msgspec

from jupyter_slurm.agent.peers import check_socket_file, peer_uid
from jupyter_slurm.agent.protocol import PREFIX, Hello
from jupyter_slurm.errors import AgentError
from jupyter_slurm.wire import Problem

GONE = (ConnectionError, FileNotFoundError, BlockingIOError, http.client.HTTPException)
"""Errors if no agent listens, or if it ends during the call. BlockingIOError: its queue of new
connections is full (connect(2), EAGAIN)."""

_HELLO_TIMEOUT_S = 10.0


class NotDoneError(ConnectionResetError):
    """The agent did not start the call."""


class AgentConnection(http.client.HTTPConnection):
    """A connection to an agent that has answered; `hello` identifies it.

    Raises one of `GONE` if no agent answers, AgentError if the socket is not trustworthy or the
    agent hangs.
    """

    # http.client would reconnect by itself, perhaps to another agent.
    auto_open = 0

    def __init__(self, path: Path) -> None:
        super().__init__("agent", timeout=_HELLO_TIMEOUT_S)
        self._path = path
        check_socket_file(path)
        try:
            self.connect()
            self.hello = msgspec.json.decode(self._ask("GET", "hello", b""), type=Hello)
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        self.close()

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.fspath(self._path))
        if (uid := peer_uid(self.sock)) != os.getuid():
            raise AgentError(f"{self._path} is served by another user (uid {uid}).")

    def post(self, name: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Return status and body of the answer. One of `GONE`; AgentError: timed out."""
        self.sock.settimeout(timeout_s)
        try:
            status, answer = self._exchange("POST", name, body)
        except TimeoutError as exc:
            raise AgentError(
                f"The agent (pid {self.hello.pid}) did not answer {name} within {timeout_s:.0f} s.",
                hint="Try again; the cluster may be slow. `jupyter slurm status` shows the agent.",
            ) from exc
        if status == 503 and _is_retiring(answer):
            raise NotDoneError("the agent is about to end")
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
        self.request(verb, PREFIX + name, body, {"Content-Type": "application/json"})
        # Closed here, since a Ctrl-C raised in a finalizer would be lost.
        with self.getresponse() as response:
            return response.status, response.read()


def _is_retiring(answer: bytes) -> bool:
    try:
        problem = msgspec.json.decode(answer, type=Problem)
    except msgspec.MsgspecError:
        return False
    return problem.code == AgentError.code and problem.transient
