"""Frames in a byte stream, for every stream into and out of jobs. No I/O.

A frame is its kind (a letter), the size of its body, and the body; node/framing.py is the
counterpart on the node. `kernel/frames.py` and `transport/relay_streams.py` define the kinds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

ALIVE = b"A"
"""A keep-alive frame. It has no body, and may be sent at any time."""
_HEAD = struct.Struct(">cI")
_END = ord("\n")


def frame(kind: bytes, *parts: bytes) -> bytes:
    """Return a frame with the joined parts as its body."""
    return b"".join((_HEAD.pack(kind, sum(map(len, parts))), *parts))


class GarbledError(ValueError):
    """The error for a stream with bytes that our programs never send. The message completes
    "garbled: "."""


class Inbox:
    """An incremental parser of frames. It rejects a frame before its body arrives if the body has
    more than `most` bytes, or more than `most_of` allows for its kind."""

    def __init__(
        self, most: int, most_of: Mapping[bytes, int] | None = None, rest: bytes = b""
    ) -> None:
        """Set the limits. `rest`: bytes that have already arrived."""
        self._most = most
        self._most_of = most_of or {}
        self._rest = bytearray(rest)
        self.ended = False
        """The program has ended. Its frames are followed by a newline and srun's own output."""

    @property
    def partial(self) -> bool:
        """Return whether part of a frame has arrived. In a step's stream, the rest of the frame may
        arrive only after data is sent in the other direction (node/framing.py)."""
        return bool(self._rest) and not self.ended

    def take(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the kind and body of each complete frame. Raises GarbledError."""
        self._rest += data
        while self._rest:
            if self._rest[0] == _END:
                self.ended = True
            if self.ended or len(self._rest) < _HEAD.size:
                return
            kind, size = _HEAD.unpack_from(self._rest)
            most = self._most_of.get(kind, self._most)
            if size > most:
                raise GarbledError(f"it announced a frame of {size:,} bytes, more than {most:,}")
            end = _HEAD.size + size
            if len(self._rest) < end:
                return
            body = bytes(memoryview(self._rest)[_HEAD.size : end])
            del self._rest[:end]
            yield kind, body
