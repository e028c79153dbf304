"""A port of this machine that leads elsewhere: who connects to it, and what becomes of them.

Where a connection goes, and over what, is the `Carry` that the port was opened with. Nothing here
knows of clusters or jobs; which ports there are is known to who opened them.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from jupyter_slurm.errors import (
    ForwardError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.transport.relay_streams import break_off
from jupyter_slurm.wire import Problem

Carry = Callable[[socket.socket], socket.socket]
"""Connects a copy of a socket with what the port leads to (`hand_over`), and gives back the copy:
whoever carries that closes it when it has ended. Where it raises, the socket is as it was."""

_PATIENCE_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_MOST_WORKERS = 128
"""Connections that are being made at the same time; further ones wait their turn."""
_MOST_WAITING = 512
_BACKLOG = 128
_JOIN_S = 5.0
_FINAL = (ForwardError, LoginNeededError, LoginError, HostKeyError)
"""Waiting does not help: the target refuses, or a person has to do something."""

_log = logging.getLogger(__name__)


class Forward:
    """Listens on 127.0.0.1 from the beginning until `close`, whatever becomes of the way there.

    One thread accepts, short-lived ones make the connections. `local_port` 0: any free one.
    `patience_s`: how long a new connection waits for a way to the cluster that was lost.
    ForwardError: the port is taken.
    """

    def __init__(
        self, carry: Carry, local_port: int = 0, *, patience_s: float = _PATIENCE_S
    ) -> None:
        self._carry = carry
        self._patience_s = patience_s
        self._listener = _listener(local_port)
        self.local_port: int = self._listener.getsockname()[1]
        self.opened_s = time.time()
        self.problem: Problem | None = None
        """Why the newest connection did not get through; None: it did, or there was none."""
        self._lock = threading.Lock()
        self._waiting: deque[socket.socket] = deque()
        self._carried: list[socket.socket] = []
        self._workers: set[threading.Thread] = set()
        self._closed = threading.Event()
        self._wake_in, self._wake_out = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, name="tunnel", daemon=True)
        self._acceptor.start()

    @property
    def connections(self) -> int:
        """Those that stand."""
        with self._lock:
            return len(self._standing())

    def close(self) -> None:
        """Breaks off every connection. The port is free when this returns."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._wake_out.send(b"!")
        self._acceptor.join()
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            carried, workers = self._standing(), list(self._workers)
        for sock in waiting:
            break_off(sock)
        for sock in carried:
            _end(sock)
        for worker in workers:
            worker.join(_JOIN_S)
        self._wake_out.close()

    def _standing(self) -> list[socket.socket]:
        """Who carries a connection closes its socket when it has ended."""
        self._carried = [sock for sock in self._carried if sock.fileno() != -1]
        return self._carried

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener, self._wake_in:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_in, selectors.EVENT_READ)
            while True:
                selector.select()
                if self._closed.is_set():
                    return
                try:
                    sock, _ = self._listener.accept()
                except BlockingIOError:
                    continue  # who knocked has gone again
                except OSError as exc:  # this process has too many files open, e.g.
                    self.problem = ForwardError(
                        f"No connection is taken: {exc.strerror}."
                    ).problem()
                    self._closed.wait(_LONGEST_PAUSE_S)
                    continue
                self._take(sock)

    def _take(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                break_off(sock)
                return
            self._waiting.append(sock)
            if len(self._workers) < _MOST_WORKERS:
                worker = threading.Thread(target=self._work, name="tunnel worker", daemon=True)
                self._workers.add(worker)
                worker.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._workers.discard(threading.current_thread())
                    return
                sock = self._waiting.popleft()
            try:
                self._connect(sock)
            except JupyterSlurmError as exc:
                self._fail(exc)
                break_off(sock)
            except Exception as exc:  # noqa: BLE001 (a worker never dies silently)
                _log.exception("a connection to port %d stumbled", self.local_port)
                self._fail(TransportError(f"The connection failed: {exc}."))
                break_off(sock)

    def _fail(self, error: JupyterSlurmError) -> None:
        self.problem = error.problem()

    def _connect(self, sock: socket.socket) -> None:
        give_up_s = time.monotonic() + self._patience_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                carried = self._carry(sock)
                break
            except _FINAL:
                raise
            except TransportError as exc:
                self._fail(exc)
                if time.monotonic() >= give_up_s or self._closed.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        sock.close()
        self.problem = None
        with self._lock:
            self._standing().append(carried)
            if self._closed.is_set():
                _end(carried)


def hand_over(
    carry: Callable[[socket.socket, str, int], None], sock: socket.socket, host: str, port: int
) -> socket.socket:
    """A copy of `sock`, carried by one of the verbs of that name; such a verb may close what it was
    given when it fails, and then there may be another to try."""
    copy = sock.dup()
    try:
        carry(copy, host, port)
    except BaseException:
        copy.close()
        raise
    return copy


def _listener(local_port: int) -> socket.socket:
    try:
        listener = socket.create_server(("127.0.0.1", local_port), backlog=_BACKLOG)
    except (OSError, OverflowError) as exc:
        reason = getattr(exc, "strerror", None) or str(exc)
        raise ForwardError(
            f"Port {local_port} of this machine cannot be used: {reason}.",
            hint="Leave the local port out, and a free one is taken.",
        ) from exc
    listener.setblocking(False)
    return listener


def _end(sock: socket.socket) -> None:
    """Who carries it sees both directions end, and closes it."""
    with suppress(OSError):  # it has just ended
        sock.shutdown(socket.SHUT_RDWR)
