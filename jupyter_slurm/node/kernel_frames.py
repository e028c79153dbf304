"""Frames between a kernel's job and its client, and a store of messages that may have to be sent
again.

Runs on the cluster, Python 3.6 and later, standard library only. kernel/frames.py is the other end.
Messages are numbered in each direction, starting at 1, and stored until the other end acknowledges
them (GOT). A client that reconnects names the last message that it has received; it then gets each
later message once.
"""

import os
import struct
import tempfile

import framing

try:
    import zlib
except ImportError:  # a Python may be built without it
    zlib = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    import socket
    from typing import IO, Any, Dict, List, Optional, Tuple, Union

BEGIN = b"B"
"""The client's first frame: JSON with `client`, `got`, `from` (the first message that it has kept)
and `packs` (true if it reads PACKED)."""
WELCOME = b"W"
"""The node's first frame: JSON with `boot`, `got`, `next`, `info`, `busy`, `count` and `packs`."""
MESSAGE = b"M"
"""A message in either direction: NUMBER, a channel (a letter), then the size and bytes of each
part."""
PACKED = b"Z"
"""A MESSAGE compressed with deflate, with the earlier messages as dictionary, if both ends support
it."""
GOT = b"K"
"""An acknowledgement in either direction: the NUMBER of the last message that has arrived."""
ASK = b"Q"
"""The node's request for an immediate answer, because more data follows (framing.py)."""
TAKEN = b"L"
"""The node's last frame: another client has connected."""
NUMBER = struct.Struct(">Q")
PART = struct.Struct(">I")

SHELL, CONTROL, STDIN, IOPUB = b"s", b"c", b"i", b"o"
OURS = b"x"
"""The channel for our commands to the node and for events from the node. Each is one part of JSON.
"""

SILENCE_S = 90.0
"""Seconds of silence after which the peer counts as disconnected."""
ALIVE_S = 20.0
IN_MEMORY_BYTES = 8 << 20
MOST_BYTES = 512 << 20
"""Maximum size of the stored messages. Output beyond it is dropped. The client gets the number of
dropped messages and bytes."""
MESSAGE_MOST = 256 << 20
"""Maximum size of a message, including its number, packed or not. Both ends have this limit."""
PENDING_MOST = 1 << 20
"""Maximum number of bytes to buffer in one connection."""
GATHER_S = 0.003
"""Seconds for collecting messages that arrive together."""
QUIET_S = 0.025
"""Seconds for collecting messages without visible output. The output of a quick cell is then sent
with them, rather than one round trip later."""
QUIET = (b"status", b"execute_input")
"""Topic suffixes of messages without visible output."""


def gather_s(is_seen: bool) -> float:
    return GATHER_S if is_seen else QUIET_S


def is_too_large(body: bytes) -> bool:
    return NUMBER.size + len(body) > MESSAGE_MOST


def pack_parts(channel: bytes, parts: "List[bytes]") -> bytes:
    return channel + b"".join(PART.pack(len(part)) + part for part in parts)


def unpack_parts(body: bytes) -> "Tuple[bytes, List[bytes]]":
    parts, at = [], 1
    while at < len(body):
        (size,) = PART.unpack_from(body, at)
        at += PART.size
        parts.append(body[at : at + size])
        at += size
    return body[:1], parts


class Kept:
    """Messages that may have to be sent again. Those beyond `IN_MEMORY_BYTES` are in an
    unnamed file."""

    def __init__(self) -> None:
        self.first = 1
        """The number of the oldest stored message, or of the next message if none is stored."""
        self.next = 1
        self.size = 0
        self._bodies: "Dict[int, Union[bytes, Tuple[int, int]]]" = {}
        self._in_memory = 0
        self._filed = 0
        self._file: "Optional[IO[bytes]]" = None

    def full(self, size: int) -> bool:
        return self.size + size > MOST_BYTES

    def add(self, body: bytes) -> None:
        """Keep a message. Raise OSError if the disk is full."""
        if self._in_memory + len(body) > IN_MEMORY_BYTES:
            entry: "Union[bytes, Tuple[int, int]]" = (self._write(body), len(body))
            self._filed += 1
        else:
            entry = body
            self._in_memory += len(body)
        self._bodies[self.next] = entry
        self.next += 1
        self.size += len(body)

    def read(self, number: int) -> bytes:
        entry = self._bodies[number]
        if isinstance(entry, bytes):
            return entry
        assert self._file is not None
        return os.pread(self._file.fileno(), entry[1], entry[0])

    def forget(self, number: int) -> None:
        """Drop the messages up to `number`, because they have arrived."""
        while self.first <= min(number, self.next - 1):
            entry = self._bodies.pop(self.first)
            self.first += 1
            if isinstance(entry, bytes):
                self._in_memory -= len(entry)
                self.size -= len(entry)
                continue
            self.size -= entry[1]
            self._filed -= 1
            if not self._filed and self._file is not None:
                self._file.truncate(0)

    def _write(self, body: bytes) -> int:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives on
        at = self._file.seek(0, os.SEEK_END)
        self._file.write(body)
        self._file.flush()
        return at


class KernelLine(framing.Line):
    """The connection to the client. It never blocks."""

    def __init__(self, sock: "socket.socket") -> None:
        # Deflate adds 5 bytes to each 16 KiB of random data.
        most = MESSAGE_MOST + (MESSAGE_MOST >> 10)
        super().__init__(sock.fileno(), sock.fileno(), sock, most)
        self.packer: "Any" = None
        self.unpacker: "Any" = zlib and zlib.decompressobj(-15)
        self.sent = 0
        """The number of the last message in the outbox."""

    def pack(self, other_can: "Optional[bool]") -> bool:
        """Compress messages from now on if both ends can. Return whether they can. Each piece of a
        stream costs time (framing.py); the compressed messages of a small cell fit into one piece.
        """
        can = bool(other_can) and zlib is not None
        self.packer = zlib.compressobj(1, zlib.DEFLATED, -15) if can else None
        return can

    def receive(self) -> "Optional[List[Tuple[bytes, bytes]]]":
        """Return the frames, decompressed; None if the client disconnected or sent invalid data."""
        found = super().receive()
        if found is None:
            return None
        try:
            return [
                self._unpacked(body) if kind == PACKED else (kind, body) for kind, body in found
            ]
        except ValueError:
            return None

    def _unpacked(self, body: bytes) -> "Tuple[bytes, bytes]":
        if zlib is None:
            raise ValueError("compression was not agreed")
        try:
            found = self.unpacker.decompress(body, MESSAGE_MOST + 1)
        except zlib.error as exc:
            raise ValueError(str(exc)) from exc
        if len(found) > MESSAGE_MOST:
            raise ValueError("the message is too large")
        return MESSAGE, found

    def say_message(self, body: bytes) -> None:
        if self.packer is None:
            self.say(MESSAGE, body)
        else:
            self.say(PACKED, self.packer.compress(body), self.packer.flush(zlib.Z_SYNC_FLUSH))

    def fill(self, kept: Kept) -> None:
        """Put stored messages into the outbox while it has room."""
        while self.sent + 1 < kept.next and len(self.outbox) < PENDING_MOST:
            self.sent += 1
            self.say_message(NUMBER.pack(self.sent) + kept.read(self.sent))
