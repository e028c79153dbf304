"""Local sockets carried by channels: one thread for all of a connection's, and for what the
connection's own socket did not take at once. Nothing here waits but for `select`.

Data that arrives goes to the local socket from the reading thread; what that does not take is kept
(no more than the channel's window) and written here. Everything else of a carried socket happens in
this thread alone.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport.ssh_transport.frames import OutgoingPackets
from jupyter_slurm.transport.ssh_transport.stream import ChannelLine, SharedChannel

_LOG = logging.getLogger(__name__)
_BUFFERS_A_CALL = 512
_SOCKET_BYTES = 1 << 20


class PumpLine(Protocol):
    """The part of a connection that the pump's thread needs."""

    def congested(self) -> bool:
        """Tell whether nothing can be sent just now; later the pump's `resume` is called."""

    def flush_link(self) -> bool:
        """Send what the connection's socket takes. True: nothing is left."""

    def lost(self, why: BaseException) -> None:
        """Note that the connection is of no use any more."""


class CarryingLine(ChannelLine, PumpLine, Protocol):
    """The part of a connection that a carried socket needs."""


class Pump:
    def __init__(self, line: PumpLine, link: socket.socket) -> None:
        self._line = line
        self._link = link
        self._selector = selectors.DefaultSelector()
        self._tasks: deque[Callable[[], None]] = deque()
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._parked: set[Carried] = set()
        self._over = self._wake_sent = False
        self.batch = OutgoingPackets()
        self.carried: set[Carried] = set()
        self.thread = threading.Thread(target=self._run, name="ssh-pump", daemon=True)

    def start(self) -> None:
        self.watch(self._woken, selectors.EVENT_READ, self._wake_up)
        self.thread.start()

    def post(self, task: Callable[[], None]) -> None:
        """Have `task` called in the pump's thread. Take no lock."""
        self._tasks.append(task)
        if threading.get_ident() == self.thread.ident:
            return  # it comes to its tasks before it waits again
        if self._wake_sent:
            return
        self._wake_sent = True
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: there is nobody
            self._waker.send(b"\0")

    def stop(self) -> None:
        """Close every carried socket; then the thread ends."""
        self._over = True
        self.post(lambda: None)

    def close(self) -> None:
        """Close, after the thread's end, or without one."""
        for carried in list(self.carried):
            carried.finish()
        self._selector.close()
        self._waker.close()
        self._woken.close()

    def drop_after_fork(self) -> None:
        self._selector.close()
        for sock in (self._waker, self._woken, *(carried.sock for carried in self.carried)):
            sock.close()

    # -- in the pump's thread ---------------------------------------------------------------------

    def watch(self, sock: socket.socket, events: int, call: Callable[[int], None]) -> None:
        """Call `call` with what is possible on `sock`; no `events`: no longer."""
        known = sock in self._selector.get_map()
        if events and known:
            self._selector.modify(sock, events, call)
        elif events:
            self._selector.register(sock, events, call)
        elif known:
            self._selector.unregister(sock)

    def park(self, carried: Carried) -> None:
        """Read no more of it until the connection takes more."""
        self._parked.add(carried)

    def resume(self) -> None:
        parked, self._parked = self._parked, set()
        for carried in parked:
            carried.unpark()

    def watch_link(self) -> None:
        """Watch the connection's socket, which did not take everything."""
        if not self._over:
            self.watch(self._link, selectors.EVENT_WRITE, self._flush_link)

    def _flush_link(self, _: int) -> None:
        if self._line.flush_link():
            self.watch(self._link, 0, self._flush_link)
            self.resume()

    def _wake_up(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(1 << 12)
        self._wake_sent = False  # before the tasks: one posted after them wakes us again

    def _do_tasks(self) -> None:
        while self._tasks:
            self._tasks.popleft()()

    def _run(self) -> None:
        try:
            while not self._over:
                for key, events in self._selector.select():
                    key.data(events)
                self._do_tasks()
            self._do_tasks()  # what was posted before the end: a socket is closed once it has begun
        except Exception as exc:  # noqa: BLE001 (no thread dies unseen)
            _LOG.exception("the thread of carried sockets failed")
            self._line.lost(exc)
        finally:
            self._over = True
            self.close()


class Carried:
    """One local socket and its channel."""

    def __init__(self, line: CarryingLine, pump: Pump, sock: socket.socket) -> None:
        self.sock = sock
        self.channel: SharedChannel
        self._line = line
        self._pump = pump
        self._lock = threading.Lock()
        self._pending: deque[memoryview] = deque()
        self._broken = False
        self._finished = False
        self._parked = False
        self._local_ended = False
        self._remote_ended = False
        self._shut = False
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BYTES)

    # -- in the reading thread --------------------------------------------------------------------

    def deliver(self, views: list[memoryview]) -> None:
        self.channel.window.came(sum(map(len, views)))
        with self._lock:
            if self._pending or self._broken:
                if not self._broken:
                    self._pending.extend(views)
                return
            written = self._write(views)
        if written:
            self._line.took(self.channel, written)

    def ended(self) -> None:
        self._pump.post(self._on_ended)

    def writable(self) -> None:
        if self._parked:
            self._pump.post(self.unpark)

    def _write(self, views: list[memoryview]) -> int:
        """Return how many bytes were written; the rest is pending. The caller holds the lock."""
        try:
            written = left = self.sock.sendmsg(views[:_BUFFERS_A_CALL])
        except BlockingIOError:
            written = left = 0
        except OSError:
            self._broken = True
            self._pending.clear()
            self._pump.post(self.finish)
            return 0
        for i, view in enumerate(views):
            if left < len(view):
                self._pending.append(view[left:])
                self._pending.extend(views[i + 1 :])
                self._pump.post(self._watch)
                break
            left -= len(view)
        return written

    # -- in the pump's thread ---------------------------------------------------------------------

    def start(self) -> None:
        if self._finished:
            return
        self._pump.carried.add(self)
        self._watch()
        self._settle()

    def unpark(self) -> None:
        self._parked = False
        self._watch()

    def finish(self) -> None:
        """Close both ends: the local one as broken where it got less than everything."""
        if self._finished:
            return
        self._finished = True
        self._pump.carried.discard(self)
        with contextlib.suppress(ValueError, RuntimeError):  # closed, or the pump is
            self._pump.watch(self.sock, 0, self._on_events)
        with self._lock:
            whole = self._remote_ended and not self._pending and not self._broken
            self._broken = True
            self._pending.clear()
        if not (whole and self.channel.eof_received) and self.sock.family != socket.AF_UNIX:
            linger = struct.pack("ii", 1, 0)
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.sock.close()
        self._line.direct(self.channel, None)
        self.channel.close()

    def _watch(self) -> None:
        if self._finished or self not in self._pump.carried:
            return
        reads = not self._local_ended and not self._parked
        events = (reads and selectors.EVENT_READ) | (bool(self._pending) and selectors.EVENT_WRITE)
        self._pump.watch(self.sock, events, self._on_events)

    def _on_events(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if events & selectors.EVENT_READ and not self._finished:
            self._read()

    def _flush(self) -> None:
        with self._lock:
            views = [self._pending.popleft() for _ in range(min(len(self._pending), 64))]
            rest, self._pending = self._pending, deque()
            written = self._write(views) if views else 0
            self._pending.extend(rest)
        if written:
            self._line.took(self.channel, written)
        if not self._pending:
            self._watch()
            self._settle()

    def _read(self) -> None:
        if self._local_ended:
            return
        if self._line.congested():
            self._parked = True
            self._pump.park(self)
            self._watch()
            return
        room = self.channel.out_window_size
        if room <= 0:
            self._parked = True
            if self.channel.out_window_size <= 0:  # else it has grown since, unseen
                self._watch()
                return
            self._parked = False
            room = self.channel.out_window_size
        try:
            n = self._pump.batch.fill_from_socket(self.sock, room)
            if n:
                self._line.send_batch(self.channel, self._pump.batch, n)
        except BlockingIOError:
            return
        except (OSError, ConnectionLostError, EOFError):
            self.finish()
            return
        if n == 0:
            self._local_ended = True
            self.channel.shutdown_write()
            self._watch()
            self._settle()

    def _on_ended(self) -> None:
        self._remote_ended = True
        self._settle()

    def _settle(self) -> None:
        """End this side too, after all data of the far side."""
        if not self._remote_ended or self._pending or self._finished:
            return
        if self not in self._pump.carried:
            return  # it has not begun: its owner still has the socket, and is told
        if self._local_ended or self.channel.closed:
            self.finish()
        elif not self._shut:
            self._shut = True
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
