"""The Jupyter server's client of the agent. It runs blocking calls in threads, so that they do
not block the event loop. The first call starts the agent."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from jupyter_slurm.agent.protocol import body_of
from jupyter_slurm.client import AgentClient
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.wire import Problem

_CALLS = 48
_WAITS = 96
"""Maximum number of concurrent requests without `wait_s`, and with it. Waiting requests do not
block the others, and leave room for other clients of the agent (256 threads)."""

_INTERNAL = Problem(code="internal", message="Internal error. See the Jupyter server's log.")
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class AgentAnswer(NamedTuple):
    status: int
    body: bytes


class Relay:
    """The relay of all routes to the agent."""

    def __init__(self, connect: Callable[[], AgentClient]) -> None:
        """`connect` returns the client and may block."""
        self._connect = connect
        self._client: AgentClient | None = None
        self._calls = asyncio.Semaphore(_CALLS)
        self._waits = asyncio.Semaphore(_WAITS)
        self.caller = f"server-{secrets.token_hex(8)}"
        """The caller's name for logins that start in this server."""

    async def ask(self, name: str, body: bytes, wait_s: float = 0.0) -> AgentAnswer:
        """Return the agent's encoded answer; an error is also an answer."""

        def work(agent: AgentClient) -> AgentAnswer:
            return AgentAnswer(*agent.relay(name, body, wait_s))

        try:
            return await self._with_agent(work, self._waits if wait_s else self._calls)
        except JupyterSlurmError as exc:
            return AgentAnswer(exc.status, body_of(exc))
        except Exception:  # noqa: BLE001 - reported to the caller
            _log.exception("jupyter-slurm: %s failed", name)
            return AgentAnswer(500, msgspec.json.encode(_INTERNAL))

    async def with_agent(self, work: Callable[[AgentClient], _T]) -> _T:
        """Call `work` with the agent's client. `work` may block."""
        return await self._with_agent(work, self._calls)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    async def _with_agent(self, work: Callable[[AgentClient], _T], places: asyncio.Semaphore) -> _T:
        await places.acquire()
        future = in_thread(lambda: work(self._agent()))
        # Release the semaphore when the thread ends, even if the caller has left.
        future.add_done_callback(lambda _: places.release())
        return await asyncio.shield(future)

    def _agent(self) -> AgentClient:
        """Return the client. Connect without a lock, so that a slow agent does not delay other
        calls."""
        client = self._client
        if client is None:
            client = self._client = self._connect()
        return client


def in_thread(work: Callable[[], _T]) -> asyncio.Future[_T]:
    """Run `work` in a daemon thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle_once(settle: Callable[[Any], None], outcome: object) -> None:
        if not future.done():
            settle(outcome)

    def tell(settle: Callable[[Any], None], outcome: object) -> None:
        with suppress(RuntimeError):  # the loop is closed because the server has ended
            loop.call_soon_threadsafe(settle_once, settle, outcome)

    def run() -> None:
        try:
            outcome = work()
        except Exception as exc:  # noqa: BLE001 - raised in the waiting call
            tell(future.set_exception, exc)
        else:
            tell(future.set_result, outcome)

    threading.Thread(target=run, name="jupyter-slurm", daemon=True).start()
    return future
