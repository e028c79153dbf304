"""The life cycle of the agent: lock, log, service, event loop and end. It ends on SIGTERM, when a
newer client retires it, or after a long idle time. It also ends when its socket or lock is removed,
because clients then cannot find it. Jobs continue, and the next agent resumes them.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import msgspec
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from jupyter_slurm import core_dumps, places
from jupyter_slurm.agent.instance_lock import InstanceLock, take
from jupyter_slurm.agent.kernel_stream import route
from jupyter_slurm.agent.log import LogFile, open_log
from jupyter_slurm.agent.peers import peer_uid
from jupyter_slurm.agent.place import log_path, socket_path
from jupyter_slurm.agent.protocol import MAX_BODY_BYTES, PROTOCOL, Hello, calls, version
from jupyter_slurm.agent.routes import Dispatcher, application
from jupyter_slurm.api import Api
from jupyter_slurm.errors import ConfigError, JupyterSlurmError
from jupyter_slurm.wire import AgentStatus

IDLE_VARIABLE = "JUPYTER_SLURM_AGENT_IDLE_S"
GRACE_S = 15.0
"""Seconds to complete pending requests when the agent ends. Clients repeat unanswered requests."""
END_S = GRACE_S + 5.0
"""Seconds the agent may take to shut down."""

_IDLE_S = 20 * 60.0
_CHECK_S = 60.0
_WAKE_S = 0.25
_CLOSE_S = 4.0

_log = logging.getLogger(__name__)


class AgentService(Api, Protocol):
    """The interface of the service: the calls, and the agent's own methods."""

    def kernel(self, job_id: str) -> socket.socket:
        """Return the stream of the kernel in a job."""

    def needed(self, quiet_s: float) -> bool:
        """Return whether the agent must keep running after `quiet_s` without a call."""

    def left(self, caller: str) -> None:
        """Record that the process that logged in as `caller` has disconnected."""

    def wake_waiters(self) -> None:
        """Make all waiting calls return."""

    def close(self) -> None:
        """End threads and connections; jobs continue."""


class _OwnUserServer(HTTPServer):
    """An HTTP server that rejects processes of other users and reports closed connections."""

    on_gone: Callable[[object], None]

    def on_close(self, server_conn: object) -> None:
        super().on_close(server_conn)
        self.on_gone(server_conn)

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        try:
            uid = peer_uid(stream.socket)
        except OSError:  # closed already
            stream.close()
            return
        if uid != os.getuid():
            _log.warning("refused a connection of uid %d", uid)
            stream.close()
            return
        super().handle_stream(stream, address)


class Agent:
    """An agent that holds the instance lock."""

    def __init__(self, service: AgentService, instance_lock: InstanceLock, log_path: Path) -> None:
        self._service = service
        self._instance_lock = instance_lock
        self._log_path = log_path
        self._idle_s = idle_s(os.environ.get(IDLE_VARIABLE))
        self._started_s = time.time()
        self._ending = asyncio.Event()
        methods: dict[str, Callable[..., object]] = {
            name: getattr(service, name) for name in calls()
        }
        self._dispatcher = Dispatcher(methods | {"status": self.status}, os.fspath(log_path))

    async def serve(self, ready: Callable[[], None]) -> bool:
        """Serve until the agent ends; call `ready` when clients can connect. Return False if a
        request or the service did not end in time."""
        server = _OwnUserServer(
            application(
                self._dispatcher,
                self._hello(),
                functools.partial(self._end, "retired"),
                [route(self._dispatcher, self._service.kernel)],
            ),
            max_body_size=MAX_BODY_BYTES,
        )
        server.on_gone = self._client_gone
        server.add_socket(self._instance_lock.listen())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._end, number.name)
        _log.info("agent %s serves %s", version(), self._instance_lock.path)
        ready()
        await self._until_end()
        server.stop()
        self._instance_lock.leave()
        orderly = await self._finish()
        await server.close_all_connections()
        _log.info(
            "agent has ended%s", "" if orderly else "; a request or the service did not end in time"
        )
        return orderly

    def _client_gone(self, connection: object) -> None:
        for caller in self._dispatcher.callers_gone(connection):
            asyncio.get_running_loop().run_in_executor(None, self._service.left, caller)

    def status(self) -> AgentStatus:
        """Return the service's status, completed with the values of this process."""
        return msgspec.structs.replace(
            self._service.status(),
            version=version(),
            protocol=PROTOCOL,
            pid=os.getpid(),
            host=places.host(),
            socket=os.fspath(self._instance_lock.path),
            log=os.fspath(self._log_path),
            started_s=self._started_s,
            memory_mib=memory_mib(),
            cpu_s=time.process_time(),
            clients=self._dispatcher.in_flight,
        )

    def _hello(self) -> Hello:
        path = os.fspath(self._instance_lock.path)
        return Hello(version=version(), protocol=PROTOCOL, pid=os.getpid(), socket=path)

    def _end(self, reason: str) -> None:
        if not self._ending.is_set():
            _log.info("agent ends: %s", reason)
        self._dispatcher.closed = True
        self._ending.set()

    async def _until_end(self) -> None:
        while not self._ending.is_set():
            try:
                async with asyncio.timeout(min(_CHECK_S, self._idle_s)):
                    await self._ending.wait()
            except TimeoutError:
                await self._check()

    async def _check(self) -> None:
        if not self._instance_lock.still_ours():
            self._end("its socket or lock was removed")
        elif self._is_idle() and not await self._is_needed() and self._is_idle():
            self._end(f"idle for {self._idle_s:.0f} s")

    def _is_idle(self) -> bool:
        quiet_s = monotonic() - self._dispatcher.last_request_s
        return not self._dispatcher.in_flight and quiet_s >= self._idle_s

    async def _is_needed(self) -> bool:
        quiet_s = monotonic() - self._dispatcher.last_request_s
        try:
            return await self._dispatcher.in_thread(lambda: self._service.needed(quiet_s))
        except Exception:  # noqa: BLE001 - assume that it is needed
            _log.exception("the service failed to report whether it is needed")
            return True

    async def _finish(self) -> bool:
        """End pending requests, then the service. Return False if a request or the service does not
        end in time."""
        give_up_s = monotonic() + GRACE_S
        quiet = await self._dispatcher.quiet_within(0)
        while not quiet and monotonic() < give_up_s:
            # Repeat this, because a request may start waiting after the first call.
            self._service.wake_waiters()
            quiet = await self._dispatcher.quiet_within(_WAKE_S)
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._dispatcher.in_thread(self._service.close)
        except Exception:  # noqa: BLE001 - TimeoutError or a bug; the agent ends anyway
            _log.exception("closing the service failed")
            return False
        return quiet


def idle_s(text: str | None) -> float:
    """Return the seconds without jobs and requests after which the agent ends. Raises
    ConfigError."""
    try:
        value = float(text) if text else _IDLE_S
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError(
            f"{IDLE_VARIABLE} is {text!r}, which is not a positive number of seconds.",
            hint="Give the seconds without a unit, e.g. 1200.",
        )
    return value


def memory_mib() -> float:
    """Return the resident memory of this process, or the peak if /proc does not exist."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20


def run(
    path: Path | None, make_service: Callable[[], AgentService], ready: Callable[[], None] | None
) -> int:
    """Serve the socket `path` (None for the user's socket); return the exit code. If `ready` is
    given, the process is detached. When clients can connect, call `ready` and redirect stdout and
    stderr to the log. Take the lock before starting the service, because a store must never have
    two services.
    """
    core_dumps.refuse()  # memory contains keys and login answers
    try:
        log_file = open_log(log_path())
        instance_lock = take(path or socket_path(), wait_s=END_S)
        if instance_lock is None:
            return 0
        orderly = _serve(instance_lock, make_service, _announcer(log_file, ready))
    except JupyterSlurmError as exc:
        _log.error("the agent could not start: %s", exc)
        print(exc, file=sys.stderr)  # noqa: T201 - the client that starts the agent shows it
        return 1
    except Exception:
        _log.exception("the agent failed")
        raise
    if not orderly:
        # A normal exit would wait for threads of calls that do not return.
        logging.shutdown()
        os._exit(0)
    return 0


def _serve(
    instance_lock: InstanceLock, make_service: Callable[[], AgentService], ready: Callable[[], None]
) -> bool:
    service = make_service()
    try:
        return asyncio.run(Agent(service, instance_lock, log_path()).serve(ready))
    except BaseException:
        service.close()  # its threads would keep the process alive
        raise


def _announcer(log_file: LogFile, ready: Callable[[], None] | None) -> Callable[[], None]:
    def announce() -> None:
        if ready is not None:
            log_file.hold_stdio()
            ready()

    return announce
