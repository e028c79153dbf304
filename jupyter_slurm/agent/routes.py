"""The agent's HTTP. Blocking calls meet the event loop in `Dispatcher.answer` only.

Its clients send a request with a Content-Length, and the next one after the answer. A general web
server would take most of the time of a short call.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from time import monotonic
from typing import NamedTuple, TypeVar, cast

import msgspec

from jupyter_slurm.agent.peers import peer_uid
from jupyter_slurm.agent.protocol import (
    MAX_BODY_BYTES,
    NOT_JSON,
    PREFIX,
    Call,
    Hello,
    body_of,
    calls,
    retiring,
)
from jupyter_slurm.errors import AgentError, JupyterSlurmError
from jupyter_slurm.wire import Problem

_THREADS = 256
"""Maximum number of threads, one per pending request; most wait in long polls."""
_MOST_HEAD_BYTES = 1 << 16

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Request(NamedTuple):
    verb: str
    path: str
    body: bytes


class Response(NamedTuple):
    status: int
    body: bytes
    stream: Callable[[socket.socket], None] | None = None
    """Takes over the connection instead of an answer."""


class _Caller(msgspec.Struct):
    """The argument of `connect` that names the caller."""

    caller: str


class Dispatcher:
    """Answers requests, each in its own thread, and counts pending ones."""

    def __init__(self, methods: Mapping[str, Callable[..., object]], log_path: str) -> None:
        self._methods = methods
        self._log_path = log_path
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="call")
        self._callers: dict[object, set[str]] = {}
        """Callers that log in, by connection."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.in_flight = 0
        self.last_request_s = monotonic()
        """Monotonic time of the last request or answer."""
        self.closed = False

    async def answer(self, name: str, body: bytes) -> Response:
        """Return the response to the call `name`; never raise."""
        self.last_request_s = monotonic()
        if self.closed:
            return Response(503, msgspec.json.encode(retiring()))
        call = calls().get(name)
        if call is None:
            return _unknown(name)
        return await self.counted(lambda: self._answer(call, body))

    def note_caller(self, connection: object, body: bytes) -> None:
        """Note that the caller in `body` logs in over this connection."""
        with suppress(*NOT_JSON):
            caller = msgspec.json.decode(body, type=_Caller).caller
            self._callers.setdefault(connection, set()).add(caller)

    def callers_gone(self, connection: object) -> set[str]:
        """Remove and return the callers of a closed connection."""
        return self._callers.pop(connection, set())

    async def counted(self, work: Callable[[], _T]) -> _T:
        """Run blocking `work` and count it as pending."""
        self.in_flight += 1
        self._quiet.clear()
        try:
            return await self.in_thread(work)
        finally:
            self.in_flight -= 1
            self.last_request_s = monotonic()
            if not self.in_flight:
                self._quiet.set()

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Run blocking `work` in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def quiet_within(self, timeout_s: float) -> bool:
        """Wait until no request is pending; return False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True

    def _answer(self, call: Call, body: bytes) -> Response:
        def work() -> Response:
            outcome = self._methods[call.name](**call.unpack(body))
            return Response(200, msgspec.json.encode(outcome))

        return self.guarded(call.name, work)

    def guarded(self, name: str, work: Callable[[], Response]) -> Response:
        """Return the result of `work`, or its error, as a response."""
        try:
            return work()
        except JupyterSlurmError as exc:
            return Response(exc.status, body_of(exc))
        except Exception as exc:  # noqa: BLE001 - report it to the caller and go on
            _log.exception("%s failed", name)
            return Response(500, msgspec.json.encode(self._internal(name, exc)))

    def _internal(self, name: str, exc: Exception) -> Problem:
        return Problem(
            code="internal",
            message=f"Internal error in {name}: {type(exc).__name__}.",
            hint=f"See the agent's log: {self._log_path!s}",
        )


def _unknown(name: str) -> Response:
    error = AgentError(
        f"The agent has no call {name!r}.",
        hint="If jupyter-slurm was just updated, restart the kernel.",
    )
    return Response(404, body_of(error))


def _refused(status: int, request: str) -> Response:
    return Response(status, body_of(AgentError(f"{request}: refused.")))


Route = Callable[["Connection", bytes], Awaitable[Response]]
"""Answers a request with this body."""


class Routes:
    """The answers to requests. `retire`: called when a newer client asks the agent to end; `more`:
    routes by name, which take precedence over the calls."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        hello: Hello,
        retire: Callable[[], None],
        more: Mapping[str, Route],
    ) -> None:
        self.dispatcher = dispatcher
        self._hello = hello
        self._retire = retire
        self._more = more

    async def answer(self, connection: Connection, request: Request) -> Response:
        verb, path, body = request
        name = path.removeprefix(PREFIX)
        if name == path:
            return _unknown(path)
        if verb != ("GET" if name == "hello" else "POST"):
            return _refused(405, f"{verb} {path}")
        if name == "hello":
            self.dispatcher.last_request_s = monotonic()
            is_ending = self.dispatcher.closed
            return Response(503 if is_ending else 200, msgspec.json.encode(self._said(is_ending)))
        if name == "retire":
            self._retire()
            return Response(200, b"{}")
        if name in self._more:
            return await self._more[name](connection, body)
        if name == "connect":
            self.dispatcher.note_caller(connection, body)
        return await self.dispatcher.answer(name, body)

    def _said(self, is_ending: bool) -> Hello | Problem:
        return retiring() if is_ending else self._hello


class Connection(asyncio.Protocol):
    """A client's connection. Processes of other users are rejected."""

    def __init__(self, routes: Routes, on_gone: Callable[[Connection], None]) -> None:
        self._routes = routes
        self._on_gone = on_gone
        self._received = bytearray()
        self._task: asyncio.Task[None] | None = None
        """The task that answers the current request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        try:
            uid = peer_uid(self.transport.get_extra_info("socket"))
        except OSError:  # closed already
            self.transport.abort()
            return
        if uid != os.getuid():
            _log.warning("refused a connection of uid %d", uid)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_gone(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._task is None:
            self._next()
        elif len(self._received) > _MOST_HEAD_BYTES:  # clients wait for the answer
            self.transport.abort()

    def _next(self) -> None:
        """Answer the next request, if it is complete."""
        try:
            request = taken(self._received)
        except ValueError:
            self._give(_refused(400, "Malformed or too large request"))
            self.transport.close()
            return
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        response = await self._routes.answer(self, request)
        self._task = None
        if response.stream is not None:
            client = self.transport.get_extra_info("socket").dup()
            self.transport.abort()
            response.stream(client)
            return
        self._give(response)
        if self._routes.dispatcher.closed:
            self.transport.close()
        elif self._received:
            self._next()

    def _give(self, response: Response) -> None:
        if self.transport.is_closing():  # the client has hung up
            return
        status, body, _ = response
        lines = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(["Connection: close"] if self._routes.dispatcher.closed else []),
        )
        self.transport.write("\r\n".join((*lines, "", "")).encode() + body)


def taken(received: bytearray) -> Request | None:
    """Remove and return a complete request; None: there is none yet. ValueError: it is malformed or
    too large.

    >>> taken(bytearray(b"POST /v1/job HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\n{}"))
    Request(verb='POST', path='/v1/job', body=b'{}')
    """
    end = received.find(b"\r\n\r\n", 0, _MOST_HEAD_BYTES)
    if end < 0:
        if len(received) >= _MOST_HEAD_BYTES:
            raise ValueError
        return None
    first, *lines = received[:end].decode("ascii").split("\r\n")
    verb, path, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
    }
    size = int(headers.get("content-length", "0"))
    if "transfer-encoding" in headers or not 0 <= size <= MAX_BODY_BYTES:
        raise ValueError
    whole = end + 4 + size
    if len(received) < whole:
        return None
    body = bytes(received[end + 4 : whole])
    del received[:whole]
    return Request(verb, path, body)
