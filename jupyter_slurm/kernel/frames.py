"""One line to a kernel in a job: its frames, those of `node/kernel_frames.py`, the other end.

Nothing is known here of what messages are, nor of what becomes of a line. The node is believed
nothing: a frame, what it unpacks to and its parts have a size that they cannot exceed.
"""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Sequence

from jupyter_slurm.wire.framing import ALIVE, Inbox, frame

NUMBER = struct.Struct(">Q")
_PART = struct.Struct(">I")
_READ_BYTES, _WRITE_BYTES = 1 << 18, 1 << 16
MESSAGE_MOST = 256 << 20
"""Bytes of a message with its number; node/kernel_frames.py has it too, and leaves out what is
larger. So does `Far.send`, for neither end takes more."""
_WORD_MOST = 1 << 20
"""Of any other frame."""
_PARTS_MOST = 1 << 16
"""Of a message: each costs more memory than the four bytes that can name one."""
CHANNELS = {"shell": b"s", "control": b"c", "stdin": b"i", "iopub": b"o", "ours": b"x"}
_NAMES = {letter: name for name, letter in CHANNELS.items()}


class NodeLine:
    """One line, in frames; it never waits. Its input is bounded, whoever sends it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.outbox = bytearray()
        # Deflate adds 5 bytes to each 16 KiB of noise.
        packed_most = MESSAGE_MOST + (MESSAGE_MOST >> 10)
        self._inbox = Inbox(_WORD_MOST, {b"M": MESSAGE_MOST, b"Z": packed_most})
        self.said_s = self.heard_s = time.monotonic()
        self.welcomed = self.taken = False
        self._packer: zlib._Compress | None = None
        self._unpacker = zlib.decompressobj(-15)
        self.sent = 0
        self.told = 0

    def say(self, kind: bytes, *parts: bytes) -> None:
        self.said_s = time.monotonic()
        self.outbox += frame(kind, *parts)

    def say_message(self, body: bytes) -> None:
        if self._packer is None:
            self.say(b"M", body)
        else:
            self.say(b"Z", self._packer.compress(body), self._packer.flush(zlib.Z_SYNC_FLUSH))

    def pack(self) -> None:
        """Compress what is sent from now on; the other end does so from its welcome on."""
        self._packer = zlib.compressobj(1, zlib.DEFLATED, -15)

    def flush(self) -> bool:
        """Send what the socket takes; return whether the other end is still there."""
        try:
            while self.outbox:
                del self.outbox[: self.sock.send(self.outbox[:_WRITE_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def receive(self) -> list[tuple[bytes, bytes]] | None:
        """Return the frames that are whole; None: the other end has gone. node/framing.py tells why
        a part of a frame is answered. ValueError, zlib.error: this is not what a kernel says."""
        try:
            data = self.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data or self._inbox.ended:
            return None
        self.heard_s = time.monotonic()
        found = [
            (b"M", self._unpacked(body)) if kind == b"Z" else (kind, body)
            for kind, body in self._inbox.take(data)
        ]
        if self._inbox.partial and not self.outbox:
            self.say(ALIVE)
        return found if found or not self._inbox.ended else None

    def _unpacked(self, body: bytes) -> bytes:
        """Return the body unpacked, up to a limit: a few bytes unpack to a thousand times as
        many."""
        found = self._unpacker.decompress(body, MESSAGE_MOST + 1)
        if len(found) > MESSAGE_MOST:
            raise ValueError(f"a message of more than {MESSAGE_MOST} bytes")
        return found


class TooLargeError(ValueError):
    """An error for a message that is too large to send."""


def message_body(channel: str, parts: Sequence[bytes]) -> bytes:
    """Return a message without its number. TooLargeError."""
    size = NUMBER.size + 1 + sum(_PART.size + len(part) for part in parts)
    if size > MESSAGE_MOST:
        raise TooLargeError(f"a message of {size} bytes")
    return CHANNELS[channel] + b"".join(_PART.pack(len(part)) + part for part in parts)


def parts_of(body: bytes) -> tuple[str, list[bytes]]:
    """Return channel and parts of a message with its number. ValueError, KeyError, struct.error."""
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
