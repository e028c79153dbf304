"""Frames between a kernel's job and the kernel's client: their kinds, and the messages kept.

Sent as text, Python 3.6 and later, standard library only; nothing here knows what is in a message.
The other end is kernel/frames.py; the relay carries the bytes between them.

framing.py says what a frame is. Messages are numbered in each direction, from 1 on, and kept until
the other end has acknowledged them (GOT): a client that comes back after a cut line says what it
has, and gets the rest, nothing twice.
"""

import os
import struct
import tempfile

import framing

try:
    import zlib
except ImportError:  # a Python that was built without it
    zlib = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    import socket
    from typing import IO, Any, Dict, List, Optional, Tuple, Union

BEGIN = b"B"  # to the node, first: JSON with `client`, `got`, `from`, the first that it has kept,
# and `packs`: it knows PACKED
WELCOME = b"W"  # from the node, for an answer: JSON with `boot`, `got`, `next`, `info`, `busy`,
# `count` and `packs`
MESSAGE = b"M"  # both ways: NUMBER, a channel (a letter), then each part behind its size
PACKED = b"Z"  # both ways, where both can: a MESSAGE, deflated behind those before it in this line
GOT = b"K"  # both ways: NUMBER, all up to which have arrived
ASK = b"Q"  # from the node: there is more to come; say something at once (framing.py says why)
TAKEN = b"L"  # from the node, last: another has come
NUMBER = struct.Struct(">Q")
PART = struct.Struct(">I")

SHELL, CONTROL, STDIN, IOPUB = b"s", b"c", b"i", b"o"
OURS = b"x"  # commands to the node and events from there, each one part of JSON

SILENCE_S = 90.0
"""A peer that has been silent for so long is gone, even if nothing reported that."""
ALIVE_S = 20.0
IN_MEMORY_BYTES = 8 << 20
MOST_BYTES = 512 << 20
"""The most that is kept. Beyond it output is left out, and the client is told how much."""
MESSAGE_MOST = 256 << 20
"""The largest message with its number, packed or not. Neither end accepts more (kernel/frames.py
has the same limit), so a larger one is left out."""
PENDING_MOST = 1 << 20
"""The most that waits in a line that accepts no more."""
GATHER_S = 0.003
"""How long to wait for messages that come together, so that they are sent together."""
QUIET_S = 0.025
"""The same where the user would not see the delay: for the news that a cell has begun. A quick
cell's output is then sent with that news, and need not wait for an answer to it, which takes a
round trip."""
QUIET = (b"status", b"execute_input")
"""The last parts of the topics of messages that show nothing."""


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
    """The messages sent that may have to be sent again; beyond some size they lie in an unnamed
    file."""

    def __init__(self, memory_bytes: int = IN_MEMORY_BYTES, most_bytes: int = MOST_BYTES) -> None:
        self.memory_bytes = memory_bytes
        self.most_bytes = most_bytes
        self.first = 1
        """The number of the oldest message that is kept, or of the next one."""
        self.next = 1
        self.size = 0
        self._bodies: "Dict[int, Union[bytes, Tuple[int, int]]]" = {}
        self._in_memory = 0
        self._filed = 0
        self._file: "Optional[IO[bytes]]" = None

    def full(self, size: int) -> bool:
        return self.size + size > self.most_bytes

    def add(self, body: bytes) -> None:
        """Keep a message. Raise OSError when the file system has no room; the message is then not
        kept."""
        if self._in_memory + len(body) > self.memory_bytes:
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
        """Drop the messages up to `number`: all of them have arrived."""
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
    """The line to the kernel's client; it never waits."""

    def __init__(self, sock: "socket.socket") -> None:
        # Deflate adds 5 bytes to each 16 KiB of noise.
        most = MESSAGE_MOST + (MESSAGE_MOST >> 10)
        super().__init__(sock.fileno(), sock.fileno(), sock, most)
        self.packer: "Any" = None
        self.unpacker: "Any" = zlib and zlib.decompressobj(-15)
        self.sent = 0
        """The number of the last message that was put into the line."""

    def pack(self, other_can: "Optional[bool]") -> bool:
        """Pack messages from now on, if both ends can, and tell whether they can. A message costs
        as much as the number of its pieces (framing.py): a small one should be one piece, and so
        should all that a small cell gives."""
        can = bool(other_can) and zlib is not None
        self.packer = zlib.compressobj(1, zlib.DEFLATED, -15) if can else None
        return can

    def receive(self) -> "Optional[List[Tuple[bytes, bytes]]]":
        """Return the frames, unpacked; None also when what is packed is not a message."""
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
            raise ValueError("nobody was told to pack")
        try:
            found = self.unpacker.decompress(body, MESSAGE_MOST + 1)
        except zlib.error as exc:
            raise ValueError(str(exc)) from exc
        if len(found) > MESSAGE_MOST:
            raise ValueError("more than a message may be")
        return MESSAGE, found

    def say_message(self, body: bytes) -> None:
        if self.packer is None:
            self.say(MESSAGE, body)
        else:
            self.say(PACKED, self.packer.compress(body), self.packer.flush(zlib.Z_SYNC_FLUSH))

    def fill(self, kept: Kept) -> None:
        """Put the kept messages into the line, as long as it takes them."""
        while self.sent + 1 < kept.next and len(self.outbox) < PENDING_MOST:
            self.sent += 1
            self.say_message(NUMBER.pack(self.sent) + kept.read(self.sent))
