"""A kernel's connection that is cut at any byte, and must not lose or repeat a frame.

The kernel's end is simulated. tests/node/test_kernel.py tests the real kernel.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_slurm.kernel.stream import Arrived, KernelStream, News, Opened

PATIENCE_S = 60.0
_NUMBER_BYTES, _HEAD_BYTES = 8, 5


class There:
    """The kernel's end of its connections."""

    def __init__(self) -> None:
        self.lines: queue.Queue[socket.socket] = queue.Queue()
        self.news: list[News] = []
        self._woken = threading.Event()
        self.far = KernelStream(self._open_line, self._woken.set)
        self.far.start()

    def _open_line(self) -> socket.socket:
        here, there = socket.socketpair()
        there.settimeout(PATIENCE_S)
        self.lines.put(there)
        return here

    def begun(self, boot: str = "b", got: int | None = None, next_: int | None = None) -> Line:
        """Return the next connection once both ends have exchanged positions. `got` and `next_` are
        the positions in the messages to and from the kernel. If they are None, the other end's
        positions are used."""
        line = Line(self.lines.get(timeout=PATIENCE_S))
        kind, body = line.frame()
        assert kind == b"B"
        line.told = json.loads(body)
        welcome = {
            "boot": boot,
            "got": line.told["from"] - 1 if got is None else got,
            "next": line.told["got"] + 1 if next_ is None else next_,
            "info": None,
            "busy": False,
            "count": 1,
        }
        line.sock.sendall(frame(b"W", json.dumps(welcome).encode()))
        return line

    def until_arrived(self, count: int) -> list[str]:
        """Return the messages from the kernel once `count` have arrived."""
        return self._until(lambda: [n.parts[0].decode() for n in self._all(Arrived)], count)

    def until_news(self, kind: type[News], count: int = 1) -> list[Any]:
        return self._until(lambda: self._all(kind), count)

    def _all(self, kind: type[News]) -> list[Any]:
        return [one for one in self.news if isinstance(one, kind)]

    def _until(self, found: Any, count: int) -> list[Any]:
        give_up_s = time.monotonic() + PATIENCE_S
        while len(found()) < count:
            assert self._woken.wait(give_up_s - time.monotonic()), self.news
            self._woken.clear()
            for one in self.far.news():
                self.news.append(one)
                if isinstance(one, Arrived):
                    self.far.acknowledge(one)
        return list(found())


class Line:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.told: dict[str, Any] = {}
        """The other end's first message."""

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            assert more, "the connection has ended"
            data += more
        return data

    def frame(self) -> tuple[bytes, bytes]:
        head = self.exactly(_HEAD_BYTES)
        return head[:1], self.exactly(int.from_bytes(head[1:], "big"))

    def message(self) -> tuple[int, str]:
        """Return the number and the single part of the next message to the kernel."""
        while True:
            kind, body = self.frame()
            if kind == b"M":
                return int.from_bytes(body[:_NUMBER_BYTES], "big"), body[13:].decode()

    def cut(self) -> None:
        self.sock.close()


def frame(kind: bytes, body: bytes) -> bytes:
    return kind + len(body).to_bytes(4, "big") + body


def message(number: int, text: str, channel: bytes = b"o") -> bytes:
    part = text.encode()
    head = number.to_bytes(8, "big") + channel + len(part).to_bytes(4, "big")
    return frame(b"M", head + part)


@pytest.fixture
def there() -> Iterator[There]:
    one = There()
    yield one
    one.far.close()
    while not one.lines.empty():
        one.lines.get().close()


def test_each_message_is_delivered_once_if_the_connection_drops_at_any_byte(there: There) -> None:
    expected = 0
    for cut in range(2 * len(message(1, "1")) + 1):
        line = there.begun()
        number = line.told["got"] + 1
        assert number == expected + 1
        first, second = (message(at, str(at)) for at in (number, number + 1))
        line.sock.sendall((first + second)[:cut])
        line.cut()
        expected += (cut >= len(first)) + (cut >= len(first) + len(second))
    there.begun().cut()
    assert there.until_arrived(expected) == [str(at + 1) for at in range(expected)]


def test_repeated_messages_are_skipped(there: There) -> None:
    line = there.begun()
    line.sock.sendall(message(1, "1") + message(2, "2"))
    line.cut()
    there.until_arrived(2)
    line = there.begun(next_=1)
    line.sock.sendall(message(1, "1") + message(2, "2") + message(3, "3"))
    assert there.until_arrived(3) == ["1", "2", "3"]
    line.cut()


def test_only_incomplete_requests_are_sent_again(there: There) -> None:
    for text in ("a", "b", "c"):
        there.far.send("shell", [text.encode()])
    line = there.begun()
    assert [line.message(), line.message()] == [(1, "a"), (2, "b")]
    line.exactly(_HEAD_BYTES + _NUMBER_BYTES)  # this is half of the third message
    line.cut()
    line = there.begun(got=2)
    assert line.told["from"] == 1
    assert line.message() == (3, "c")
    there.far.send("shell", [b"d"])
    assert line.message() == (4, "d")
    line.cut()
    line = there.begun(got=4)
    assert line.told["from"] == 3, "the received messages are kept"
    there.far.send("shell", [b"e"])
    assert line.message() == (5, "e")
    line.cut()


def test_requests_of_an_earlier_kernel_are_not_run_again(there: There) -> None:
    """The new kernel belongs to another job, or to the same job on another node. The earlier kernel
    may have run the request, and the client was informed of its loss."""
    there.far.send("shell", [b"remove"])
    line = there.begun("first")
    assert line.message() == (1, "remove")
    line.cut()
    line = there.begun("second")
    there.until_news(Opened, 2)
    there.far.send("shell", [b"next"])
    assert [text for text in (line.message()[1], line.message()[1]) if "remove" in text] == []
    line.cut()
    assert [opened.is_another for opened in there.until_news(Opened, 2)] == [False, True]
