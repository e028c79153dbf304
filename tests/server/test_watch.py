"""A page's watches, and what is on the way to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_slurm.server import feed as feed_module
from jupyter_slurm.server import watch as watch_module
from jupyter_slurm.server.feed import Feed
from jupyter_slurm.server.watch import Client
from tests.server.served import API, Served
from tests.server.test_feed import Log, until


class Line:
    """To the page; what is sent arrives while it is `open`."""

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


def test_what_is_not_understood_is_said() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        for message in ("no", "[]", '{"watch": "x"}', '{"watch": 1, "cal": "logs"}', b"\xff"):
            client.take(message)
        await until(lambda: len(line.heard) == 5)
        assert all(one["problem"]["code"] == "request" for one in line.heard)

    run(test)


def test_cursor_wait_and_caller_are_not_the_pages_to_give() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        args = {"job_id": "j", "wait_s": 900, "cursor": "7", "caller": "you"}
        say(client, watch=1, call="logs", args=args)
        await until(lambda: line.heard)
        assert log.asked[0][1] == {"job_id": "j", "cursor": "", "wait_s": 0.0}

    run(test)


def test_a_number_that_is_watched_already_goes_on() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        await log.write("one ")
        logs(client, 1)
        logs(client, 1)
        await until(lambda: log.waiting)
        logs(client, 1, cursor="")
        await log.write("two")
        await until(lambda: line.text(1) == "one two")

    run(test)


def test_a_number_that_comes_back_goes_on_from_what_was_sent_to_it() -> None:
    """The page was told more while it said with which cursor it comes back."""

    async def test(log: Log, client: Client, line: Line) -> None:
        await log.write("one ")
        logs(client, 1)
        await until(lambda: line.text(1))
        say(client, unwatch=1)
        logs(client, 1, cursor="")
        await log.write("two")
        await until(lambda: line.text(1) == "one two")

    run(test)


def test_the_same_number_for_another_call_begins_anew() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        await log.write("one")
        logs(client, 1)
        await until(lambda: line.text(1))
        say(client, watch=1, call="logs", args={"job_id": "k"})
        await until(lambda: line.text(1) == "oneone")

    run(test)


def test_a_page_that_reads_slowly_loses_nothing_and_is_kept_little_for(
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


def test_a_page_that_paces_a_watch_gets_the_next_value_when_it_has_shown_the_last() -> None:
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


def test_what_a_page_says_it_has_shown_twice_or_never_had_asks_for_nothing() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        say(client, watch=1, call="logs", args={"job_id": "j"}, paced=True)
        await until(lambda: line.heard)
        for number in (1, 1, 1, 2):
            say(client, taken=number)
        await until(lambda: log.waiting)
        assert len(log.asked) == 2
        await log.end()
        await until(lambda: not log.waiting)
        await until(lambda: len(line.heard) == 2)
        say(client, taken=1)
        await log.write("news")
        assert not client._feed._polls

    run(test)


def test_a_paced_watch_that_comes_back_goes_on_without_being_told_to() -> None:
    """Its page may be told of the value again, and may have been reloaded with it."""

    async def test(log: Log, client: Client, line: Line) -> None:
        say(client, watch=1, call="logs", args={"job_id": "j"}, paced=True)
        await until(lambda: line.heard)
        say(client, unwatch=1)
        await log.write("news")
        say(client, watch=1, call="logs", args={"job_id": "j"}, paced=True)
        await until(lambda: line.text(1) == "news")

    run(test)


def test_a_page_cannot_watch_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "_WATCHES", 3)

    async def test(log: Log, client: Client, line: Line) -> None:
        for number in range(4):
            logs(client, number)
        await until(lambda: len(line.heard) == 4)
        (refused,) = [one for one in line.heard if "problem" in one]
        assert refused["watch"] == 3

    run(test)


def test_a_silent_line_says_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "_ALIVE_S", 0.01)

    async def test(log: Log, client: Client, line: Line) -> None:
        await until(lambda: line.heard.count({}) > 2)

    run(test)


def test_a_page_that_has_gone_watches_nothing() -> None:
    async def test(log: Log, client: Client, line: Line) -> None:
        logs(client, 1)
        await until(lambda: log.waiting)
        client.close()
        await log.write("news")
        await until(lambda: not log.waiting)
        asked = len(log.asked)
        await asyncio.sleep(0.05)
        assert len(log.asked) == asked

    run(test)


def test_a_page_that_can_unpack_is_told_in_fewer_bytes(served: Served) -> None:
    async def main() -> None:
        url = f"ws{served.url.removeprefix('http')}{API}watch"
        asked = HTTPRequest(url, headers={"Authorization": f"token {served.token}"})
        page = await websocket_connect(asked, compression_options={})
        assert page.headers is not None
        assert "permessage-deflate" in page.headers["Sec-WebSocket-Extensions"]
        await page.write_message(json.dumps({"watch": 1, "call": "changes"}))
        message = await page.read_message()
        assert message is not None
        assert json.loads(message)["watch"] == 1
        page.close()

    asyncio.run(main())
