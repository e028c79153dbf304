"""The outermost layer of an SSH packet, opened and sealed whole: AES-GCM (RFC 5647, as OpenSSH has
it), or none, for a peer that has done the cryptography. No sockets, no threads.

A packet as it is opened: a byte that counts the padding, the payload, the padding.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from typing import Protocol

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from paramiko.common import MSG_CHANNEL_DATA

_U32 = struct.Struct(">I")
_DATA_HEAD = struct.Struct(">BII")
"""CHANNEL_DATA (RFC 4254 §5.2): type, the peer's number of the channel, length."""
_HEAD_BYTES = 4 + 1 + _DATA_HEAD.size
PIECE_BYTES = 1 << 15
"""The data that every implementation takes in one packet."""
_PIECES = 16
_BLOCK_BYTES = 16
_LEAST_PADDING_BYTES = 4
_PADDING = bytes(_BLOCK_BYTES + _LEAST_PADDING_BYTES)


class Opener(Protocol):
    overhead_bytes: int
    """The bytes of a packet on the wire beside the length that its first four bytes tell."""

    def open(self, packet: memoryview) -> bytes:
        """Open a packet. InvalidTag: it is not what the peer sent."""


class Sealer(Protocol):
    def seal(self, payload: bytes) -> bytes:
        """Return the packet of a payload."""

    def seal_batch(
        self, channel: int, batch: OutgoingPackets, size: int
    ) -> list[bytes | memoryview]:
        """Return a batch's first `size` bytes as CHANNEL_DATA, in buffers in order."""


class _Nonce:
    """Four fixed bytes and a counter of eight (RFC 5647 §7.1)."""

    def __init__(self, iv: bytes) -> None:
        self._fixed = iv[:4]
        self._counter = int.from_bytes(iv[4:], "big")

    def next(self) -> bytes:
        nonce = self._fixed + self._counter.to_bytes(8, "big")
        self._counter = (self._counter + 1) & 0xFFFFFFFFFFFFFFFF
        return nonce


class GcmOpener:
    overhead_bytes = 4 + 16

    def __init__(self, cipher: AESGCM, iv: bytes) -> None:
        self._cipher = cipher
        self._nonce = _Nonce(iv)

    def open(self, packet: memoryview) -> bytes:
        return self._cipher.decrypt(self._nonce.next(), packet[4:], packet[:4])


class GcmSealer:
    def __init__(self, cipher: AESGCM, iv: bytes) -> None:
        self._cipher = cipher
        self._nonce = _Nonce(iv)

    def seal(self, payload: bytes) -> bytes:
        padding = _padding(len(payload))
        size = _U32.pack(1 + len(payload) + padding)
        plain = bytes((padding,)) + payload + _PADDING[:padding]
        return size + self._cipher.encrypt(self._nonce.next(), plain, size)

    def seal_batch(
        self, channel: int, batch: OutgoingPackets, size: int
    ) -> list[bytes | memoryview]:
        buffers: list[bytes | memoryview] = []
        for slot, n in batch.pieces(size):
            padding = _padding(_DATA_HEAD.size + n)
            end = _HEAD_BYTES + n + padding
            _U32.pack_into(slot, 0, end - 4)
            slot[4] = padding
            _DATA_HEAD.pack_into(slot, 5, MSG_CHANNEL_DATA, channel, n)
            head = bytes(slot[:4])
            buffers += (head, self._cipher.encrypt(self._nonce.next(), slot[4:end], head))
        return buffers


class PlainOpener:
    overhead_bytes = 4

    def open(self, packet: memoryview) -> bytes:
        return bytes(packet[4:])


class PlainSealer:
    def seal(self, payload: bytes) -> bytes:
        return _U32.pack(1 + len(payload)) + b"\0" + payload

    def seal_batch(
        self, channel: int, batch: OutgoingPackets, size: int
    ) -> list[bytes | memoryview]:
        return [self.seal(payload) for payload in batch.payloads(channel, size, PIECE_BYTES)]


class OutgoingPackets:
    """Room for what goes out in one call: pieces of one packet each, their heads left free."""

    most_bytes = _PIECES * PIECE_BYTES

    def __init__(self) -> None:
        slots = [
            memoryview(bytearray(_HEAD_BYTES + PIECE_BYTES + len(_PADDING))) for _ in range(_PIECES)
        ]
        self._slots = slots
        self._data = [slot[_HEAD_BYTES : _HEAD_BYTES + PIECE_BYTES] for slot in slots]

    def fill_from_socket(self, sock: socket.socket, limit: int) -> int:
        """Return how many bytes were there; 0: the end. BlockingIOError: none yet."""
        return sock.recvmsg_into(self._room(limit))[0]

    def fill_from_file(self, fd: int, limit: int, offset: int) -> int:
        return os.preadv(fd, self._room(limit), offset)

    def fill_from(self, view: memoryview, limit: int) -> int:
        size = min(len(view), limit, self.most_bytes)
        at = 0
        for room in self._room(size):
            room[:] = view[at : at + len(room)]
            at += len(room)
        return size

    def pieces(self, size: int) -> Iterator[tuple[memoryview, int]]:
        """Yield the slots that hold the first `size` bytes, and how many each."""
        for slot in self._slots:
            n = min(size, PIECE_BYTES)
            if n <= 0:
                return
            yield slot, n
            size -= n

    def payloads(self, channel: int, size: int, most_bytes: int) -> Iterator[bytes]:
        """Yield the first `size` bytes as payloads of at most `most_bytes` of data each."""
        for slot, n in self.pieces(size):
            for at in range(_HEAD_BYTES, _HEAD_BYTES + n, most_bytes):
                data = bytes(slot[at : min(at + most_bytes, _HEAD_BYTES + n)])
                yield _DATA_HEAD.pack(MSG_CHANNEL_DATA, channel, len(data)) + data

    def _room(self, limit: int) -> list[memoryview]:
        full, rest = divmod(min(limit, self.most_bytes), PIECE_BYTES)
        return [*self._data[:full], self._data[full][:rest]] if rest else self._data[:full]


def _padding(payload_bytes: int) -> int:
    """Return how much padding makes its own byte, payload and padding whole blocks."""
    padding = -(1 + payload_bytes) % _BLOCK_BYTES
    return padding if padding >= _LEAST_PADDING_BYTES else padding + _BLOCK_BYTES
