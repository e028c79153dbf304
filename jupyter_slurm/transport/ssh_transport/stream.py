"""A channel of a connection that many threads use, and its data on the way to and from files.

What differs from paramiko's Channel: whatever a channel sends is queued under its own lock, so that
nothing follows its CLOSE; the reading thread never waits; being collected as garbage takes no lock;
the window is sized by measurement. Sockets are carried by `pump.py`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import paramiko
from paramiko.common import (
    cMSG_CHANNEL_CLOSE,
    cMSG_CHANNEL_REQUEST,
    cMSG_CHANNEL_WINDOW_ADJUST,
)
from paramiko.message import Message

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport.ssh_transport.frames import OutgoingPackets
from jupyter_slurm.transport.ssh_transport.window import Window

_STOP_TICK_S = 0.25
_BUFFERS_A_WRITE = 512
_CHUNK_BYTES = 1 << 18
_EXTENDED_HEAD_BYTES = 8
"""Before the data: which stream it is of, and its length (RFC 4254 §5.2)."""


class ChannelSink(Protocol):
    """The receiver of a channel's data, called by the reading thread: it must not wait."""

    def deliver(self, views: list[memoryview]) -> None: ...

    def ended(self) -> None:
        """Note that no data will come any more: EOF, CLOSE, or the end of the connection."""

    def writable(self) -> None:
        """Note that the peer takes more."""


class ChannelLine(Protocol):
    """The part of a connection that a channel needs."""

    active: bool

    def put(self, payload: bytes) -> None:
        """Queue a message; take no lock, so that a finalizer may call it."""

    def push(self) -> None:
        """Send what is queued, as far as that is possible now; wait while too much is."""

    def push_soon(self) -> None:
        """Have another thread push."""

    def took(self, channel: SharedChannel, n: int) -> None:
        """Note that `n` bytes of the channel have reached their reader."""

    def direct(self, channel: SharedChannel, sink: ChannelSink | None) -> None:
        """Send the channel's data to `sink` from now on; None: to its buffer."""

    def send_batch(self, channel: SharedChannel, batch: OutgoingPackets, size: int) -> None:
        """Send the first `size` bytes, for which there is room in the channel's window."""


class SharedChannel(paramiko.Channel):
    if TYPE_CHECKING:
        line: ChannelLine
        _close_internal: Any
        _pipe: Any
        _send_eof: Any
        _set_closed: Any
        _wait_for_send_window: Any

    def __init__(self, chanid: int, line: ChannelLine, window: Window) -> None:
        super().__init__(chanid)
        self.line = line
        self.window = window
        self.sink: ChannelSink | None = None
        self.gone = threading.Event()
        """The server has closed it too, or is lost: what it counted for is free again."""

    def __del__(self) -> None:
        # The collector may run this in a thread that holds any lock.
        line = getattr(self, "line", None)
        if line is not None and self.active and not self.closed:
            line.put(cMSG_CHANNEL_CLOSE + self.remote_chanid.to_bytes(4, "big"))
            line.push_soon()

    # -- for any thread ---------------------------------------------------------------------------

    def close(self) -> None:
        with self.lock:
            pipe, self._pipe = self._pipe, None
            if pipe is not None:
                pipe.close()
            self._put_close()
        self.line.push()

    def shutdown(self, how: int) -> None:
        """Shut down as a socket does. Do nothing after the channel is closed."""
        if how in {socket.SHUT_RD, socket.SHUT_RDWR}:
            self.eof_received = 1
        if how in {socket.SHUT_WR, socket.SHUT_RDWR}:
            with self.lock:
                message = None if self.closed else self._send_eof()
                if message is not None:
                    self.line.put(message.asbytes())
            self.line.push()

    def sendall(self, s: bytes | bytearray | memoryview) -> None:
        view = memoryview(s).cast("B")
        while view:
            sent = self.send(bytes(view[:_CHUNK_BYTES]))
            if sent == 0:
                raise OSError("Socket is closed")
            view = view[sent:]

    def exec_soon(self, command: str) -> None:
        """Call `exec_command` without waiting for the server: what is sent next follows it. A
        server that refuses the command is hung up on. OSError: the channel is closed."""
        m = Message().add_byte(cMSG_CHANNEL_REQUEST).add_int(self.remote_chanid)
        with self.lock:
            if self.closed:
                raise OSError("Socket is closed")
            self.line.put(m.add_string("exec").add_boolean(True).add_string(command).asbytes())
        self.line.push()

    def _send(self, s: bytes, m: Message) -> int:
        with self.lock:
            if self.closed:
                raise OSError("Socket is closed")
            size: int = self._wait_for_send_window(len(s))
            if size == 0:
                return 0
            m.add_string(s[:size])
            self.line.put(m.asbytes())
        self.line.push()
        return size

    def _check_add_window(self, n: int) -> int:
        """Leave it to `took`, not to the caller, to tell the peer what a reader has taken."""
        self.line.took(self, n)
        return 0

    def grant(self, n: int) -> bool:
        """Queue what the peer may send after a reader has taken `n` bytes. False: nothing yet."""
        with self.lock:
            due = self.window.take(n)
            if not due or self.closed or self.eof_received or not self.active:
                return False
            to = self.remote_chanid.to_bytes(4, "big")
            self.line.put(cMSG_CHANNEL_WINDOW_ADJUST + to + due.to_bytes(4, "big"))
            return True

    def _put_close(self) -> None:
        """Queue the close; the caller holds the channel's lock."""
        for message in self._close_internal():
            if message is not None:
                self.line.put(message.asbytes())

    # -- for the reading thread -------------------------------------------------------------------

    def _feed(self, m: Message | bytes) -> None:
        data = m if isinstance(m, bytes) else m.get_binary()
        if self.sink is None:
            self.window.came(len(data))
            self.in_buffer.feed(data)
        else:
            self.sink.deliver([memoryview(data)])

    def _feed_extended(self, m: Message) -> None:
        self.window.came(len(m.get_remainder()) - _EXTENDED_HEAD_BYTES)
        super()._feed_extended(m)  # type: ignore[misc]

    def _window_adjust(self, m: Message) -> None:
        super()._window_adjust(m)  # type: ignore[misc]
        if self.sink is not None:
            self.sink.writable()

    def _handle_eof(self, m: Message) -> None:
        super()._handle_eof(m)  # type: ignore[misc]
        self._tell_sink()

    def _request_failed(self, m: Message) -> None:
        with self.lock:
            self._put_close()
        self.line.push()
        self._tell_sink()

    def _handle_close(self, m: Message) -> None:
        with self.lock:
            self._put_close()
            self.transport._unlink_channel(self.chanid)  # type: ignore[union-attr]
        self.line.push()
        self.gone.set()
        self._tell_sink()

    def _unlink(self) -> None:
        super()._unlink()  # type: ignore[misc]
        self.gone.set()
        self._tell_sink()

    def _tell_sink(self) -> None:
        if self.sink is not None:
            self.sink.ended()


class Receiving:
    """Data on its way to the caller of `take`; no more of it than the channel's window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._views: deque[memoryview] = deque()
        self._some = threading.Event()
        self.over = False

    def deliver(self, views: list[memoryview]) -> None:
        self._window.came(sum(map(len, views)))
        self._views.extend(views)
        self._some.set()

    def ended(self) -> None:
        self.over = True
        self._some.set()

    def writable(self) -> None:
        """Do nothing: nothing is sent from here."""

    def take(self) -> list[memoryview]:
        """Return what is there or comes at once; []: nothing for a moment, or ever."""
        if not self.over:
            self._some.wait(_STOP_TICK_S)
            self._some.clear()
            if self.over:
                self._some.set()
        return [self._views.popleft() for _ in range(min(len(self._views), _BUFFERS_A_WRITE))]


def receive_into(
    line: ChannelLine,
    channel: SharedChannel,
    receiving: Receiving,
    sink: BinaryIO,
    stop: threading.Event,
    most_bytes: float,
) -> int:
    """Write what comes to a real file, to the end of it or until it is more than `most_bytes`.
    ConnectionLostError, OSError (a disk)."""
    sink.flush()
    total = 0
    while True:
        was_over = receiving.over
        views = receiving.take()
        # What came before the channel's data went to `receiving`: all of it is there by now.
        head = channel.in_buffer.empty()
        if head:
            views.insert(0, memoryview(head))
        size = sum(map(len, views))
        if size:
            _write(sink.fileno(), views)
            total += size
            line.took(channel, size)
            if total > most_bytes:
                return total
        elif was_over:
            break
        if stop.is_set():
            raise ConnectionLostError("The transfer was stopped.")
    if not channel.eof_received and not line.active:
        raise ConnectionLostError("The connection broke in the middle of a transfer.")
    return total


def send_all(
    line: ChannelLine,
    channel: SharedChannel,
    source: Iterable[bytes | memoryview] | BinaryIO,
    stop: threading.Event,
) -> int:
    """Send a source to its end, a real file from where it stands. Return how many bytes it were;
    ConnectionLostError, also when `stop` was set or the channel was closed over there."""
    batch = OutgoingPackets()
    total = 0
    if (start := _file_position(source)) is not None:
        file: BinaryIO = source  # type: ignore[assignment]
        while True:
            room = _wait_for_room(line, channel, stop)
            n = batch.fill_from_file(file.fileno(), room, start + total)
            if n == 0:
                file.seek(start + total)
                return total
            line.send_batch(channel, batch, n)
            total += n
    for chunk in _chunks(source):
        view = memoryview(chunk).cast("B")
        while view:
            n = batch.fill_from(view, _wait_for_room(line, channel, stop))
            line.send_batch(channel, batch, n)
            total += n
            view = view[n:]
    return total


def _wait_for_room(line: ChannelLine, channel: SharedChannel, stop: threading.Event) -> int:
    """Return how many bytes the peer takes now."""
    with channel.lock:
        while True:
            if stop.is_set():
                raise ConnectionLostError("The transfer was stopped.")
            if channel.closed or channel.eof_sent or not line.active:
                raise ConnectionLostError("The other side stopped reading before the end.")
            if channel.out_window_size > 0:
                return channel.out_window_size
            channel.out_buffer_cv.wait(_STOP_TICK_S)


def _file_position(source: Any) -> int | None:
    """Return where the file stands; None: not a real file that can be read at any place."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        source.fileno()
        if source.seekable():
            position: int = source.tell()
            return position
    return None


def _chunks(source: Any) -> Iterator[bytes | memoryview]:
    if hasattr(source, "read"):
        return iter(lambda: source.read(_CHUNK_BYTES), b"")
    return iter(source)


def _write(fd: int, views: list[memoryview]) -> None:
    while views:
        written = os.writev(fd, views[:_BUFFERS_A_WRITE])
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views:
            views[0] = views[0][written:]
