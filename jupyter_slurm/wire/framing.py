"""PURE: frames in a stream of bytes, for every stream into and out of jobs.

A frame is its kind (a letter) and the size of its body, then the body; node/framing.py has the
same. The kinds are those of `kernel/frames.py` and `transport/relay_streams.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

ALIVE = b"A"
"""The kind without a body, sent at any time: its sender is there."""
ANY_SIZE = (1 << 32) - 1
_HEAD = struct.Struct(">cI")
_END = ord("\n")


def frame(kind: bytes, *parts: bytes) -> bytes:
    """Return the frame whose body the parts make."""
    return b"".join((_HEAD.pack(kind, sum(map(len, parts))), *parts))


class GarbledError(ValueError):
    """Bytes that no program of ours sends; the message continues "garbled: "."""


class Inbox:
    """The frames made whole from the pieces that arrive. It refuses a body larger than `most`
    bytes, or than `most_of` its kind, before that arrives."""

    def __init__(
        self, most: int, most_of: Mapping[bytes, int] | None = None, rest: bytes = b""
    ) -> None:
        """Take the limits; `rest` has arrived already."""
        self._most = most
        self._most_of = most_of or {}
        self._rest = bytearray(rest)
        self.ended = False
        """Whether the program has ended: a newline and srun's own output follow its frames."""

    @property
    def partial(self) -> bool:
        """Tell whether part of a frame has arrived. In a step's stream, the rest may wait until
        something goes in the other direction (node/framing.py)."""
        return bool(self._rest) and not self.ended

    def take(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the kind and body of each frame that is whole now. GarbledError."""
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
