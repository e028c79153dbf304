"""The one way from the Jupyter server to the agent: blocking calls meet the event loop here.

Nothing here knows the callers or their calls. The first caller starts the agent; later the client
itself finds or starts another one.
"""

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
"""The most requests at the agent at once: for answers, and for news. Those that wait for news
cannot block the others, and the agent (256 threads) has room for other clients."""

_INTERNAL = Problem(
    code="internal", message="This failed inside the Jupyter server, whose log says more."
)
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class AgentAnswer(NamedTuple):
    status: int
    body: bytes


class Relay:
    """The relay to the agent for everybody on this server."""

    def __init__(self, connect: Callable[[], AgentClient]) -> None:
        """Prepare to relay; `connect` returns the client, and may take long."""
        self._connect = connect
        self._client: AgentClient | None = None
        self._calls = asyncio.Semaphore(_CALLS)
        self._waits = asyncio.Semaphore(_WAITS)
        self.caller = f"server-{secrets.token_hex(8)}"
        """The caller of logins that begin here: the user of this server."""

    async def ask(self, name: str, body: bytes, wait_s: float = 0.0) -> AgentAnswer:
        """Return the agent's answer, unread; an error that prevents one is an answer too."""

        def work(agent: AgentClient) -> AgentAnswer:
            return AgentAnswer(*agent.relay(name, body, wait_s))

        try:
            return await self._with_agent(work, self._waits if wait_s else self._calls)
        except JupyterSlurmError as exc:
            return AgentAnswer(exc.status, body_of(exc))
        except Exception:  # noqa: BLE001 - the caller must hear of it
            _log.exception("jupyter-slurm: %s could not be asked for", name)
            return AgentAnswer(500, msgspec.json.encode(_INTERNAL))

    async def with_agent(self, work: Callable[[AgentClient], _T]) -> _T:
        """Call `work`, which may block, with the agent; return its result or raise its error."""
        return await self._with_agent(work, self._calls)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    async def _with_agent(self, work: Callable[[AgentClient], _T], places: asyncio.Semaphore) -> _T:
        await places.acquire()
        future = in_thread(lambda: work(self._agent()))
        # The place is free when the thread has ended, whether or not a caller still waits for it.
        future.add_done_callback(lambda _: places.release())
        return await asyncio.shield(future)

    def _agent(self) -> AgentClient:
        """Return the client, connecting without a lock, so that a slow agent delays nobody."""
        client = self._client
        if client is None:
            client = self._client = self._connect()
        return client


def in_thread(work: Callable[[], _T]) -> asyncio.Future[_T]:
    """Run `work` in a thread of its own; the end of the process does not wait for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle_once(settle: Callable[[Any], None], outcome: object) -> None:
        if not future.done():
            settle(outcome)

    def tell(settle: Callable[[Any], None], outcome: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(settle_once, settle, outcome)

    def run() -> None:
        try:
            outcome = work()
        except Exception as exc:  # noqa: BLE001 - raised where it is waited for
            tell(future.set_exception, exc)
        else:
            tell(future.set_result, outcome)

    threading.Thread(target=run, name="jupyter-slurm", daemon=True).start()
    return future
