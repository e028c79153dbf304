"""The agent's HTTP routes. `Dispatcher` runs blocking calls in threads, outside the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import NamedTuple, TypeVar

import msgspec
from tornado.web import Application, RequestHandler

from jupyter_slurm.agent.protocol import NOT_JSON, PREFIX, Call, Hello, body_of, calls, retiring
from jupyter_slurm.errors import AgentError, JupyterSlurmError
from jupyter_slurm.wire import Problem

_THREADS = 256
"""The maximum number of threads, one per pending request. Most of them wait in long polls."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Response(NamedTuple):
    status: int
    body: bytes


class _Caller(msgspec.Struct):
    """The argument of `connect` that names the caller."""

    caller: str


class Dispatcher:
    """A dispatcher that answers each request in its own thread, and counts pending requests."""

    def __init__(self, methods: Mapping[str, Callable[..., object]], log_path: str) -> None:
        self._methods = methods
        self._log_path = log_path
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="call")
        self._callers: dict[object, set[str]] = {}
        """The callers that log in, by connection."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.in_flight = 0
        self.last_request_s = monotonic()
        """The monotonic time of the last request or answer."""
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
        """Record that the caller in `body` logs in over this connection."""
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
        f"The agent does not support the call {name!r}.",
        hint="If jupyter-slurm was just updated, restart the kernel.",
    )
    return Response(404, body_of(error))


class _Handler(RequestHandler):
    """The base class of all handlers."""

    def initialize(self, dispatcher: Dispatcher, hello: Hello, retire: Callable[[], None]) -> None:
        self.dispatcher = dispatcher
        self.hello = hello
        self.retire = retire
        self.hung_up = False

    def on_connection_close(self) -> None:
        self.hung_up = True

    def give(self, response: Response) -> None:
        if self.hung_up:
            return
        self.set_status(response.status)
        self.set_header("Content-Type", "application/json")
        if self.dispatcher.closed:
            self.set_header("Connection", "close")
        self.finish(response.body)

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Send Tornado's own errors (wrong method, malformed request) as a Problem."""
        self.finish(
            body_of(AgentError(f"The agent refused {self.request.method} {self.request.path}."))
        )


class _NoSuchPath(_Handler):
    def prepare(self) -> None:
        self.give(_unknown(self.request.path))


class _Hello(_Handler):
    def get(self) -> None:
        self.dispatcher.last_request_s = monotonic()
        if self.dispatcher.closed:
            self.give(Response(503, msgspec.json.encode(retiring())))
        else:
            self.give(Response(200, msgspec.json.encode(self.hello)))


class _Retire(_Handler):
    def post(self) -> None:
        self.retire()
        self.give(Response(200, b"{}"))


class _Call(_Handler):
    async def post(self, name: str) -> None:
        if name == "connect":
            self.dispatcher.note_caller(self.request.server_connection, self.request.body)
        self.give(await self.dispatcher.answer(name, self.request.body))


Route = tuple[str, type[RequestHandler], dict[str, object]]


def application(
    dispatcher: Dispatcher, hello: Hello, retire: Callable[[], None], more: Sequence[Route] = ()
) -> Application:
    """Return the application. `retire` is called when a newer client asks the agent to end. `more`
    contains additional routes, which take precedence over the calls."""
    shared = {"dispatcher": dispatcher, "hello": hello, "retire": retire}
    return Application(
        [
            (f"{PREFIX}hello", _Hello, shared),
            (f"{PREFIX}retire", _Retire, shared),
            *more,
            (f"{PREFIX}([a-z_]+)", _Call, shared),
        ],
        default_handler_class=_NoSuchPath,
        default_handler_args=shared,
        log_function=lambda handler: None,  # one line per request would fill the log
    )
