"""Commands and tunnels over an OpenSSH master, by its own protocol (PROTOCOL.mux in OpenSSH).

Like `ssh -S`, but without a process for each: the master gets descriptors and moves the data
itself. Each request has its own control connection; other clients may use the same master.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from jupyter_slurm.errors import ConnectionLostError

_log = logging.getLogger(__name__)

_HELLO = 0x00000001
_NEW_SESSION, _ALIVE_CHECK, _STDIO_FORWARD = 0x10000002, 0x10000004, 0x10000008
_EXIT, _ALIVE, _OPENED = 0x80000004, 0x80000005, 0x80000006
_VERSION = 4
_HELLO_BYTES = 12
_NO_ESCAPE_CHARACTER = 0xFFFFFFFF
_CONNECT_S = 5
_ANSWER_S = 5.0
_BUFFER_BYTES = 1 << 19
_SOCKET_BYTES = 1 << 20
_SETTLE_S = 0.05
_SURE_S = 0.02

Answered = Callable[[Exception | None], None]
"""Called once, in the mux's thread, and must not wait: None, or RefusedError, TimeoutError,
ConnectionLostError."""


class RefusedError(Exception):
    """The host refused. The master's log has the reason before the answer arrives."""


class Link(Protocol):
    """A login."""

    @property
    def alive(self) -> bool: ...


class Session:
    """A command on the host. `stdin`, `stdout` and `stderr` are sockets; their data passes between
    the master and the caller alone."""

    def __init__(
        self, control: socket.socket, replies: _Replies, ends: tuple[socket.socket, ...]
    ) -> None:
        self.stdin, self.stdout, self.stderr = ends
        self.link: Link | None = None
        """The login that it runs over."""
        self._control = control
        self._replies = replies
        self._closed = False

    @property
    def ended(self) -> bool:
        """Whether the command or its connection has ended, or it reads no more. Output may still be
        unread."""
        return self._closed or _happened(self._control, select.POLLIN) or _happened(self.stdin, 0)

    def exit_status(self, timeout_s: float) -> int | None:
        """Return the exit status; None: a signal ended the command, or the connection broke.
        TimeoutError: it still runs."""
        with contextlib.suppress(ConnectionError):
            self._control.settimeout(timeout_s)
            while True:
                for kind, body in self._replies:
                    if kind == _EXIT:
                        return int.from_bytes(body[4:8], "big")
                if not self._replies.more():
                    break
        return None

    def close(self) -> None:
        """End the command's input and take no more of its output. May be called in any thread, and
        wakes those that wait on the sockets."""
        self._closed = True
        for sock in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        # A master of OpenSSH before 8.9 ends when the control connection is closed before it has
        # noticed that the three others are ("select: Bad file descriptor").
        with contextlib.suppress(OSError):
            self._control.settimeout(_SETTLE_S)
            while self._control.recv(4096):
                pass
        self._control.close()


class Mux:
    """The master that listens at `path`, this process's or another's."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._tunnels: _Pump | None = None
        self._watch: socket.socket | None = None
        self._closed = False

    def pid(self) -> int | None:
        """Return the process ID of the master; None: there is none, or it does not answer."""
        try:
            with self._request(struct.pack(">II", _ALIVE_CHECK, 1), timeout_s=_ANSWER_S) as sock:
                kind, body = _Replies(sock).first()
        except (OSError, ConnectionLostError):
            return None
        return int.from_bytes(body[4:8], "big") if kind == _ALIVE else None

    def watch(self) -> socket.socket:
        """Return a socket that becomes readable when the master ends. ConnectionLostError."""
        sock = self._request(b"", timeout_s=_ANSWER_S)
        try:
            if sock.recv(_HELLO_BYTES, socket.MSG_WAITALL):
                self._watch = sock
                return sock
        except OSError:
            pass
        sock.close()
        raise _gone()

    def session(self, command: str, timeout_s: float) -> Session:
        """Run `command` by the login shell, and return when it has started. RefusedError,
        ConnectionLostError; TimeoutError: the host did not answer."""
        pairs = [socket.socketpair() for _ in range(3)]
        for pair in pairs:
            for sock in pair:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        flags = (0, 0, 0, 0)  # no terminal, X11 or agent; no subsystem
        message = struct.pack(">II", _NEW_SESSION, 1) + _string("")
        message += struct.pack(">5I", *flags, _NO_ESCAPE_CHARACTER)
        message += _string("dumb") + _string(command)
        try:
            control = self._request(message, *(theirs for _, theirs in pairs), timeout_s=timeout_s)
        except BaseException:
            for ours, _ in pairs:
                ours.close()
            raise
        finally:
            for _, theirs in pairs:
                theirs.close()
        replies = _Replies(control)
        session = Session(control, replies, tuple(ours for ours, _ in pairs))
        try:
            kind, body = replies.first()
        except BaseException:
            session.close()
            raise
        if kind != _OPENED:
            session.close()
            raise RefusedError(_reason(body))
        return session

    def connect(
        self,
        sock: socket.socket,
        host: str,
        port: int,
        timeout_s: float,
        answered: Answered,
    ) -> None:
        """Connect `sock` with `host:port` as the host sees it, and do not wait. If `answered` gets
        None, `sock` is closed after both directions have ended; else it is still the caller's. Once
        the peer has ended its direction, it is sent nothing more: channels.c, "FORCE input
        drain"."""
        down = socket.socketpair()
        down[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        message = struct.pack(">II", _STDIO_FORWARD, 1) + _string("") + _string(host)
        message += struct.pack(">I", port)
        try:
            # The master reads `sock` itself. The other direction passes through this process: a
            # master signals the peer's EOF by closing its descriptor, which a shared socket would
            # hide.
            control = self._request(message, sock, down[1], timeout_s=_ANSWER_S)
        except BaseException as exc:
            down[0].close()
            if not isinstance(exc, (ConnectionLostError, OSError)):
                raise
            answered(exc)
            return
        finally:
            down[1].close()
        until_s = time.monotonic() + timeout_s
        _Tunnel(self._pump(), control, sock, down[0], until_s, answered).begin()

    def close(self) -> None:
        """End the tunnels of this process; the master runs on."""
        with self._lock:
            self._closed = True
            pump = self._tunnels
        if pump is not None:
            pump.close()

    def _pump(self) -> _Pump:
        with self._lock:
            if self._tunnels is None:
                self._tunnels = _Pump(self._has_ended)
                if self._closed:
                    self._tunnels.close()
            return self._tunnels

    def _has_ended(self) -> bool:
        return self._watch is None or _happened(self._watch, select.POLLIN)

    def _request(self, message: bytes, *handed: socket.socket, timeout_s: float) -> socket.socket:
        """Return a control connection that has sent a hello, `message` and the descriptors."""
        sock = socket.socket(socket.AF_UNIX)
        # By `settimeout`, connect(2) would fail at once while the master's backlog (64) is full.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _CONNECT_S, 0))
        hello = struct.pack(">II", _HELLO, _VERSION)
        data = b"".join(len(one).to_bytes(4, "big") + one for one in (hello, message) if one)
        try:
            sock.connect(self._path)
            sock.sendall(data)
            for one in handed:
                socket.send_fds(sock, [b"\0"], [one.fileno()])
        except OSError as exc:
            sock.close()
            raise _gone(str(exc)) from exc
        sock.settimeout(timeout_s)
        return sock


class _Replies:
    """Parses a master's messages on a control connection: (type, body after the type)."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._data = b""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the received messages without the hello; iteration can be resumed."""
        while len(self._data) >= 8:
            size = int.from_bytes(self._data[:4], "big")
            if len(self._data) < 4 + size:
                break
            kind, body = int.from_bytes(self._data[4:8], "big"), self._data[8 : 4 + size]
            self._data = self._data[4 + size :]
            if kind != _HELLO:
                yield kind, body

    def more(self) -> bool:
        """Receive more, and block unless the connection is non-blocking. False: the end.
        OSError."""
        data = self._control.recv(4096)
        self._data += data
        return bool(data)

    def first(self) -> tuple[int, bytes]:
        """Return the first message. TimeoutError, ConnectionLostError."""
        try:
            while True:
                for message in self:
                    return message
                if not self.more():
                    raise _gone()
        except ConnectionError as exc:
            raise _gone() from exc


def _gone(detail: str | None = None) -> ConnectionLostError:
    return ConnectionLostError("The SSH connection has ended.", detail=detail)


def _string(text: str) -> bytes:
    data = os.fsencode(text)
    return len(data).to_bytes(4, "big") + data


def _reason(body: bytes) -> str:
    """Return the text of an answer whose body is a request ID and a string."""
    return body[8 : 8 + int.from_bytes(body[4:8], "big")].decode(errors="replace")


def _reset(sock: socket.socket) -> None:
    """Make closing the TCP socket send a reset."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _happened(sock: socket.socket, events: int) -> bool:
    """Tell whether one of these events, or the end of the connection, has occurred."""
    poll = select.poll()
    try:
        poll.register(sock, events)
    except (OSError, ValueError):  # it was closed
        return True
    return bool(poll.poll(0))


class _Pump:
    """One thread for all tunnels of a connection; calls back when descriptors are ready."""

    def __init__(self, has_ended: Callable[[], bool]) -> None:
        """`has_ended`: of the master."""
        self.has_ended = has_ended
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        self.tunnels: set[_Tunnel] = set()
        self._poll = select.poll()
        self._ready: dict[int, Callable[[], object]] = {}
        self._lates: dict[object, tuple[float, Callable[[], None]]] = {}
        self._tasks: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self.on(self._woken, select.POLLIN, lambda: self._woken.recv(4096))

    def post(self, task: Callable[[], None]) -> bool:
        """Do `task` in the thread. False: it was closed before."""
        with self._lock:
            if self._closed:
                return False
            self._tasks.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tunnels", daemon=True)
                self._thread.start()
        with contextlib.suppress(OSError):
            self._waker.send(b"!")
        return True

    def on(self, sock: socket.socket, events: int, ready: Callable[[], object]) -> None:
        """Call `ready` at these events, and, as poll(2) has it, at POLLHUP and POLLERR."""
        self._ready[sock.fileno()] = ready
        self._poll.register(sock, events)

    def off(self, sock: socket.socket) -> None:
        if self._ready.pop(sock.fileno(), None) is not None:
            self._poll.unregister(sock)

    def late(self, whose: object, at_s: float, call: Callable[[], None]) -> None:
        """Call once at `at_s` (time.monotonic())."""
        self._lates[whose] = (at_s, call)

    def not_late(self, whose: object) -> None:
        self._lates.pop(whose, None)

    def close(self) -> None:
        """Stop. The thread closes open tunnels."""
        with self._lock:
            closed, self._closed = self._closed, True
            thread = self._thread
        if thread is None and not closed:
            self._end()
        elif thread is not None:
            with contextlib.suppress(OSError):
                self._waker.send(b"!")
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        while not self._closed:
            now_s = time.monotonic()
            next_s = min((at_s for at_s, _ in self._lates.values()), default=None)
            wait_ms = None if next_s is None else max(0, round(1000 * (next_s - now_s)))
            for fd, ready in [(fd, self._ready.get(fd)) for fd, _ in self._poll.poll(wait_ms)]:
                if ready is not None and self._ready.get(fd) is ready:  # not closed in this round
                    self._call(ready)
            while self._tasks:
                self._call(self._tasks.popleft())
            for whose, (at_s, late) in list(self._lates.items()):
                if at_s <= time.monotonic():
                    del self._lates[whose]
                    self._call(late)
        self._end()

    def _call(self, what: Callable[[], object]) -> None:
        try:
            what()
        except Exception:  # noqa: BLE001 (the thread never dies silently)
            _log.exception("a tunnel stumbled")

    def _end(self) -> None:
        while self._tasks:
            self._tasks.popleft()()
        for tunnel in list(self.tunnels):
            tunnel.end(_gone())
        self._waker.close()
        self._woken.close()


class _Tunnel:
    """A client's socket, which the master reads itself, and the data sent back to it."""

    def __init__(
        self,
        pump: _Pump,
        control: socket.socket,
        client: socket.socket,
        down: socket.socket,
        give_up_s: float,
        answered: Answered,
    ) -> None:
        self._pump = pump
        self._control = control
        self._client = client
        self._down = down
        self._give_up_s = give_up_s
        self._answered: Answered | None = answered
        self._replies = _Replies(control)
        self._flow: _Flow | None = None

    def begin(self) -> None:
        self._control.setblocking(False)
        self._down.setblocking(False)
        if not self._pump.post(self._wait):
            self._pump.tunnels.add(self)
            self.end(_gone())

    # -- in the pump's thread ---------------------------------------------------------------------

    def _wait(self) -> None:
        self._pump.tunnels.add(self)
        self._pump.late(self, self._give_up_s, lambda: self.end(TimeoutError()))
        self._pump.on(self._control, select.POLLIN, self._on_control)

    def _on_control(self) -> None:
        try:
            more = self._replies.more()
        except BlockingIOError:
            return
        except OSError:
            more = False
        for kind, body in self._replies:
            if kind != _OPENED:
                self.end(RefusedError(_reason(body)))
                return
            self._stand()
        if not more and self._answered is not None:
            self.end(_gone())
        elif not more:  # received data may still be in `down`
            self._pump.off(self._control)
            self._control.close()
            self._settle()

    def _stand(self) -> None:
        self._pump.not_late(self)
        self._client.setblocking(False)
        sink = self._client.dup()  # the pump knows a descriptor for one purpose
        self._flow = _Flow(self._pump, self._down, sink, self._settle, self._sure)
        if self._client.family != socket.AF_UNIX:
            # Its owner ends it by shutdown(2); data that a Unix socket's peer has left is still
            # read.
            self._pump.on(self._client, 0, lambda: self.end(None))
        answered, self._answered = self._answered, None
        assert answered is not None
        self._flow.start()
        answered(None)

    def _sure(self, flow: _Flow) -> None:
        """Pass on the end of the received data; as a reset if the master has ended, which may be
        seen a moment later."""

        def end() -> None:
            if self._pump.has_ended():
                self.end(None)
            else:
                flow.end()

        self._pump.late(flow, time.monotonic() + _SURE_S, end)

    def _settle(self) -> None:
        """Release ended tunnels. The master may still read a client that has received
        everything."""
        if self._flow is not None and self._flow.over:
            self._pump.off(self._client)
            self._client.close()
            if self._control.fileno() == -1:
                self.end(None)

    def end(self, problem: Exception | None) -> None:
        """Close everything; before it is connected, report the problem and leave the client
        alone."""
        if self not in self._pump.tunnels:
            return
        self._pump.tunnels.discard(self)
        self._pump.not_late(self)
        answered, self._answered = self._answered, None
        if answered is None and self._pump.has_ended():
            _reset(self._client)
        if self._flow is not None:
            self._pump.not_late(self._flow)
            self._flow.close()
        for sock in (self._down, None if answered else self._client, self._control):
            if sock is not None and sock.fileno() != -1:
                self._pump.off(sock)
                sock.close()
        if answered is not None:
            answered(problem)


class _Flow:
    """One direction: copies from `source` to `sink`, and then the end."""

    def __init__(
        self,
        pump: _Pump,
        source: socket.socket,
        sink: socket.socket,
        on_over: Callable[[], None],
        on_end: Callable[[_Flow], None],
    ) -> None:
        """`on_end` decides when to `end` once the source has."""
        self._pump = pump
        self._source = source
        self._sink = sink
        self._on_over = on_over
        self._on_end = on_end
        self._rest = b""
        self.over = False

    def start(self) -> None:
        self._pump.on(self._source, select.POLLIN, self._read)

    def _read(self) -> None:
        buffer = self._pump.buffer
        try:
            n = self._source.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError:
            n = 0
        if n:
            self._write(buffer[:n])
        else:
            self._pump.off(self._source)
            self._on_end(self)

    def _write(self, data: memoryview | bytes) -> None:
        try:
            sent = self._sink.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.end()
            return
        if sent == len(data):
            self._rest = b""
            return
        waits = bool(self._rest)
        self._rest = bytes(data[sent:])
        if not waits:
            self._pump.off(self._source)
            self._pump.on(self._sink, select.POLLOUT, self._resume)

    def _resume(self) -> None:
        self._write(self._rest)
        if not self._rest and not self.over:
            self._pump.off(self._sink)
            self._pump.on(self._source, select.POLLIN, self._read)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._sink.shutdown(socket.SHUT_WR)
        self.close()
        self._on_over()

    def close(self) -> None:
        self.over = True
        for sock in (self._source, self._sink):
            if sock.fileno() != -1:
                self._pump.off(sock)
                sock.close()
