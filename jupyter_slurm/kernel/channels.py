"""A kernel's sockets, as its connection file names them.

`Channels` answers the heartbeat and keeps iopub messages until a client subscribes. No threads.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.kernel.messages import Message, Signer, made

_KINDS = {"shell": zmq.ROUTER, "control": zmq.ROUTER, "stdin": zmq.ROUTER, "iopub": zmq.XPUB}
_BATCH = 64
_IOPUB_MOST = 100_000
"""Maximum number of messages to keep for a slow client. A local kernel keeps a thousand, but it
never has to deliver a backlog at once."""
HEARD = ("control", "shell", "stdin")
"""The channels on which clients send messages, the most urgent first."""


@dataclass(frozen=True, slots=True)
class ConnectionFile:
    transport: str
    ip: str
    ports: Mapping[str, int]
    """The port of each channel, and of the heartbeat (`hb`)."""
    key: bytes
    scheme: str

    def address(self, channel: str) -> str:
        port = self.ports[channel]
        between = ":" if self.transport == "tcp" else "-"
        return f"{self.transport}://{self.ip}{between}{port}"


def read_connection_file(path: Path) -> ConnectionFile:
    """Read a connection file. Raise ConfigError if it is not readable as a connection file."""
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return ConnectionFile(
            transport=str(told.get("transport", "tcp")),
            ip=str(told["ip"]),
            ports={name: int(told[f"{name}_port"]) for name in (*_KINDS, "hb")},
            key=str(told.get("key", "")).encode(),
            scheme=str(told.get("signature_scheme", "hmac-sha256")),
        )
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ConfigError(
            f"Cannot read the Jupyter connection file {path}: {exc!r}.",
            hint="Let Jupyter start this program as a kernel.",
        ) from exc


class Channels:
    """The sockets at the addresses of a kernel's connection file."""

    def __init__(self, connection: ConnectionFile, session: str) -> None:
        """Listen on the ports. Raise ConfigError if a port is taken or this machine cannot listen
        on the address, ValueError if the signature scheme is unknown."""
        self._session = session
        self._signer = Signer(connection.scheme, connection.key)
        self._context = zmq.Context()
        self._sockets: dict[str, zmq.Socket[bytes]] = {}
        self._unheard: deque[Message] = deque()
        self._listened = False
        self._poller = zmq.Poller()
        for name, kind in {**_KINDS, "hb": zmq.ROUTER}.items():
            sock = self._sockets[name] = self._context.socket(kind)
            sock.linger = 1000
            sock.sndhwm = sock.rcvhwm = _IOPUB_MOST
            if name == "iopub":
                sock.setsockopt(zmq.XPUB_VERBOSE, 1)
            elif name != "hb":
                sock.setsockopt(zmq.ROUTER_HANDOVER, 1)
            try:
                sock.bind(connection.address(name))
            except zmq.ZMQError as exc:
                self.close()
                raise ConfigError(
                    f"The kernel cannot listen on {connection.address(name)}: {exc}."
                ) from exc
            self._poller.register(sock, zmq.POLLIN)

    def register(self, descriptor: int) -> None:
        """Let `wait` also return when `descriptor` is readable."""
        self._poller.register(descriptor, zmq.POLLIN)

    def wait(self, timeout_s: float | None) -> list[tuple[str, Message]]:
        """Wait for messages, and return them with their channels. Return [] after a timeout, or if
        only another descriptor or socket was readable."""
        ready = dict(self._poller.poll(None if timeout_s is None else int(timeout_s * 1000)))
        if self._sockets["hb"] in ready:
            self._echo()
        if self._sockets["iopub"] in ready:
            self._note_listeners()
        heard: list[tuple[str, Message]] = []
        for name in HEARD:
            if self._sockets[name] in ready:
                heard += ((name, message) for message in self._received(name))
        return heard

    def send(self, channel: str, message: Message) -> None:
        """Send a message to the client that it names. On iopub, send it to all subscribers; keep it
        until the first client subscribes."""
        if channel == "iopub" and not self._listened:
            self._unheard.append(message)
            return
        self._sockets[channel].send_multipart(self._signer.parts(message))

    def close(self) -> None:
        """Close the sockets. The last messages still reach connected clients."""
        for sock in self._sockets.values():
            sock.close()
        self._context.term()

    def _received(self, name: str) -> list[Message]:
        found = []
        for _ in range(_BATCH):
            try:
                parts = self._sockets[name].recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            message = self._signer.message(parts)
            if message is not None:
                found.append(message)
        return found

    def _echo(self) -> None:
        for _ in range(_BATCH):
            try:
                parts = self._sockets["hb"].recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._sockets["hb"].send_multipart(parts)

    def _note_listeners(self) -> None:
        sock = self._sockets["iopub"]
        while True:
            try:
                (told,) = sock.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if not told.startswith(b"\x01"):
                continue
            self._listened = True
            topic = told[1:]
            welcome = made(
                "iopub_welcome",
                {"subscription": topic.decode(errors="replace")},
                session=self._session,
                identities=(topic,),
            )
            sock.send_multipart(self._signer.parts(welcome))
            while self._unheard:
                sock.send_multipart(self._signer.parts(self._unheard.popleft()))
