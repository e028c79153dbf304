"""A page's terminal: what it says to the far end, what it hears, and what ends it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.server import terminal_socket as terminal_module
from jupyter_slurm.server.terminal_socket import Terminal
from jupyter_slurm.wire.framing import frame
from tests.server.served import PATIENCE_S, Served
from tests.server.test_feed import until

FRAME = struct.Struct(">cI")


class FarEnd:
    """Of a terminal: what it is told, and the page's words."""

    def __init__(self) -> None:
        self.near, self.sock = socket.socketpair()
        self.near.setblocking(False)
        self.sock.setblocking(False)
        self.heard: list[list[Any]] = []
        self.taken = False
        self.ready = asyncio.Event()
        self.ready.set()

    async def connect(self) -> socket.socket:
        await self.ready.wait()
        self.taken = True
        return self.near

    async def hear(self, message: bytes) -> None:
        self.heard.append(json.loads(message))

    async def frame(self) -> tuple[bytes, bytes]:
        kind, size = FRAME.unpack(await self._exactly(FRAME.size))
        return kind, await self._exactly(size)

    async def say(self, kind: bytes, body: bytes = b"") -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, frame(kind, body))

    async def hung_up(self) -> None:
        """Returns once it is told no more."""
        while await asyncio.wait_for(self._some(1 << 20), PATIENCE_S):
            pass

    def close(self) -> None:
        self.sock.close()
        if not self.taken:
            self.near.close()

    async def _some(self, size: int) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.sock, size)

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += await self._some(size - len(data)) or pytest.fail("it has hung up")
        return data


def run(test: Callable[[FarEnd, Terminal], Awaitable[None]]) -> None:
    async def main() -> None:
        far = FarEnd()
        terminal = Terminal(far.connect, far.hear)
        try:
            await test(far, terminal)
        finally:
            terminal.close()
            far.close()

    asyncio.run(main())


def say(terminal: Terminal, *words: str | int) -> None:
    terminal.take(json.dumps(words))


def test_its_size_comes_first_and_what_was_typed_meanwhile_after_it() -> None:
    async def test(far: FarEnd, terminal: Terminal) -> None:
        far.ready.clear()
        say(terminal, "stdin", "grün\r")
        say(terminal, "set_size", 31, 97, 600, 800)
        say(terminal, "set_size", 32, 98, 600, 800)
        far.ready.set()
        kind, body = await far.frame()
        told = json.loads(body)
        assert (kind, told["rows"], told["columns"]) == (b"B", 31, 97)
        assert told["env"]["TERM"] == "xterm-256color"
        assert "PATH" not in told["env"]
        assert await far.frame() == (b"D", "grün\r".encode())
        assert await far.frame() == (b"W", struct.pack(">HH", 32, 98))

    run(test)


def test_a_letter_in_two_pieces_is_one_letter_and_what_is_no_letter_is_shown_as_such() -> None:
    async def test(far: FarEnd, terminal: Terminal) -> None:
        say(terminal, "set_size", 24, 80)
        for piece in ("ü".encode()[:1], "ü".encode()[1:] + b"\xff", b"."):
            await far.say(b"D", piece)
        await until(lambda: "".join(words[1] for words in far.heard) == "ü\ufffd.")

    run(test)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (frame(b"X", struct.pack(">i", 130)), ["exited", 130]),
        (frame(b"L"), ["taken"]),
        (frame(b"T", b"So."), ["said", "So."]),
        (frame(b"N", b'{"number":2,"node":"n1","others":[1]}'), ["number", 2]),
        (b"", ["lost"]),
        (b"D\0\0", ["lost"]),
        (b"\n0123456789abcdefsrun: error: Node failure", ["lost"]),
    ],
)
def test_the_end_is_told_with_its_reason(said: bytes, heard: list[Any]) -> None:
    async def test(far: FarEnd, terminal: Terminal) -> None:
        say(terminal, "set_size", 24, 80)
        await far.frame()
        await asyncio.get_running_loop().sock_sendall(far.sock, said)
        far.sock.shutdown(socket.SHUT_WR)
        await until(lambda: far.heard)
        assert far.heard[0] == heard
        await far.hung_up()

    run(test)


def test_a_number_that_none_of_the_jobs_terminals_has_is_a_problem() -> None:
    async def test(far: FarEnd, terminal: Terminal) -> None:
        say(terminal, "set_size", 24, 80)
        await far.frame()
        await far.say(b"N", b'{"number":null,"others":[1,3]}')
        await until(lambda: far.heard)
        (kind, problem), *more = far.heard
        assert (kind, problem["code"], more) == ("problem", "request", [])
        assert "1, 3" in json.dumps(problem)

    run(test)


def test_a_page_that_goes_leaves_the_terminal_whatever_is_not_taken_yet() -> None:
    async def test(far: FarEnd, terminal: Terminal) -> None:
        say(terminal, "set_size", 24, 80)
        await far.frame()
        say(terminal, "stdin", "x" * 4_000_000)
        terminal.close()
        await far.hung_up()

    run(test)


def test_a_page_that_goes_while_it_is_opened_leaves_none_open() -> None:
    async def test(far: FarEnd, terminal: Terminal) -> None:
        far.ready.clear()
        say(terminal, "set_size", 24, 80)
        await asyncio.sleep(0)
        terminal.close()
        await asyncio.sleep(0)
        far.ready.set()
        await far.hung_up()

    run(test)


def test_more_than_is_kept_for_a_program_that_does_not_read_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal_module, "_UNTAKEN_BYTES", 1000)

    async def test(far: FarEnd, terminal: Terminal) -> None:
        say(terminal, "stdin", "x" * 900)
        with pytest.raises(RequestError, match="pasted"):
            say(terminal, "stdin", "x" * 100)

    run(test)


def test_a_terminal_that_cannot_be_is_a_problem() -> None:
    async def main() -> None:
        heard: list[Any] = []

        async def connect() -> socket.socket:
            raise NotFoundError("There is no job x.")

        async def hear(message: bytes) -> None:
            heard.append(json.loads(message))

        terminal = Terminal(connect, hear)
        say(terminal, "set_size", 24, 80)
        await until(lambda: heard)
        (kind, problem), *more = heard
        assert (kind, problem["code"], more) == ("problem", "not-found", [])

    asyncio.run(main())


@pytest.mark.parametrize(
    "message",
    ['["set_size",0,80]', '["set_size",24,70000]', '["set_size",24]', '["stdin",1]', "{}", "no"],
)
def test_what_is_not_understood_is_said_and_ends_it(served: Served, message: str) -> None:
    with served.client().terminal("none") as page:
        page.send(message)
        kind, problem = page.hear()
        assert (kind, problem["code"]) == ("problem", "request")


def test_a_job_that_is_not_there_is_said(served: Served) -> None:
    with served.client().terminal("") as page:
        page.say("set_size", 24, 80)
        kind, problem = page.hear()
        assert (kind, problem["code"]) == ("problem", "not-found")
