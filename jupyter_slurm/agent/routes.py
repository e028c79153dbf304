"""The agent's HTTP surface, in one table; every call of `Api` is one line of `protocol.calls()`.

Here blocking calls meet the event loop, in `Desk.answer` and nowhere else. Nothing here knows what
a call does, or when the agent ends.
"""

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
"""The most threads, made on demand, one for each request under way: most wait in long polls."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Response(NamedTuple):
    status: int
    body: bytes


class _Caller(msgspec.Struct):
    """The part of `connect` that names the caller."""

    caller: str


class Desk:
    """Answers requests, each in a thread of its own, and counts those under way."""

    def __init__(self, methods: Mapping[str, Callable[..., object]], log_path: str) -> None:
        self._methods = methods
        self._log_path = log_path
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="call")
        self._callers: dict[object, set[str]] = {}
        """The callers that log in, by their connections."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.in_flight = 0
        self.last_request_s = monotonic()
        """When the last request came or was answered, on the monotonic clock."""
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
        """Note that this caller logs in over that connection, until it is closed."""
        with suppress(*NOT_JSON):
            caller = msgspec.json.decode(body, type=_Caller).caller
            self._callers.setdefault(connection, set()).add(caller)

    def callers_gone(self, connection: object) -> set[str]:
        """Forget and return the callers of this connection, which is closed now."""
        return self._callers.pop(connection, set())

    async def counted(self, work: Callable[[], _T]) -> _T:
        """Run blocking `work` as a request that is under way."""
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
        """Run blocking `work` beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def quiet_within(self, timeout_s: float) -> bool:
        """Wait until no request is under way; return False when some still are."""
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
        except Exception as exc:  # noqa: BLE001 - the caller must hear of it, the agent must live
            _log.exception("%s failed", name)
            return Response(500, msgspec.json.encode(self._internal(name, exc)))

    def _internal(self, name: str, exc: Exception) -> Problem:
        return Problem(
            code="internal",
            message=f"{name} failed inside the agent, which is a bug: {type(exc).__name__}.",
            hint=f"The agent goes on; its log says more: {self._log_path!s}",
        )


def _unknown(name: str) -> Response:
    error = AgentError(
        f"The agent knows no call {name!r}.",
        hint="If jupyter-slurm was just installed anew, restart the kernel.",
    )
    return Response(404, body_of(error))


class _Handler(RequestHandler):
    """The common part of all routes."""

    def initialize(self, desk: Desk, hello: Hello, retire: Callable[[], None]) -> None:
        self.desk = desk
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
        if self.desk.closed:
            self.set_header("Connection", "close")
        self.finish(response.body)

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Give Tornado's own refusals (wrong method, malformed request) the form of ours."""
        self.finish(body_of(AgentError(f"{self.request.method} {self.request.path}: refused.")))


class _NoSuchPath(_Handler):
    def prepare(self) -> None:
        self.give(_unknown(self.request.path))


class _Hello(_Handler):
    def get(self) -> None:
        self.desk.last_request_s = monotonic()
        if self.desk.closed:
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
            self.desk.note_caller(self.request.server_connection, self.request.body)
        self.give(await self.desk.answer(name, self.request.body))


Route = tuple[str, type[RequestHandler], dict[str, object]]


def application(
    desk: Desk, hello: Hello, retire: Callable[[], None], more: Sequence[Route] = ()
) -> Application:
    """Return the whole surface. It calls `retire` when a newer client asks the agent to end; `more`
    has the routes that are not calls, and comes before the calls."""
    shared = {"desk": desk, "hello": hello, "retire": retire}
    return Application(
        [
            (f"{PREFIX}hello", _Hello, shared),
            (f"{PREFIX}retire", _Retire, shared),
            *more,
            (f"{PREFIX}([a-z_]+)", _Call, shared),
        ],
        default_handler_class=_NoSuchPath,
        default_handler_args=shared,
        log_function=lambda handler: None,  # a line per request would fill the log
    )
