"""The agent's life: it takes its lock, serves, and ends when nobody needs it; nothing of calls.

It ends on SIGTERM, when a newer client asks it to (`retire`), after a long idle time, and when its
socket or lock was removed, so that no client could find it. Jobs go on without it: they are in the
store, and the next agent takes them up.
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
import time
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import msgspec
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from jupyter_slurm import places
from jupyter_slurm.agent.instance_lock import InstanceLock
from jupyter_slurm.agent.kernel_stream import route
from jupyter_slurm.agent.peers import peer_uid
from jupyter_slurm.agent.protocol import MAX_BODY_BYTES, PROTOCOL, Hello, calls, version
from jupyter_slurm.agent.routes import Desk, application
from jupyter_slurm.api import Api
from jupyter_slurm.errors import ConfigError
from jupyter_slurm.wire import AgentStatus

IDLE_VARIABLE = "JUPYTER_SLURM_AGENT_IDLE_S"
GRACE_S = 15.0
"""Seconds for requests under way when the agent ends; clients repeat those that take longer."""
END_S = GRACE_S + 5.0
"""How long an agent that was asked to end takes at most, whatever hangs in it."""

_IDLE_S = 20 * 60.0
_CHECK_S = 60.0
_WAKE_S = 0.25
_CLOSE_S = 4.0

_log = logging.getLogger(__name__)


class AgentService(Api, Protocol):
    """The part of the working service that the agent needs, beside the calls."""

    def kernel(self, job_id: str) -> socket.socket:
        """Return the stream of the kernel in a job."""

    def needed(self, quiet_s: float) -> bool:
        """Tell whether something would be lost if the agent, without a request for `quiet_s`, ended
        now."""

    def left(self, caller: str) -> None:
        """Note that the process that logged in as `caller` has hung up."""

    def wake_waiters(self) -> None:
        """Let every waiting call return now."""

    def close(self) -> None:
        """End threads and connections; jobs go on."""


class _OwnUserServer(HTTPServer):
    """The server for the agent's own user: it hangs up on every other user's process, and reports
    connections that are closed."""

    on_gone: Callable[[object], None]

    def on_close(self, server_conn: object) -> None:
        super().on_close(server_conn)
        self.on_gone(server_conn)

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        try:
            uid = peer_uid(stream.socket)
        except OSError:  # hung up already
            stream.close()
            return
        if uid != os.getuid():
            _log.warning("refused a connection of uid %d", uid)
            stream.close()
            return
        super().handle_stream(stream, address)


class Agent:
    """One agent under its lock. `serve` runs it to its end."""

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
        self._desk = Desk(methods | {"status": self.status}, os.fspath(log_path))

    async def serve(self, ready: Callable[[], None]) -> bool:
        """Serve until it is time to end; call `ready` once clients can connect.

        Return False if a request or the service did not end in time: do not wait for it then.
        """
        server = _OwnUserServer(
            application(
                self._desk,
                self._hello(),
                functools.partial(self._end, "retired"),
                [route(self._desk, self._service.kernel)],
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
        _log.info("agent has ended%s", "" if orderly else "; something had to be cut off")
        return orderly

    def _client_gone(self, connection: object) -> None:
        for caller in self._desk.callers_gone(connection):
            asyncio.get_running_loop().run_in_executor(None, self._service.left, caller)

    def status(self) -> AgentStatus:
        """Return the service's own status, with the values that only the process knows."""
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
            clients=self._desk.in_flight,
        )

    def _hello(self) -> Hello:
        path = os.fspath(self._instance_lock.path)
        return Hello(version=version(), protocol=PROTOCOL, pid=os.getpid(), socket=path)

    def _end(self, reason: str) -> None:
        if not self._ending.is_set():
            _log.info("agent ends: %s", reason)
        self._desk.closed = True
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
        quiet_s = monotonic() - self._desk.last_request_s
        return not self._desk.in_flight and quiet_s >= self._idle_s

    async def _is_needed(self) -> bool:
        quiet_s = monotonic() - self._desk.last_request_s
        try:
            return await self._desk.in_thread(lambda: self._service.needed(quiet_s))
        except Exception:  # noqa: BLE001 - not known: then it may be
            _log.exception("whether there is anything left to do could not be found out")
            return True

    async def _finish(self) -> bool:
        """Let requests under way end, then the service; return False when one of them does not."""
        give_up_s = monotonic() + GRACE_S
        quiet = await self._desk.quiet_within(0)
        while not quiet and monotonic() < give_up_s:
            # Again and again: a request may come to its wait after the first call.
            self._service.wake_waiters()
            quiet = await self._desk.quiet_within(_WAKE_S)
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._desk.in_thread(self._service.close)
        except Exception:  # noqa: BLE001 - TimeoutError or a bug: it ends in any case
            _log.exception("closing the service failed")
            return False
        return quiet


def idle_s(text: str | None) -> float:
    """Return how long the agent stays without jobs and requests before it ends. ConfigError."""
    try:
        value = float(text) if text else _IDLE_S
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError(
            f"{IDLE_VARIABLE} is {text!r}, which is not a number of seconds.",
            hint="Give the seconds without a unit, e.g. 1200.",
        )
    return value


def memory_mib() -> float:
    """Return this process's memory in RAM now; its peak if there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20
