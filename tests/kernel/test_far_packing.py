"""Frames of a kernel's line: packed where both ends can, and answered where TCP would wait."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from jupyter_slurm.errors import TransportError
from jupyter_slurm.kernel import frames
from jupyter_slurm.kernel.far import Arrived, Cut, Far
from tests.ssh.waiting import wait_until

FRAME = struct.Struct(">cI")
WELCOME = {"boot": "b", "got": 0, "next": 1, "info": {}, "busy": False, "count": 1}
PATIENCE_S = 30.0


class Node:
    """The other end of one line."""

    def __init__(self) -> None:
        near, self.sock = socket.socketpair()
        self.sock.settimeout(PATIENCE_S)
        self.lines = iter((near,))
        self.far = Far(self._open_line, threading.Event().set)
        self.far.start()
        kind, body = self.hear()
        assert kind == b"B"
        self.told: dict[str, Any] = json.loads(body)

    def _open_line(self) -> socket.socket:
        try:
            return next(self.lines)
        except StopIteration:
            raise TransportError("There is no other line.") from None

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


def packed(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush(zlib.Z_SYNC_FLUSH)


def until_given_up(node: Node) -> str:
    """Why the line was given up; nothing has arrived by it."""
    found: list[Cut] = []

    def cut() -> bool:
        for one in node.far.news():
            assert not isinstance(one, Arrived)
            if isinstance(one, Cut):
                found.append(one)
        return bool(found)

    wait_until(cut, PATIENCE_S)
    return str(found[0].error.message)


def until_one(node: Node) -> Arrived:
    found: list[Arrived] = []

    def came() -> bool:
        found.extend(node.arrived())
        return bool(found)

    wait_until(came, PATIENCE_S)
    return found[0]


def test_a_part_of_a_frame_is_answered_at_once(node: Node) -> None:
    node.welcome()
    whole = FRAME.pack(b"M", len(message(1, b"x" * 3000))) + message(1, b"x" * 3000)
    node.sock.sendall(whole[:1000])
    assert node.hear() == (b"A", b"")
    node.sock.sendall(whole[1000:])
    assert until_one(node).parts == [b"x" * 3000]


def test_an_answer_that_is_asked_for_is_given(node: Node) -> None:
    node.welcome()
    node.say(b"Q")
    assert node.hear() == (b"A", b"")


def test_both_pack_where_both_can(node: Node) -> None:
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


def test_a_node_of_an_earlier_release_is_sent_plain_messages(node: Node) -> None:
    node.welcome()
    node.far.send("shell", [b"the request of a cell"])
    kind, body = node.hear()
    assert kind == b"M"
    assert body.endswith(b"the request of a cell")


def test_what_has_been_passed_on_is_told_at_the_end_so_that_nobody_is_given_it_again(
    node: Node,
) -> None:
    node.welcome()
    node.say(b"M", message(1, b"x"))
    node.far.passed_on(until_one(node))
    node.far.close()
    told = [node.hear()]
    while told[-1][0] == b"A":
        told.append(node.hear())
    assert told[-1] == (b"K", struct.pack(">Q", 1))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> int:
    """The size of the largest message that is taken."""
    monkeypatch.setattr(frames, "MESSAGE_MOST", 1 << 20)
    return 1 << 20


def test_a_message_that_unpacks_to_more_than_one_may_be_is_given_up(
    narrow: int, node: Node
) -> None:
    node.welcome(packs=True)
    bomb = packed(message(1, b"y" * 3 * narrow))
    assert len(bomb) < narrow / 100
    node.say(b"Z", bomb)
    assert "more than" in until_given_up(node)


@pytest.mark.parametrize("bytes_of", [bytes, random.Random(1).randbytes])
def test_the_largest_message_that_may_be_arrives(
    narrow: int, node: Node, bytes_of: Callable[[int], bytes]
) -> None:
    """Packed, one that is random is larger than it was."""
    text = bytes_of(narrow - len(message(1, b"")))
    node.welcome(packs=True)
    node.say(b"Z", packed(message(1, text)))
    assert until_one(node).parts == [text]


def test_a_message_that_the_node_would_not_take_is_not_sent(narrow: int, node: Node) -> None:
    node.welcome()
    with pytest.raises(frames.TooLargeError):
        node.far.send("shell", [bytes(narrow)])
    node.far.send("shell", [bytes(narrow - 100)])
    kind, body = node.hear()
    assert (kind, len(body)) == (b"M", narrow - 100 + len(message(1, b"")))


@pytest.mark.parametrize("kind", [b"M", b"Z", b"W", b"T"])
def test_a_frame_that_will_be_larger_than_one_may_be_is_not_waited_for(
    narrow: int, node: Node, kind: bytes
) -> None:
    node.welcome()
    node.sock.sendall(FRAME.pack(kind, 2 * narrow))
    assert "more than" in until_given_up(node)


def test_a_message_of_too_many_parts_is_given_up(node: Node) -> None:
    node.welcome(packs=True)
    node.say(b"Z", packed(struct.pack(">Qc", 1, b"o") + bytes(4) * 100_000))
    assert "parts" in until_given_up(node)
