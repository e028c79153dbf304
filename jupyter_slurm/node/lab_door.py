"""The door of a lab: a socket of the node that leads to the server's, for this user alone.

Runs on the cluster, Python 3.6 and later, standard library only. It has no file: it can be come to
from outside a container, by who shares the network with it, whatever folders these two share.
"""

import contextlib
import os
import selectors
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Callable, Optional  # noqa: F401 - in comments

CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid (unix(7))
CHUNK = 1 << 18
PENDING_MOST = 1 << 20
CONNECT_S = 5.0
CHANGES = (b"PUT ", b"POST ", b"PATCH ", b"DELETE ")
"""What a request begins with that changes something; one that does not comes of itself, too."""


class End(object):
    """One end of a connection, and what waits to be written to it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.pending = bytearray()
        self.mask = 0
        self.has_ended = False
        self.shut = False
        self.other = self
        self.is_near = False


class Door(object):
    """`target` is the path of the server's socket; `stir` is called when somebody changes
    something. OSError: somebody else has that name."""

    def __init__(self, name: str, target: str, stir: "Callable[[], None]") -> None:
        self.target = target
        self.stir = stir
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.signals = None  # type: Optional[int]

    def step(self, signals: int, timeout_s: float) -> None:
        """Returns when something was done, there is a signal to be read, or it was quiet."""
        if self.signals is None:
            self.signals = signals
            self.selector.register(signals, selectors.EVENT_READ)
        for key, events in self.selector.select(timeout_s):
            if key.fileobj is self.listener:
                self.welcome()
            elif isinstance(key.data, End) and key.data.mask:
                self.serve(key.data, events)

    def welcome(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:  # hung up already, or this process has too many files open
            return
        if peer_uid(sock) != os.getuid():
            sock.close()
            return
        far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            far.settimeout(CONNECT_S)
            far.connect(self.target)
        except OSError:
            far.close()
            sock.close()
            return
        one, other = End(sock), End(far)
        one.other, other.other = other, one
        one.is_near = True
        self.settle(one)

    def serve(self, end: End, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self.write(end)
            if events & selectors.EVENT_READ:
                self.read(end)
        except BlockingIOError:
            pass
        except OSError:
            self.drop(end)
            return
        self.settle(end)

    def read(self, end: End) -> None:
        data = end.sock.recv(CHUNK)
        if end.is_near and data.startswith(CHANGES):
            self.stir()
        end.other.pending += data
        end.has_ended = not data
        with contextlib.suppress(BlockingIOError):
            self.write(end.other)

    def write(self, end: End) -> None:
        while end.pending:
            del end.pending[: end.sock.send(end.pending[:CHUNK])]
        if end.other.has_ended and not end.shut:
            end.shut = True
            end.sock.shutdown(socket.SHUT_WR)

    def settle(self, end: End) -> None:
        """Waits for what can happen next, at both ends; lets go where nothing can."""
        if all(one.has_ended and one.shut for one in (end, end.other)):
            self.drop(end)
            return
        for one in (end, end.other):
            mask = 0
            if not one.has_ended and len(one.other.pending) < PENDING_MOST:
                mask |= selectors.EVENT_READ
            if one.pending:
                mask |= selectors.EVENT_WRITE
            self.watch(one, mask)

    def watch(self, end: End, mask: int) -> None:
        if mask == end.mask:
            return
        if not mask:
            self.selector.unregister(end.sock)
        elif not end.mask:
            self.selector.register(end.sock, mask, end)
        else:
            self.selector.modify(end.sock, mask, end)
        end.mask = mask

    def drop(self, end: End) -> None:
        for one in (end, end.other):
            self.watch(one, 0)
            one.sock.close()


def peer_uid(sock: socket.socket) -> int:
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(told)[1])
