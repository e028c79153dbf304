"""A local port that forwards its connections. `Connect` decides the target. The callers
(jobs/access) decide which ports to open; this module is independent of clusters and jobs.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from jupyter_slurm.errors import (
    ForwardError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.transport import Answered
from jupyter_slurm.transport.relay_streams import break_off
from jupyter_slurm.wire import Problem

Connect = Callable[[socket.socket, Answered], None]
"""A function that connects a socket with the target, as `Transport.connect` does. It may also raise
that method's errors."""

_PATIENCE_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_MOST_PENDING = 512
"""Maximum number of connections to open at the same time; further connections are reset."""
_AT_ONCE = 128
_BACKLOG = 128
_PORT_TRIES = 64
"""Maximum number of ports to try: a port that is free on one loopback may be taken on the other."""
_NO_IPV6 = frozenset((errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL))
_MOST_UNCHECKED = 256
"""Maximum number of connections that may wait for a first request. A further connection closes the
oldest of them, so that silent clients cannot block others."""
_REQUEST_S = 30.0
"""Seconds to wait for a request: browsers open connections in advance."""
_HEAD_BYTES = 1 << 15
_HEAD_END = b"\r\n\r\n"
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.005, 0.2
"""Pauses between checks of an incomplete request: peeked data stays readable, so select(2) cannot
wait for more."""
_FINAL = (ForwardError, LoginNeededError, LoginError, HostKeyError)
"""Errors for which a retry is useless: the target refuses, or the user has to act."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Pending:
    """An attempt to open a connection to the target."""

    sock: socket.socket
    give_up_s: float
    again_s: float = 0.0
    """The time of the next try. This time and `give_up_s` are values of `time.monotonic()`."""
    pause_s: float = _FIRST_PAUSE_S


class Forward:
    """A listening port on both loopbacks, from the constructor until `close`. One thread accepts
    connections and opens connections to the target. If `local_port` is 0, the constructor chooses a
    port that is free on both loopbacks. `patience_s` is the number of seconds that a new connection
    waits while the connection to the cluster is down. With `host`, only HTTP connections with a
    first request for `host:PORT` are forwarded. A connection is reset if the target cannot be
    reached. Raises ForwardError if the port is taken.
    """

    def __init__(
        self,
        connect: Connect,
        local_port: int = 0,
        *,
        patience_s: float = _PATIENCE_S,
        host: str | None = None,
    ) -> None:
        self._connect = connect
        self.host = host
        self._patience_s = patience_s
        self._listeners = _listeners(local_port)
        self.local_port: int = self._listeners[0].getsockname()[1]
        self.problem: Problem | None = None
        """The reason why the latest connection failed, or None."""
        self._lock = threading.Lock()
        self._tried: set[_Pending] = set()
        """Connections that are being opened. Their sockets may already have another owner."""
        self._waiting: list[_Pending] = []
        """Connections that wait for their next try."""
        self._forwarded: list[socket.socket] = []
        self._unchecked: dict[socket.socket, None] = {}
        """Connections that wait for their first request, the oldest first."""
        self._closed = False
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._acceptor = threading.Thread(target=self._run, name="tunnel", daemon=True)
        self._acceptor.start()

    @property
    def connections(self) -> int:
        """Count the open connections."""
        with self._lock:
            return len(self._open())

    def close(self) -> None:
        """End every connection. The port is free when this returns."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._wake()
        self._acceptor.join()
        with self._lock:
            for pending in self._waiting:
                break_off(pending.sock)
            for sock in [*self._open(), *(pending.sock for pending in self._tried)]:
                _end(sock)
            while self._unchecked:
                _end(self._unchecked.popitem()[0])
        self._wake_in.close()
        self._wake_out.close()

    def _open(self) -> list[socket.socket]:
        """Forget closed connections, and return the sockets of the others."""
        self._forwarded = [sock for sock in self._forwarded if sock.fileno() != -1]
        return self._forwarded

    # --- in the thread ---

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector, ExitStack() as stack:
            for listener in self._listeners:
                stack.enter_context(listener)
                selector.register(listener, selectors.EVENT_READ, listener)
            selector.register(self._wake_in, selectors.EVENT_READ)
            pause_s: float | None = None
            while True:
                ready = [key.data for key, _ in selector.select(pause_s)]
                with suppress(BlockingIOError):
                    self._wake_in.recv(4096)
                if self._closed:
                    return
                for listener in filter(None, ready):
                    self._accept_all(listener)
                pause_s = self._retry()

    def _accept_all(self, listener: socket.socket) -> None:
        with self._lock:
            self._open()
        try:
            self._accept(listener)
        except OSError as exc:  # e.g. this process has too many open files
            self.problem = ForwardError(f"Cannot accept connections: {exc.strerror}.").problem()
            time.sleep(_FIRST_PAUSE_S)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return
            with suppress(OSError):  # on macOS, the socket may already be closed
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.host is None:
                self._begin(sock)
                continue
            with self._lock:
                if len(self._unchecked) >= _MOST_UNCHECKED:
                    oldest = next(iter(self._unchecked))
                    del self._unchecked[oldest]
                    _end(oldest)
                self._unchecked[sock] = None
            threading.Thread(target=self._check, args=[sock], name="tunnel", daemon=True).start()

    def _begin(self, sock: socket.socket) -> None:
        if len(self._tried) + len(self._waiting) < _MOST_PENDING:
            self._try(_Pending(sock, time.monotonic() + self._patience_s))
        else:
            break_off(sock)

    def _retry(self) -> float | None:
        """Try the connections that are due. Return the seconds until the next try; None if no
        connection waits."""
        now_s = time.monotonic()
        with self._lock:
            due = [pending for pending in self._waiting if pending.again_s <= now_s]
            self._waiting = [pending for pending in self._waiting if pending.again_s > now_s]
        for pending in due:
            self._try(pending)
        with self._lock:
            next_s = min((pending.again_s for pending in self._waiting), default=None)
        return None if next_s is None else max(0.0, next_s - now_s)

    # --- in any thread ---

    def _check(self, sock: socket.socket) -> None:
        """Forward a connection if its first request is for `host`; reset any other."""
        pause_s, until_s = _FIRST_LOOK_S, time.monotonic() + _REQUEST_S
        meant = False
        with suppress(OSError):
            sock.settimeout(_REQUEST_S)
            while sock in self._unchecked and time.monotonic() < until_s:
                head, end, _ = sock.recv(_HEAD_BYTES, socket.MSG_PEEK).partition(_HEAD_END)
                if end or not head or len(head) == _HEAD_BYTES:
                    meant = bool(end) and is_for(f"{self.host}:{self.local_port}", head)
                    break
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
            sock.settimeout(None)
        with self._lock:
            meant = meant and sock in self._unchecked
            self._unchecked.pop(sock, None)
        if meant:
            self._begin(sock)
        else:
            break_off(sock)

    def _try(self, pending: _Pending) -> None:
        with self._lock:
            self._tried.add(pending)
        try:
            self._connect(pending.sock, partial(self._answered, pending))
        except JupyterSlurmError as exc:
            self._answered(pending, exc)
        except Exception as exc:  # noqa: BLE001 (the thread never dies silently)
            _log.exception("a connection to port %d failed", self.local_port)
            self._answered(pending, ForwardError(f"The connection failed: {exc}."))

    def _answered(self, pending: _Pending, error: JupyterSlurmError | None) -> None:
        self.problem = None if error is None else error.problem()
        with self._lock:
            self._tried.discard(pending)
            if error is None:
                self._forwarded.append(pending.sock)
                if self._closed:
                    _end(pending.sock)
            elif self._closed or not _may_pass(error, pending):
                break_off(pending.sock)
            else:
                pending.again_s = time.monotonic() + pending.pause_s
                pending.pause_s = min(2 * pending.pause_s, _LONGEST_PAUSE_S)
                self._waiting.append(pending)
                self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full, so the thread wakes anyway
            self._wake_out.send(b"!")


def is_for(place: str, head: bytes) -> bool:
    """Return whether the head of an HTTP request is unambiguously for `place` (`HOST:PORT`). A
    browser uses a connection for one name and port only, so all later requests are for `place`,
    too.
    """
    request, *lines = head.split(b"\r\n")
    method, _, target = request.partition(b" ")
    path, _, version = target.partition(b" ")
    fields = [line.partition(b":") for line in lines]
    hosts = [value.strip(b" \t").lower() for name, _, value in fields if name.lower() == b"host"]
    return (
        method.isalpha()
        and path.startswith(b"/")
        and version == b"HTTP/1.1"
        and all(colon and name and name == name.strip() for name, colon, _ in fields)
        and not any(byte in head.replace(b"\r\n", b"") for byte in b"\r\n\0")
        and hosts == [place.encode()]
    )


def _listeners(port: int) -> list[socket.socket]:
    """Return a listening socket for each loopback of this machine, all with the same port.

    A browser tries ::1 and 127.0.0.1 for each name below localhost; another user may listen at an
    address that we do not use. Raise ForwardError if the port is taken on one of them.
    """
    for _ in range(1 if port else _PORT_TRIES):
        first = _listener("127.0.0.1", port)
        try:
            second = _listener("::1", first.getsockname()[1])
        except _NoLoopbackError:
            return [first]
        except ForwardError:
            first.close()
            if port:
                raise
        else:
            return [first, second]
    raise ForwardError(
        f"Found no port that is free on both 127.0.0.1 and ::1 in {_PORT_TRIES} tries.",
        hint="Run `ss -ltnp` to list the programs that listen.",
    )


class _NoLoopbackError(Exception):
    """This machine lacks the loopback address to listen on."""


def _listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as exc:
        number = getattr(exc, "errno", None)
        if family == socket.AF_INET6 and (number in _NO_IPV6 or not socket.has_ipv6):
            raise _NoLoopbackError from exc
        reason = getattr(exc, "strerror", None) or str(exc)
        raise ForwardError(
            f"Cannot use port {port} on {address} of this machine: {reason}.",
            hint=(
                "Omit the local port to use any free port, or run `ss -ltnp` to list the programs "
                "that listen."
            ),
        ) from exc
    listener.setblocking(False)
    return listener


def _may_pass(error: JupyterSlurmError, pending: _Pending) -> bool:
    if isinstance(error, _FINAL) or not isinstance(error, TransportError):
        return False
    return time.monotonic() < pending.give_up_s


def _end(sock: socket.socket) -> None:
    """End both directions. The thread that forwards the connection then closes it."""
    with suppress(OSError):  # the connection has just ended
        sock.shutdown(socket.SHUT_RDWR)
