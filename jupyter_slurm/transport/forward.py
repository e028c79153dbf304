"""A port of this machine that leads elsewhere: its clients, and what becomes of them.

Where a connection goes, and over what, is the `Connect` that the port was opened with; its first
bytes may decide whether it goes there at all (`Admit`). Nothing here knows of clusters or jobs; the
openers know which ports there are.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from math import inf

from jupyter_slurm.errors import (
    ForwardError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    TransportError,
)
from jupyter_slurm.transport.connect_callbacks import Answered
from jupyter_slurm.transport.loopback import listeners
from jupyter_slurm.transport.relay_streams import break_off
from jupyter_slurm.wire import Problem

Connect = Callable[[socket.socket, Answered], None]
"""Connects a socket with what the port leads to, as `Transport.connect` does; what it raises is an
answer too."""
Admit = Callable[[bytes, int], bool]
"""Looks at the first bytes of a connection, which nobody has taken yet, to the port of that number.
True: it goes where the port leads; False: there are too few to tell. ForwardError: it does not."""
TellClient = Callable[[socket.socket, JupyterSlurmError], None]
"""Takes over the socket of a client that cannot be connected, and tells it; may take a while."""

_PATIENCE_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_MOST_ARRIVALS = 512
"""Connections that are being made at the same time; further ones are sent away."""
_AT_ONCE = 128
_MOST_TOLD = 64
_MOST_AT_DOOR = 256
"""Connections whose first bytes are waited for; one more, and the oldest is sent away. So a client
that opens many and says nothing keeps nobody out."""
_AT_DOOR_S = 30.0
"""A browser opens connections before it knows what for."""
_FIRST_BYTES = 1 << 15
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.005, 0.2
"""Between looks at a connection that says too little: what is only looked at stays readable."""
_FINAL = (ForwardError, LoginNeededError, LoginError, HostKeyError)
"""Waiting does not help: the target refuses, or a person has to do something."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Arrival:
    """A connection that is being made."""

    sock: socket.socket
    give_up_s: float
    again_s: float = 0.0
    """When it is tried next; both by `time.monotonic()`."""
    pause_s: float = _FIRST_PAUSE_S


class Forward:
    """Listens on both loopbacks from the beginning until `close`, whatever becomes of the way
    there.

    One thread accepts and tries. `local_port` 0: any number that is free on both. `patience_s`: how
    long a new connection waits for a way to the cluster that was lost. `tell`: what becomes of one
    that cannot be made; None: it is broken off. `admit`: the clients to connect; None: all.
    ForwardError: the port is taken.
    """

    def __init__(
        self,
        connect: Connect,
        local_port: int = 0,
        *,
        patience_s: float = _PATIENCE_S,
        tell: TellClient | None = None,
        admit: Admit | None = None,
    ) -> None:
        self._connect = connect
        self._tell = tell
        self._admit = admit
        self._patience_s = patience_s
        self._listeners = listeners(local_port)
        self.local_port: int = self._listeners[0].getsockname()[1]
        self.opened_s = time.time()
        self.problem: Problem | None = None
        """Why the newest connection did not get through; None: it did, or there was none."""
        self._lock = threading.Lock()
        self._tried: set[_Arrival] = set()
        """Whose sockets may be another's already."""
        self._waiting: list[_Arrival] = []
        """For their next try: all ours."""
        self._carried: list[socket.socket] = []
        self._told: set[socket.socket] = set()
        self._at_door: dict[_Arrival, None] = {}
        """In the order in which they came; the thread's own, until it ends."""
        self._closed = False
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._acceptor = threading.Thread(target=self._run, name="tunnel", daemon=True)
        self._acceptor.start()

    @property
    def connections(self) -> int:
        """Count the connections that stand."""
        with self._lock:
            return len(self._standing())

    def close(self) -> None:
        """Break off every connection. The port is free when this returns."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._wake()
        self._acceptor.join()
        with self._lock:
            for arrival in [*self._at_door, *self._waiting]:
                break_off(arrival.sock)
            for sock in [*self._standing(), *(arrival.sock for arrival in self._tried)]:
                _end(sock)
            for sock in self._told:
                _end(sock)
        self._wake_in.close()
        self._wake_out.close()

    def _standing(self) -> list[socket.socket]:
        """Return the sockets of standing connections: those of ended ones are closed."""
        self._carried = [sock for sock in self._carried if sock.fileno() != -1]
        return self._carried

    # --- in the thread ---

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector, ExitStack() as ours:
            for listener in self._listeners:
                ours.enter_context(listener)
                selector.register(listener, selectors.EVENT_READ, listener)
            selector.register(self._wake_in, selectors.EVENT_READ)
            pause_s: float | None = None
            while True:
                ready = [key.data for key, _ in selector.select(pause_s)]
                with suppress(BlockingIOError):
                    self._wake_in.recv(4096)
                if self._closed:
                    return
                for one in ready:
                    if isinstance(one, _Arrival):
                        self._look(selector, one)
                    elif one is not None:
                        self._take(selector, one)
                pauses_s = [self._look_again(selector), self._try_again()]
                pause_s = min((one for one in pauses_s if one is not None), default=None)

    def _take(self, selector: selectors.BaseSelector, listener: socket.socket) -> None:
        """Accept all clients that wait there."""
        with self._lock:
            self._standing()
        try:
            self._accept(selector, listener)
        except OSError as exc:  # this process has too many files open, e.g.
            self.problem = ForwardError(f"No connection is taken: {exc.strerror}.").problem()
            time.sleep(_FIRST_PAUSE_S)

    def _accept(self, selector: selectors.BaseSelector, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return
            with suppress(OSError):  # macOS: it has gone again
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._admit is None:
                self._enter(_Arrival(sock, time.monotonic() + self._patience_s))
            else:
                self._wait_at_door(selector, sock)

    def _enter(self, arrival: _Arrival) -> None:
        if len(self._tried) + len(self._waiting) < _MOST_ARRIVALS:
            self._try(arrival)
        else:
            break_off(arrival.sock)

    def _wait_at_door(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        if len(self._at_door) >= _MOST_AT_DOOR:
            oldest = next(iter(self._at_door))
            self._leave_door(selector, oldest)
            break_off(oldest.sock)
        arrival = _Arrival(sock, time.monotonic() + _AT_DOOR_S, inf, _FIRST_LOOK_S)
        self._at_door[arrival] = None
        selector.register(sock, selectors.EVENT_READ, arrival)

    def _look(self, selector: selectors.BaseSelector, arrival: _Arrival) -> None:
        """Look at what the client has said so far; nothing of that is taken."""
        if self._admit is None or arrival not in self._at_door:
            return
        first, admitted = b"", False
        try:
            first = arrival.sock.recv(_FIRST_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            admitted = self._admit(first, self.local_port)
        except BlockingIOError:
            return
        except ForwardError as exc:
            self._leave_door(selector, arrival)
            with self._lock:
                self._send_away(arrival.sock, exc)
            return
        except OSError:  # it has broken
            pass
        except Exception:  # noqa: BLE001 (the thread never dies silently)
            _log.exception("who came to port %d could not be looked at", self.local_port)
            first = b""
        if not admitted and 0 < len(first) < _FIRST_BYTES:
            self._rest(selector, arrival.sock)
            arrival.again_s = time.monotonic() + arrival.pause_s
            arrival.pause_s = min(2 * arrival.pause_s, _LONGEST_LOOK_S)
            return
        self._leave_door(selector, arrival)
        if admitted:
            self._enter(_Arrival(arrival.sock, time.monotonic() + self._patience_s))
        else:
            break_off(arrival.sock)

    def _leave_door(self, selector: selectors.BaseSelector, arrival: _Arrival) -> None:
        del self._at_door[arrival]
        self._rest(selector, arrival.sock)

    def _rest(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        with suppress(KeyError):  # it said too little, and waits for the next look
            selector.unregister(sock)

    def _look_again(self, selector: selectors.BaseSelector) -> float | None:
        """Look at those that are due; return seconds until the next. None: nobody waits."""
        now_s = time.monotonic()
        for arrival in [one for one in self._at_door if one.again_s <= now_s]:
            self._look(selector, arrival)
        for arrival in [one for one in self._at_door if one.give_up_s <= now_s]:
            self._leave_door(selector, arrival)
            break_off(arrival.sock)
        next_s = min((min(one.again_s, one.give_up_s) for one in self._at_door), default=None)
        return None if next_s is None else max(0.0, next_s - now_s)

    def _try_again(self) -> float | None:
        """Try those that are due; return seconds until the next. None: nobody waits."""
        now_s = time.monotonic()
        with self._lock:
            due = [arrival for arrival in self._waiting if arrival.again_s <= now_s]
            self._waiting = [arrival for arrival in self._waiting if arrival.again_s > now_s]
        for arrival in due:
            self._try(arrival)
        with self._lock:
            next_s = min((arrival.again_s for arrival in self._waiting), default=None)
        return None if next_s is None else max(0.0, next_s - now_s)

    def _try(self, arrival: _Arrival) -> None:
        with self._lock:
            self._tried.add(arrival)
        try:
            self._connect(arrival.sock, partial(self._answered, arrival))
        except JupyterSlurmError as exc:
            self._answered(arrival, exc)
        except Exception as exc:  # noqa: BLE001 (the thread never dies silently)
            _log.exception("a connection to port %d stumbled", self.local_port)
            self._answered(arrival, ForwardError(f"The connection failed: {exc}."))

    # --- in any thread ---

    def _answered(self, arrival: _Arrival, error: JupyterSlurmError | None) -> None:
        self.problem = None if error is None else error.problem()
        with self._lock:
            self._tried.discard(arrival)
            if error is None:
                self._carried.append(arrival.sock)
                if self._closed:
                    _end(arrival.sock)
            elif self._closed:
                break_off(arrival.sock)
            elif not _may_pass(error, arrival):
                self._send_away(arrival.sock, error)
            else:
                arrival.again_s = time.monotonic() + arrival.pause_s
                arrival.pause_s = min(2 * arrival.pause_s, _LONGEST_PAUSE_S)
                self._waiting.append(arrival)
                self._wake()

    def _send_away(self, sock: socket.socket, error: JupyterSlurmError) -> None:
        """Tell a client why it cannot be carried, or break off; the caller holds the lock."""
        tell = self._tell
        if tell is None or len(self._told) >= _MOST_TOLD:
            break_off(sock)
            return

        def run() -> None:
            try:
                tell(sock, error)
            except Exception:  # noqa: BLE001 (the thread never dies silently)
                _log.exception("who came to port %d could not be told why", self.local_port)
                break_off(sock)
            finally:
                with self._lock:
                    self._told.discard(sock)

        self._told.add(sock)
        threading.Thread(target=run, name="told", daemon=True).start()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: it wakes anyway
            self._wake_out.send(b"!")


def _may_pass(error: JupyterSlurmError, arrival: _Arrival) -> bool:
    if isinstance(error, _FINAL) or not isinstance(error, TransportError):
        return False
    return time.monotonic() < arrival.give_up_s


def _end(sock: socket.socket) -> None:
    """End both directions; the thread that carries it sees that, and closes it."""
    with suppress(OSError):  # it has just ended
        sock.shutdown(socket.SHUT_RDWR)
