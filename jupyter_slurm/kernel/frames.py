"""Frames of one connection to node/kernel.py. The node's half is node/kernel_frames.py.

Data from the node is not trusted. This module limits the size of frames, also after decompression,
and the number of parts in a message.
"""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from jupyter_slurm.untrusted_json import read_json
from jupyter_slurm.wire.framing import ALIVE, Inbox, frame

NUMBER = struct.Struct(">Q")
_PART = struct.Struct(">I")
_READ_BYTES, _WRITE_BYTES = 1 << 18, 1 << 16
MESSAGE_MOST = 256 << 20
"""Maximum size of a message, including its number. node/kernel_frames.py defines the same limit and
drops larger messages; `KernelStream.send` rejects them."""
_WORD_MOST = 1 << 20
"""Maximum size of any other frame."""
_PARTS_MOST = 1 << 16
"""Maximum number of parts of a message. Each part costs more memory than the four bytes that
declare it."""
CHANNELS = {"shell": b"s", "control": b"c", "stdin": b"i", "iopub": b"o", "ours": b"x"}
_NAMES = {letter: name for name, letter in CHANNELS.items()}


class NodeConnection:
    """A non-blocking connection that exchanges frames. The size of its input is limited."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.outbox = bytearray()
        # Deflate adds 5 bytes to each 16 KiB of random data.
        packed_most = MESSAGE_MOST + (MESSAGE_MOST >> 10)
        self._inbox = Inbox(_WORD_MOST, {b"M": MESSAGE_MOST, b"Z": packed_most})
        self.sent_s = self.received_s = time.monotonic()
        self.welcomed = self.taken = False
        self._packer: zlib._Compress | None = None
        self._unpacker = zlib.decompressobj(-15)
        self.sent = 0
        self.acknowledged = 0

    def say(self, kind: bytes, *parts: bytes) -> None:
        self.sent_s = time.monotonic()
        self.outbox += frame(kind, *parts)

    def say_message(self, body: bytes) -> None:
        if self._packer is None:
            self.say(b"M", body)
        else:
            self.say(b"Z", self._packer.compress(body), self._packer.flush(zlib.Z_SYNC_FLUSH))

    def pack(self) -> None:
        """Compress messages from now on. The node does so after its welcome."""
        self._packer = zlib.compressobj(1, zlib.DEFLATED, -15)

    def flush(self) -> bool:
        """Send what the socket accepts. Return whether the node is still connected."""
        try:
            while self.outbox:
                del self.outbox[: self.sock.send(self.outbox[:_WRITE_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def receive(self) -> list[tuple[bytes, bytes]] | None:
        """Return the complete frames; None if the node has disconnected. Answer a partial frame
        with `ALIVE` (node/framing.py explains why). Raise ValueError or zlib.error for invalid
        data."""
        try:
            data = self.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data or self._inbox.ended:
            return None
        self.received_s = time.monotonic()
        found = [
            (b"M", self._unpacked(body)) if kind == b"Z" else (kind, body)
            for kind, body in self._inbox.take(data)
        ]
        if self._inbox.partial and not self.outbox:
            self.say(ALIVE)
        return found if found or not self._inbox.ended else None

    def _unpacked(self, body: bytes) -> bytes:
        """Decompress the body. Raise ValueError above the limit, since a few bytes can expand a
        thousandfold."""
        found = self._unpacker.decompress(body, MESSAGE_MOST + 1)
        if len(found) > MESSAGE_MOST:
            raise ValueError(f"a message of more than {MESSAGE_MOST} bytes")
        return found


class TooLargeError(ValueError):
    """The message is too large to send."""


def message_body(channel: str, parts: Sequence[bytes]) -> bytes:
    """Return a message without its number. Raises TooLargeError."""
    size = NUMBER.size + 1 + sum(_PART.size + len(part) for part in parts)
    if size > MESSAGE_MOST:
        raise TooLargeError(f"a message of {size} bytes")
    return CHANNELS[channel] + b"".join(_PART.pack(len(part)) + part for part in parts)


def parts_of(body: bytes) -> tuple[str, list[bytes]]:
    """Parse a numbered message; return its channel and parts. Raise ValueError, KeyError or
    struct.error for invalid data."""
    at = NUMBER.size
    channel = _NAMES[body[at : at + 1]]
    at += 1
    parts: list[bytes] = []
    while at < len(body):
        if len(parts) == _PARTS_MOST:
            raise ValueError(f"a message of more than {_PARTS_MOST} parts")
        (size,) = _PART.unpack_from(body, at)
        at += _PART.size
        parts.append(body[at : at + size])
        at += size
    return channel, parts


class Welcome(msgspec.Struct, frozen=True):
    """The node's first message on a connection."""

    boot: str
    """The ID of this process of node/kernel.py. A new process has another ID and does not have the
    earlier messages."""
    got: int
    """The number of the last message that the node received."""
    next: int
    """The number of the next message that the node will send."""
    info: dict[str, Any] | None
    """The answer to kernel_info_request; None if the kernel does not listen yet."""
    count: int
    """The number of ipykernel starts in this job."""
    busy: bool
    packs: bool = False


class _Event(msgspec.Struct, frozen=True, tag_field="event"):
    pass


class Ready(_Event, frozen=True, tag="ready"):
    info: dict[str, Any]


class Restarting(_Event, frozen=True, tag="restarting"):
    pass


class Died(_Event, frozen=True, tag="died"):
    status: int
    """The exit code, or the negative signal number, as in `subprocess`."""
    again: bool
    """True if the node starts another ipykernel."""


class LeftOut(_Event, frozen=True, tag="left out"):
    messages: int
    bytes: int


class Ending(_Event, frozen=True, tag="ending"):
    signal: str


class Warned(_Event, frozen=True, tag="signal"):
    signal: str


Event = Ready | Restarting | Died | LeftOut | Ending | Warned


def welcome(body: bytes) -> Welcome:
    return read_json(body, Welcome)


def event(body: bytes) -> Event:
    return read_json(body, Event)  # type: ignore[arg-type]  # a union is a form too
