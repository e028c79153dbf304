"""Commands and tunnels over an OpenSSH master, with its own protocol (PROTOCOL.mux in OpenSSH).

The module works like `ssh -S`, but without a process per command: the master gets descriptors and
moves the data itself. Each request has its own control connection. Other clients may use the same
master.
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
_SOCKET_BYTES = 1 << 20
_SETTLE_S = 0.05
_SURE_S = 0.02
_END_S = 5.0

Answered = Callable[[Exception | None], None]
"""A function called once, from another thread, with None or with a RefusedError, TimeoutError or
ConnectionLostError."""


class RefusedError(Exception):
    """The host refused the request. The master's log already has the reason."""


class Link(Protocol):
    """The login of a session."""

    @property
    def alive(self) -> bool: ...


class Session:
    """A command on the host. `stdin`, `stdout` and `stderr` are sockets that connect the caller
    directly with the master."""

    def __init__(
        self, control: socket.socket, replies: _Replies, ends: tuple[socket.socket, ...]
    ) -> None:
        self.stdin, self.stdout, self.stderr = ends
        self.link: Link | None = None
        """The login that the command uses."""
        self._control = control
        self._replies = replies
        self._closed = False

    @property
    def ended(self) -> bool:
        """Return whether the command or its connection has ended, or the command has closed its
        input. Output may still be unread."""
        return self._closed or _happened(self._control, select.POLLIN) or _happened(self.stdin, 0)

    def exit_status(self, timeout_s: float) -> int | None:
        """Return the exit status, or None if the command was killed by a signal or the connection
        dropped. Raise TimeoutError if the command still runs."""
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
        """End the command's input and stop reading its output. Any thread may call this method,
        which wakes threads that wait on the sockets."""
        self._closed = True
        for sock in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        # Before OpenSSH 8.9, a master exits if the control connection closes before it has noticed
        # the end of the three others ("select: Bad file descriptor").
        with contextlib.suppress(OSError):
            self._control.settimeout(_SETTLE_S)
            while self._control.recv(4096):
                pass
        self._control.close()


class Mux:
    """The master that listens at `path`, started by this process or another process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._tunnels: dict[_Tunnel, threading.Thread] = {}
        self._watch: socket.socket | None = None
        self._closed = False

    def pid(self) -> int | None:
        """Return the process ID of the master; None if the master does not run or does not
        answer."""
        try:
            with self._request(struct.pack(">II", _ALIVE_CHECK, 1), timeout_s=_ANSWER_S) as sock:
                kind, body = _Replies(sock).first()
        except (OSError, ConnectionLostError):
            return None
        return int.from_bytes(body[4:8], "big") if kind == _ALIVE else None

    def watch(self) -> socket.socket:
        """Return a socket that becomes readable when the master ends. Raises
        ConnectionLostError."""
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
        """Run `command` with the login shell, and return when it has started. Raises RefusedError
        or ConnectionLostError, or TimeoutError if the host did not answer."""
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
        """Connect `sock` with `host:port` as the host sees it, without waiting. If `answered` gets
        None, `sock` is closed after both directions have ended; otherwise the caller still owns it.
        When the peer ends its direction, OpenSSH also ends the other direction and does not send
        more data (channels.c, "FORCE input drain")."""
        message = struct.pack(">II", _STDIO_FORWARD, 1) + _string("") + _string(host)
        message += struct.pack(">I", port)
        try:
            control = self._request(message, sock, sock, timeout_s=_ANSWER_S)
        except (ConnectionLostError, OSError) as exc:
            answered(exc)
            return
        tunnel = _Tunnel(control, sock, self._has_ended)
        thread = threading.Thread(
            target=self._run, args=[tunnel, timeout_s, answered], name="tunnel", daemon=True
        )
        with self._lock:
            self._tunnels[tunnel] = thread
            if self._closed:
                tunnel.interrupt()
        thread.start()

    def close(self) -> None:
        """End the tunnels of this process; the master continues."""
        with self._lock:
            self._closed = True
            tunnels = dict(self._tunnels)
        for tunnel in tunnels:
            tunnel.interrupt()
        for thread in tunnels.values():
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(_END_S)

    def _run(self, tunnel: _Tunnel, timeout_s: float, answered: Answered) -> None:
        try:
            tunnel.run(timeout_s, answered)
        except Exception:  # noqa: BLE001 (the thread never dies silently)
            _log.exception("a tunnel failed")
        finally:
            with self._lock:
                del self._tunnels[tunnel]

    def _has_ended(self) -> bool:
        return self._watch is None or _happened(self._watch, select.POLLIN)

    def _request(self, message: bytes, *handed: socket.socket, timeout_s: float) -> socket.socket:
        """Return a control connection after sending a hello, `message` and the descriptors."""
        sock = socket.socket(socket.AF_UNIX)
        # With `settimeout`, connect(2) would fail at once while the master's backlog (64) is full.
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
    """A parser of a master's messages on a control connection. It yields the type and the body of
    each message."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._data = b""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the received messages without the hello. Iteration can resume later."""
        while len(self._data) >= 8:
            size = int.from_bytes(self._data[:4], "big")
            if len(self._data) < 4 + size:
                break
            kind, body = int.from_bytes(self._data[4:8], "big"), self._data[8 : 4 + size]
            self._data = self._data[4 + size :]
            if kind != _HELLO:
                yield kind, body

    def more(self) -> bool:
        """Receive more data, and block unless the connection is non-blocking. Return False at the
        end. Raises OSError."""
        data = self._control.recv(4096)
        self._data += data
        return bool(data)

    def first(self) -> tuple[int, bytes]:
        """Return the first message. Raises TimeoutError or ConnectionLostError."""
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
    """Let the TCP socket send a reset when it is closed."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _happened(sock: socket.socket, events: int) -> bool:
    """Return whether one of these events, or the end of the connection, has occurred."""
    poll = select.poll()
    try:
        poll.register(sock, events)
    except (OSError, ValueError):  # it was closed
        return True
    return bool(poll.poll(0))


class _Tunnel:
    """A client's socket that the master reads and writes itself. This process also keeps it open,
    so that a client can distinguish the end of the data (a FIN) from the end of the master (a
    reset).
    """

    def __init__(
        self, control: socket.socket, client: socket.socket, has_ended: Callable[[], bool]
    ) -> None:
        """Prepare a tunnel. `has_ended` returns whether the master has ended."""
        self._control = control
        self._client = client
        self._has_ended = has_ended
        self._connected = False

    def run(self, timeout_s: float, answered: Answered) -> None:
        """Wait until the tunnel is connected, and then until both directions have ended."""
        problem = self._opened(timeout_s)
        if problem is None:
            self._connected = True
            answered(None)
            self._wait()
            self._client.close()
        self._control.close()
        if problem is not None:
            answered(problem)

    def interrupt(self) -> None:
        """End `run`, from another thread."""
        for sock in (self._control, *([self._client] if self._connected else [])):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _opened(self, timeout_s: float) -> Exception | None:
        self._control.settimeout(timeout_s)
        try:
            kind, body = _Replies(self._control).first()
        except (TimeoutError, ConnectionLostError) as exc:
            return exc
        except OSError as exc:
            return _gone(str(exc))
        return None if kind == _OPENED else RefusedError(_reason(body))

    def _wait(self) -> None:
        with contextlib.suppress(OSError):
            self._control.settimeout(None)
            while self._control.recv(4096):  # the master closes it with the channel
                pass
        time.sleep(_SURE_S)  # the end of the master becomes visible a moment later
        if self._has_ended():
            _reset(self._client)
