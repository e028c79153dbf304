"""Frames of a kernel's connection. They are compressed if both ends support compression, and
acknowledged before TCP would wait."""

from __future__ import annotations

import json
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from jupyter_slurm.errors import TransportError
from jupyter_slurm.kernel.stream import Arrived, KernelStream
from tests.ssh.waiting import wait_until

FRAME = struct.Struct(">cI")
WELCOME = {"boot": "b", "got": 0, "next": 1, "info": {}, "busy": False, "count": 1}
PATIENCE_S = 30.0


class Node:
    """The other end of a connection."""

    def __init__(self) -> None:
        near, self.sock = socket.socketpair()
        self.sock.settimeout(PATIENCE_S)
        self.lines = iter((near,))
        self.far = KernelStream(self._open_line, threading.Event().set)
        self.far.start()
        kind, body = self.hear()
        assert kind == b"B"
        self.told: dict[str, Any] = json.loads(body)

    def _open_line(self) -> socket.socket:
        try:
            return next(self.lines)
        except StopIteration:
            raise TransportError("No other connection is open.") from None

    def hear(self) -> tuple[bytes, bytes]:
        kind, size = FRAME.unpack(self._exactly(FRAME.size))
        return kind, self._exactly(size)

    def say(self, kind: bytes, body: bytes = b"") -> None:
        self.sock.sendall(FRAME.pack(kind, len(body)) + body)

    def welcome(self, **more: object) -> None:
        self.say(b"W", json.dumps({**WELCOME, **more}).encode())

    def arrived(self) -> list[Arrived]:
        return [one for one in self.far.news() if isinstance(one, Arrived)]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            assert more, data
            data += more
        return data


@pytest.fixture
def node() -> Iterator[Node]:
    one = Node()
    with closing(one.sock), closing(one.far):
        yield one


def message(number: int, text: bytes) -> bytes:
    return struct.pack(">QcI", number, b"o", len(text)) + text


def until_one(node: Node) -> Arrived:
    found: list[Arrived] = []

    def came() -> bool:
        found.extend(node.arrived())
        return bool(found)

    wait_until(came, PATIENCE_S)
    return found[0]


def test_both_ends_compress_if_both_support_compression(node: Node) -> None:
    assert node.told["packs"] is True
    packer, unpacker = zlib.compressobj(1, zlib.DEFLATED, -15), zlib.decompressobj(-15)
    node.welcome(packs=True)
    body = packer.compress(message(1, b"a message" * 99)) + packer.flush(zlib.Z_SYNC_FLUSH)
    node.say(b"Z", body)
    assert until_one(node).parts == [b"a message" * 99]
    sizes = []
    for _ in range(2):
        node.far.send("shell", [b"the request of a cell"])
        kind, packed = node.hear()
        assert kind == b"Z"
        assert unpacker.decompress(packed).endswith(b"the request of a cell")
        sizes.append(len(packed))
    assert sizes[1] < sizes[0]


def test_forwarded_messages_are_acknowledged_when_the_stream_ends(
    node: Node,
) -> None:
    node.welcome()
    node.say(b"M", message(1, b"x"))
    node.far.acknowledge(until_one(node))
    node.far.close()
    told = [node.hear()]
    while told[-1][0] == b"A":
        told.append(node.hear())
    assert told[-1] == (b"K", struct.pack(">Q", 1))
