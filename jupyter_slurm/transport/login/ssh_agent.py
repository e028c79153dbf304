"""The user's ssh-agent: which keys it holds, and signatures by them. Nothing else of its protocol.

paramiko's own client knows only $SSH_AUTH_SOCK, and stumbles over comments that are no UTF-8.
Source: draft-ietf-sshm-ssh-agent.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import NamedTuple

from paramiko.message import Message

_REQUEST_IDENTITIES, _IDENTITIES_ANSWER = 11, 12
_SIGN_REQUEST, _SIGN_RESPONSE = 13, 14
_FLAGS = {"rsa-sha2-256": 2, "rsa-sha2-512": 4}
_LENGTH = struct.Struct(">I")
_LONGEST_BYTES = 1 << 20
_LIST_TIMEOUT_S = 10.0
_SIGN_TIMEOUT_S = 120.0
"""A person may have to confirm it, or to touch their security key."""


class SshAgentError(Exception):
    """No agent, or one that will not; the text is its reason."""


class AgentKey(NamedTuple):
    blob: bytes
    comment: str


class SshAgent:
    """A conversation with the agent at a socket. SshAgentError."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_LIST_TIMEOUT_S)
        try:
            self._socket.connect(path)
        except OSError as exc:
            self._socket.close()
            raise SshAgentError(f"there is no agent at {path}") from exc

    def identities(self) -> list[AgentKey]:
        answer = self._ask(bytes([_REQUEST_IDENTITIES]), _IDENTITIES_ANSWER)
        count = answer.get_int()
        return [
            AgentKey(answer.get_string(), answer.get_string().decode(errors="replace"))
            for _ in range(min(count, _LONGEST_BYTES))
        ]

    def sign(self, blob: bytes, data: bytes, algorithm: str) -> bytes:
        """A signature as it goes over the wire."""
        request = Message()
        request.add_byte(bytes([_SIGN_REQUEST]))
        request.add_string(blob)
        request.add_string(data)
        request.add_int(_FLAGS.get(algorithm.removesuffix("-cert-v01@openssh.com"), 0))
        self._socket.settimeout(_SIGN_TIMEOUT_S)
        return self._ask(request.asbytes(), _SIGN_RESPONSE).get_string()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> SshAgent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, request: bytes, wanted: int) -> Message:
        try:
            self._socket.sendall(_LENGTH.pack(len(request)) + request)
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if not 0 < length <= _LONGEST_BYTES:
                raise SshAgentError("its answer is not an SSH agent's")
            answer = self._exactly(length)
        except OSError as exc:
            raise SshAgentError(str(exc)) from exc
        if answer[0] != wanted:
            raise SshAgentError("it refused")
        return Message(answer[1:])

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise SshAgentError("it hung up")
            data += more
        return data
