"""A page's watches and their messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jupyter_slurm.server import feed as feed_module
from jupyter_slurm.server import watch as watch_module
from jupyter_slurm.server.feed import Feed
from jupyter_slurm.server.watch import Client
from tests.server.test_feed import Log, until


class Line:
    """A connection to the page. It delivers while `open`."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, message: bytes) -> None:
        await self.open.wait()
        self.heard.append(json.loads(message))

    def text(self, number: int) -> str:
        return "".join(
            one["value"]["text"]
            for one in self.heard
            if one.get("watch") == number and "value" in one
        )


def run(test: Callable[[Log, Client, Line], Awaitable[None]]) -> None:
    async def main() -> None:
        log, line = Log(), Line()
        feed = Feed(log, "me", lambda call, value: None)
        client = Client(feed, line.send)
        try:
            await test(log, client, line)
        finally:
            client.close()
            feed.close()

    asyncio.run(main())


def say(client: Client, **wish: object) -> None:
    client.take(json.dumps(wish))


def logs(client: Client, number: int, cursor: str = "") -> None:
    say(client, watch=number, call="logs", args={"job_id": "j"}, cursor=cursor)


def test_invalid_message_is_reported() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        for message in ("no", "[]", '{"watch": "x"}', '{"watch": 1, "cal": "logs"}', b"\xff"):
            client.take(message)
        await until(lambda: len(line.heard) == 5)
        assert all(one["problem"]["code"] == "request" for one in line.heard)

    run(test)


def test_page_cannot_set_the_cursor_wait_or_caller() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        args = {"job_id": "j", "wait_s": 900, "cursor": "7", "caller": "you"}
        say(client, watch=1, call="logs", args=args)
        await until(lambda: line.heard)
        assert log.asked[0][1] == {"job_id": "j", "cursor": "", "wait_s": 0.0}

    run(test)


def test_reopened_watch_continues_after_the_last_sent_output() -> None:
    """The page received more output while its request with an older cursor was in transit."""

    async def test(log: Log, client: Client, line: Line) -> None:
        await log.write("one ")
        logs(client, 1)
        await until(lambda: line.text(1))
        say(client, unwatch=1)
        logs(client, 1, cursor="")
        await log.write("two")
        await until(lambda: line.text(1) == "one two")

    run(test)


def test_slow_page_loses_nothing_and_needs_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch_module, "_UNREAD_BYTES", 2000)
    monkeypatch.setattr(feed_module, "_PACE_S", 0.001)

    async def test(log: Log, client: Client, line: Line) -> None:
        logs(client, 1)
        logs(client, 2)
        await until(lambda: len(line.heard) == 2)
        line.open.clear()
        for _ in range(50):
            await log.write("x" * 500)
            await asyncio.sleep(0.01)
        assert client._unread_bytes < 5000
        line.open.set()
        await until(lambda: line.text(1) == line.text(2) == log.text)

    run(test)


def test_paced_watch_sends_the_next_value_after_an_acknowledgement() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        say(client, watch=1, call="logs", args={"job_id": "j"}, paced=True)
        await until(lambda: len(line.heard) == 1)
        logs(client, 2)
        for text in ("one ", "two ", "three"):
            await log.write(text)
        await until(lambda: line.text(2) == "one two three")
        assert line.text(1) == ""
        say(client, taken=1)
        await until(lambda: line.text(1) == "one two three")
        assert len([one for one in line.heard if one.get("watch") == 1]) == 2

    run(test)


def test_number_of_watches_per_page_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "_WATCHES", 3)

    async def test(log: Log, client: Client, line: Line) -> None:
        for number in range(4):
            logs(client, number)
        await until(lambda: len(line.heard) == 4)
        (refused,) = [one for one in line.heard if "problem" in one]
        assert refused["watch"] == 3

    run(test)
