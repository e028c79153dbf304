"""Polls shared by watches of the same call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from jupyter_slurm.agent.protocol import body_of
from jupyter_slurm.errors import AgentError
from jupyter_slurm.server import feed as feed_module
from jupyter_slurm.server.feed import Feed, Subscription
from jupyter_slurm.server.relay import AgentAnswer

CALLER = "server-1"


class Log:
    """An agent with one growing text. A cursor is a position in this text."""

    def __init__(self) -> None:
        self.text = ""
        self.ended = False
        self.broken = False
        self.asked: list[tuple[str, dict[str, Any], float]] = []
        self.waiting = 0
        self._news = asyncio.Condition()

    async def __call__(self, name: str, body: bytes, wait_s: float) -> AgentAnswer:
        args = msgspec.json.decode(body)
        self.asked.append((name, args, wait_s))
        if self.broken:
            return AgentAnswer(503, body_of(AgentError("It is gone.")))
        at = int(args["cursor"] or 0)
        if wait_s and not self.ended:
            self.waiting += 1
            async with self._news:
                await self._news.wait_for(lambda: len(self.text) > at or self.ended or self.broken)
            self.waiting -= 1
        told = {"text": self.text[at:], "cursor": str(len(self.text)), "end": self.ended}
        return AgentAnswer(200, msgspec.json.encode(told))

    async def write(self, text: str) -> None:
        async with self._news:
            self.text += text
            self._news.notify_all()

    async def end(self) -> None:
        async with self._news:
            self.ended = True
            self._news.notify_all()


class Reader:
    """A watch of the agent's text. It accepts values unless it is `busy`."""

    def __init__(self, cursor: str = "", job: str = "j") -> None:
        self.text = ""
        self.values = 0
        self.problems: list[bytes] = []
        self.busy = False
        self.watch = Subscription("logs", {"job_id": job}, cursor, self.give, self.problems.append)

    def give(self, value: bytes) -> bool:
        if self.busy:
            return False
        self.values += 1
        self.text += msgspec.json.decode(value)["text"]
        return True


def run(test: Callable[[Log, Feed], Awaitable[None]]) -> None:
    async def main() -> None:
        log = Log()
        feed = Feed(log, CALLER, lambda call, value: None)
        try:
            await test(log, feed)
        finally:
            feed.close()

    asyncio.run(main())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - because the call may be of any kind
            await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses of a feed."""
    monkeypatch.setattr(feed_module, "_PACE_S", 0.001)
    monkeypatch.setattr(feed_module, "_STILL_S", 0.001)
    monkeypatch.setattr(feed_module, "_BACK_OFF_S", (0.001,))


def test_watches_of_the_same_log_share_one_poll() -> None:
    async def test(log: Log, feed: Feed) -> None:
        readers = [Reader() for _ in range(5)]
        for reader in readers:
            feed.watch(reader.watch)
        await until(lambda: all(reader.values for reader in readers))
        for part in ("one ", "two ", "three"):
            await until(lambda: log.waiting)
            assert log.waiting == 1
            await log.write(part)
            await until(lambda: all(reader.text == log.text for reader in readers))
        assert len(log.asked) == 1 + 3 + log.waiting

    run(test)


def test_late_watch_gets_the_log_once_and_joins_the_poll() -> None:
    async def test(log: Log, feed: Feed) -> None:
        first, second = Reader(), Reader()
        await log.write("before ")
        feed.watch(first.watch)
        await until(lambda: first.text == "before ")
        await until(lambda: log.waiting == 1)
        feed.watch(second.watch)
        await until(lambda: second.text == "before ")
        await log.write("after")
        await until(lambda: first.text == second.text == "before after")
        await until(lambda: log.waiting == 1)

    run(test)


def test_watch_with_a_cursor_gets_the_missed_output() -> None:
    async def test(log: Log, feed: Feed) -> None:
        reader = Reader()
        await log.write("one ")
        feed.watch(reader.watch)
        await until(lambda: reader.text == "one ")
        feed.unwatch(reader.watch)
        await log.write("two")
        again = Reader(reader.watch.cursor)
        feed.watch(again.watch)
        await until(lambda: again.text == "two")
        assert reader.text == "one "

    run(test)


def test_polls_stop_without_watches() -> None:
    async def test(log: Log, feed: Feed) -> None:
        reader = Reader()
        feed.watch(reader.watch)
        await until(lambda: log.waiting == 1)
        feed.unwatch(reader.watch)
        await log.write("news")
        await until(lambda: not log.waiting)
        asked = len(log.asked)
        await asyncio.sleep(0.05)
        assert len(log.asked) == asked
        assert not feed._polls

    run(test)


def test_polls_stop_at_the_end_of_the_log() -> None:
    async def test(log: Log, feed: Feed) -> None:
        reader = Reader()
        feed.watch(reader.watch)
        await until(lambda: log.waiting)
        await log.write("all")
        await until(lambda: log.waiting)
        await log.end()
        await until(lambda: not feed._polls)
        assert reader.text == "all"
        feed.unwatch(reader.watch)

    run(test)


def test_problem_is_sent_once_and_cleared_by_the_next_value() -> None:
    async def test(log: Log, feed: Feed) -> None:
        reader = Reader()
        feed.watch(reader.watch)
        await until(lambda: log.waiting)
        log.broken = True
        await log.write("x")
        await until(lambda: reader.text == "x")
        asked = len(log.asked)
        await until(lambda: len(log.asked) > asked + 5)
        assert len(reader.problems) == 1
        values = reader.values
        log.broken = False
        await until(lambda: reader.values > values)

    run(test)
