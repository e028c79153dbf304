"""One HTTP connection to the agent's Unix socket; no retries, no starting, no Api.

Imported when a client connects for the first time: http.client takes a while to load.
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
"""The errors of a call when nobody listens, or when the agent ends during the call.
BlockingIOError: its queue of new connections is full (connect(2), EAGAIN)."""

_HELLO_TIMEOUT_S = 10.0


class NotDoneError(ConnectionResetError):
    """The agent has not begun to do the call."""


class AgentConnection(http.client.HTTPConnection):
    """A connection to an agent that has answered: `hello` identifies it.

    It raises one of `GONE` if nobody answers, AgentError if the socket is not trustworthy or its
    agent is stuck.
    """

    # http.client would connect again by itself, perhaps to another agent, and greet nobody.
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
        """Return the answer's status and body. One of `GONE`, or AgentError after `timeout_s`."""
        self.sock.settimeout(timeout_s)
        try:
            status, answer = self._exchange("POST", name, body)
        except TimeoutError as exc:
            raise AgentError(
                f"The agent (pid {self.hello.pid}) has not answered {name} in {timeout_s:.0f} s.",
                hint="The cluster may be slow: try again. `jupyter slurm status` shows the agent.",
            ) from exc
        if status == 503 and _is_retiring(answer):
            raise NotDoneError("the agent is about to end")
        return status, answer

    def into_stream(self) -> socket.socket:
        """Return the connection as a stream of bytes, after an answer of 101; close this object."""
        stream = self.sock.dup()
        stream.settimeout(None)
        self.close()
        return stream

    def retire(self) -> None:
        """Ask the agent to end once it has answered its requests."""
        self._ask("POST", "retire", b"")

    def _ask(self, verb: str, name: str, body: bytes) -> bytes:
        try:
            status, answer = self._exchange(verb, name, body)
        except TimeoutError as exc:
            raise AgentError(
                f"Something listens at {self._path}, but has not answered for "
                f"{_HELLO_TIMEOUT_S:.0f} s.",
                hint="If it hangs, end the process whose id is in "
                f"{self._path.parent / 'agent.lock'}; `%slurm doctor` says more.",
            ) from exc
        if status != 200:
            raise ConnectionResetError(f"the agent answered {name} with {status}")
        return answer

    def _exchange(self, verb: str, name: str, body: bytes) -> tuple[int, bytes]:
        self.request(verb, PREFIX + name, body, {"Content-Type": "application/json"})
        # Left to its finalizer, in which Python drops whatever is raised, a Ctrl-C would be lost.
        with self.getresponse() as response:
            return response.status, response.read()


def _is_retiring(answer: bytes) -> bool:
    try:
        problem = msgspec.json.decode(answer, type=Problem)
    except msgspec.MsgspecError:
        return False
    return problem.code == AgentError.code and problem.transient
