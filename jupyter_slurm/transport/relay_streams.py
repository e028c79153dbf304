"""TCP connections as frames over one socket: our end of a running relay. One thread serves all
connections. node/relay.py explains the frames.
"""

from __future__ import annotations

import itertools
import logging
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, field

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.wire.framing import ALIVE, GarbledError, Inbox, frame

_NUMBER = struct.Struct(">I")
_KINDS = b"KRDCEX"
"""The kinds of frames that the relay may send about a connection."""
_WINDOW = 2 * 1024 * 1024
_CHUNK = 32 * 1024
_OUTBOX_MOST = 256 * 1024
_LONGEST_BODY = 2 * _NUMBER.size
_LONGEST_OF = {b"D": _NUMBER.size + _CHUNK, b"R": _NUMBER.size + 4 * 1024}
"""Maximum sizes of the relay's frames by kind; `_LONGEST_BODY` applies to all other kinds."""
_MOST_STREAMS = 256
_UNREAD_MOST = 64 * 1024 * 1024
"""Maximum number of unread bytes of all streams together, a quarter of the sum of their windows.
Above this limit, a large stream is reset."""
_UNREAD_NOTED = _WINDOW // 2
"""Unread bytes below which a stream is not reset, even if all streams together exceed the limit."""
_OPEN_S = 20.0
"""Seconds to wait for a connection; the relay gives up sooner."""
_ALIVE_S = 60.0
"""Seconds between keep-alives to the relay while a connection is open."""
_JOIN_S = 5.0

_log = logging.getLogger(__name__)


class StreamsEndedError(Exception):
    """The relay has ended before or during a request. The message has the reason if we ended the
    relay."""


@dataclass(eq=False, slots=True)
class _RelayStream:
    number: int
    sock: socket.socket
    opened: Future[None] = field(default_factory=Future)
    credit: int = _WINDOW
    pending: bytearray = field(default_factory=bytearray)
    written: int = 0
    """Bytes written since the last credit."""
    sent_eof: bool = False
    got_eof: bool = False
    shut: bool = False
    mask: int = 0


class Streams:
    """The connections of a running relay. `channel` is the stream of node/relay.py, and `inbox`
    contains data already read from it."""

    def __init__(self, channel: socket.socket, inbox: bytes = b"") -> None:
        self._channel = channel
        self._inbox = Inbox(_LONGEST_BODY, _LONGEST_OF, inbox)
        self._outbox = bytearray()
        self._streams: dict[int, _RelayStream] = {}
        self._numbers = itertools.count(1)
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_out.setblocking(False)
        self._lock = threading.Lock()
        self._ended = False
        self._closing = False
        self.reason = ""
        """The reason why we ended the relay, after it sent invalid data."""
        self._said_s = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._channel_mask = selectors.EVENT_READ
        channel.setblocking(False)
        self._selector.register(channel, self._channel_mask)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return not self._ended

    def open(self, sock: socket.socket, host: str, port: int) -> None:
        """Connect `sock` with `host:port` as the node sees it, and wait until it is connected.
        `Streams` then owns `sock`. After a ForwardError or StreamsEndedError, the caller still owns
        it."""
        stream = _RelayStream(next(self._numbers), sock)
        self._post(lambda: self._begin(stream, f"{port} {host}".encode()))
        try:
            stream.opened.result(_OPEN_S)
        except FutureTimeoutError:
            if not stream.opened.cancel():  # the answer came at the last moment
                return stream.opened.result()
            self._post(lambda: self._give_up(stream))
            raise ForwardError(f"it did not answer within {_OPEN_S:g} s") from None

    def close(self) -> None:
        """Reset every connection and let the relay end."""
        with suppress(StreamsEndedError):
            self._post(self._stop)
        self._thread.join(_JOIN_S)

    def _post(self, call: Callable[[], None]) -> None:
        with self._lock:
            if self._ended:
                raise StreamsEndedError(self.reason)
            self._posted.append(call)
            with suppress(BlockingIOError):
                self._wake_out.send(b"!")

    # --- in the thread ---

    def _run(self) -> None:
        try:
            while not self._closing:
                for key, events in self._selector.select(_ALIVE_S if self._streams else None):
                    if key.fileobj is self._channel:
                        if events & selectors.EVENT_READ and not self._receive():
                            return
                    elif isinstance(key.data, _RelayStream):
                        self._serve(key.data, events)
                    else:
                        self._wake_in.recv(4096)
                while self._posted:
                    self._posted.popleft()()
                self._keep_alive()
                self._flush()
        except OSError:
            return  # the stream broke
        except GarbledError as exc:
            self.reason = str(exc)
            _log.warning("closed the relay in a job: %s", exc)
        finally:
            self._end()

    def _stop(self) -> None:
        self._closing = True

    def _end(self) -> None:
        with self._lock:
            self._ended = True
        while self._posted:
            self._posted.popleft()()
        for stream in list(self._streams.values()):
            self._streams.pop(stream.number)
            if stream.opened.done() and not stream.opened.cancelled():
                self._drop(stream)
            else:
                _answer(stream, StreamsEndedError(self.reason))
        self._selector.close()
        for sock in (self._channel, self._wake_in, self._wake_out):
            sock.close()

    def _begin(self, stream: _RelayStream, target: bytes) -> None:
        if len(self._streams) >= _MOST_STREAMS:
            _answer(stream, ForwardError(f"{_MOST_STREAMS} connections are open already"))
            return
        self._streams[stream.number] = stream
        self._send(b"O", stream.number, target)

    def _give_up(self, stream: _RelayStream) -> None:
        if self._streams.pop(stream.number, None) is stream:
            self._send(b"X", stream.number)

    def _receive(self) -> bool:
        """Read and process frames. Return False if the relay has ended, or is about to print its
        last message. Raises GarbledError."""
        try:
            data = self._channel.recv(1 << 18)
        except BlockingIOError:
            return True
        if not data:
            return False
        for kind, body in self._inbox.take(data):
            if kind != ALIVE:
                self._take_frame(kind, body)
        if self._inbox.partial and not self._outbox:
            self._outbox += frame(ALIVE)
        return not self._inbox.ended

    def _take_frame(self, kind: bytes, body: bytes) -> None:
        if kind not in _KINDS or len(body) < _NUMBER.size:
            raise GarbledError(f"it sent a frame {kind!r} of {len(body)} bytes")
        stream = self._streams.get(_NUMBER.unpack_from(body)[0])
        if stream is not None and not stream.opened.cancelled():  # otherwise it is about to end
            if (kind in b"KR") == stream.opened.done():
                raise GarbledError("it sent a frame for a connection that it had not opened")
            self._take(stream, kind, body[_NUMBER.size :])

    def _take(self, stream: _RelayStream, kind: bytes, body: bytes) -> None:
        match kind:
            case b"K":
                if not _answer(stream, None):
                    return
            case b"R":
                del self._streams[stream.number]
                _answer(stream, ForwardError(body.decode(errors="replace")))
            case b"D":
                stream.pending += body
                self._write(stream)
                if len(stream.pending) > _UNREAD_NOTED and self._is_too_much(stream):
                    self._fail(stream)
            case b"C":
                stream.credit += int.from_bytes(body, "big")
            case b"E":
                stream.got_eof = True
                self._write(stream)
            case b"X":
                del self._streams[stream.number]
                self._drop(stream)
        self._settle(stream)

    def _is_too_much(self, stream: _RelayStream) -> bool:
        """Return whether too many bytes of all streams are unread. Raise GarbledError if the stream
        exceeded its credit."""
        if len(stream.pending) > _WINDOW:
            raise GarbledError("it sent more than its credit")
        return sum(len(one.pending) for one in self._streams.values()) > _UNREAD_MOST

    def _serve(self, stream: _RelayStream, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._write(stream)
        if events & selectors.EVENT_READ and stream.number in self._streams and stream.mask:
            self._read(stream)
        self._settle(stream)

    def _read(self, stream: _RelayStream) -> None:
        try:
            data = stream.sock.recv(min(_CHUNK, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            self._fail(stream)
            return
        stream.credit -= len(data)
        stream.sent_eof = not data
        self._send(b"D" if data else b"E", stream.number, data)

    def _write(self, stream: _RelayStream) -> None:
        try:
            while stream.pending:
                count = stream.sock.send(stream.pending[: 1 << 17])
                del stream.pending[:count]
                stream.written += count
            if stream.got_eof and not stream.shut:
                stream.shut = True
                stream.sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._fail(stream)
            return
        if stream.written >= _WINDOW // 4 and not stream.got_eof:
            self._send(b"C", stream.number, _NUMBER.pack(stream.written))
            stream.written = 0

    def _fail(self, stream: _RelayStream) -> None:
        if self._streams.pop(stream.number, None) is stream:
            self._send(b"X", stream.number)
            self._drop(stream)

    def _drop(self, stream: _RelayStream) -> None:
        self._watch(stream, 0)
        break_off(stream.sock)

    def _settle(self, stream: _RelayStream) -> None:
        """Select the events to wait for, or close the connection if both directions have ended."""
        if stream.number not in self._streams:
            return
        if stream.sent_eof and stream.shut:
            del self._streams[stream.number]
            self._watch(stream, 0)
            stream.sock.close()
            return
        mask = selectors.EVENT_WRITE if stream.pending else 0
        if not stream.sent_eof and stream.credit and len(self._outbox) < _OUTBOX_MOST:
            mask |= selectors.EVENT_READ
        self._watch(stream, mask)

    def _watch(self, stream: _RelayStream, mask: int) -> None:
        if mask == stream.mask:
            return
        if not mask:
            self._selector.unregister(stream.sock)
        elif not stream.mask:
            self._selector.register(stream.sock, mask, stream)
        else:
            self._selector.modify(stream.sock, mask, stream)
        stream.mask = mask

    def _send(self, kind: bytes, number: int, body: bytes = b"") -> None:
        self._outbox += frame(kind, _NUMBER.pack(number), body)

    def _keep_alive(self) -> None:
        if self._outbox:
            self._said_s = time.monotonic()
        elif self._streams and time.monotonic() - self._said_s >= _ALIVE_S:
            self._outbox += frame(ALIVE)

    def _flush(self) -> None:
        was_full = len(self._outbox) >= _OUTBOX_MOST
        with suppress(BlockingIOError):
            while self._outbox:
                del self._outbox[: self._channel.send(self._outbox[: 1 << 16])]
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox else 0)
        if mask != self._channel_mask:
            self._channel_mask = mask
            self._selector.modify(self._channel, mask)
        if was_full and len(self._outbox) < _OUTBOX_MOST:
            for stream in list(self._streams.values()):
                if stream.opened.done():
                    self._settle(stream)


def _answer(stream: _RelayStream, error: Exception | None) -> bool:
    """Answer the thread that waits for the connection. Return False if it no longer waits."""
    if not stream.opened.set_running_or_notify_cancel():
        return False
    if error is not None:
        stream.opened.set_exception(error)
    else:
        stream.sock.setblocking(False)
        stream.opened.set_result(None)
    return True


def break_off(sock: socket.socket) -> None:
    """Close the socket as a crash would, so that the peer sees a reset."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
