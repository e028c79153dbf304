"""Blocking calls and the event loop: what waits does not keep the rest from being asked."""

from __future__ import annotations

import asyncio
import threading

import pytest

from jupyter_slurm.errors import AgentError
from jupyter_slurm.server import relay as relay_module
from jupyter_slurm.server.relay import Relay, in_thread


class Agent:
    """Answers at once, unless it is to wait: then once `news` are there."""

    def __init__(self) -> None:
        self.news = threading.Event()
        self.waiting = 0
        self.most = 0
        self._lock = threading.Lock()

    def relay(self, name: str, body: bytes, wait_s: float = 0.0) -> tuple[int, bytes]:
        if wait_s:
            with self._lock:
                self.waiting += 1
                self.most = max(self.most, self.waiting)
            self.news.wait(30)
            with self._lock:
                self.waiting -= 1
        return 200, body

    def close(self) -> None:
        """Nothing is open."""


def test_those_who_wait_are_bounded_and_keep_nobody_from_asking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "_WAITS", 8)

    async def main() -> None:
        agent = Agent()
        relay = Relay(lambda: agent)  # type: ignore[arg-type,return-value]
        waits = [asyncio.create_task(relay.ask("logs", b"%d" % n, 15.0)) for n in range(50)]
        async with asyncio.timeout(30):
            assert await relay.ask("jobs", b"{}") == (200, b"{}")
            agent.news.set()
            assert [answer.body for answer in await asyncio.gather(*waits)] == [
                b"%d" % n for n in range(50)
            ]
        assert agent.most <= 8

    asyncio.run(main())


def test_a_place_is_free_again_when_its_thread_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not when the one who asked has gone."""
    monkeypatch.setattr(relay_module, "_WAITS", 1)

    async def main() -> None:
        agent = Agent()
        relay = Relay(lambda: agent)  # type: ignore[arg-type,return-value]
        async with asyncio.timeout(30):
            gone = asyncio.create_task(relay.ask("logs", b"", 15.0))
            while not agent.waiting:  # noqa: ASYNC110 - in a thread
                await asyncio.sleep(0.001)
            gone.cancel()
            comes = asyncio.create_task(relay.ask("logs", b"", 15.0))
            await asyncio.sleep(0.05)
            assert agent.most == 1
            agent.news.set()
            assert (await comes).status == 200
        assert agent.most == 1

    asyncio.run(main())


def test_what_keeps_the_agent_from_answering_is_an_answer_and_is_tried_again() -> None:
    tries = []

    def connect() -> Agent:
        tries.append(1)
        if len(tries) == 1:
            raise AgentError("It does not start.", hint="Look at its log.")
        return Agent()

    async def main() -> None:
        relay = Relay(connect)  # type: ignore[arg-type]
        status, body = await relay.ask("jobs", b"{}")
        assert status == 503
        assert b"It does not start." in body
        assert b"Look at its log." in body
        assert (await relay.ask("jobs", b"{}")).status == 200

    asyncio.run(main())


def test_an_answer_for_a_loop_that_is_closed_is_dropped() -> None:
    """A server that has ended waits for nothing, and says nothing of it."""
    done, go = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(30)
        done.set()

    async def main() -> None:
        in_thread(work)

    asyncio.run(main())
    go.set()
    assert done.wait(30)
