"""A proxy from an abstract socket to the server of a lab or a dashboard, for this user alone.

Runs on the cluster, Python 3.6 and later, standard library only. The relay runs outside the
container, and the server runs inside it. The folders that both can access differ by container tool
and site. All tools share the network, so both can use an abstract socket. Linux reports the user
who connects.
"""

import selectors
import socket

import framing

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Callable, Optional

CHUNK = 1 << 16
"""Number of bytes to read at once. Four times that number takes a third more CPU time, because the
data leaves the cache before it is written. splice(2) takes only slightly less CPU time (measured
with 2 GB from a Unix socket to TCP)."""
MOST_CHUNKS = 16
"""Maximum number of chunks to read from one connection before serving the others."""
CONNECT_S = 5.0
CHANGES = (b"PUT ", b"POST ", b"PATCH ", b"DELETE ")
"""The beginnings of requests that change something. A page sends other requests even without the
user."""
LONGEST_CHANGE = 7


class End:
    """One end of a connection, and the bytes to write to it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.pending = memoryview(b"")
        self.mask = 0
        self.has_ended = False
        self.shut = False
        self.other = self
        self.is_client = False


def connect_path(path: str) -> socket.socket:
    """Connect to the Unix socket `path`. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_S)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


class SocketProxy:
    """A proxy that listens on the abstract socket `name`. `connect` connects to the server, or
    raises OSError. The proxy calls `on_change` when a request changes something. The constructor
    raises OSError if another program has the name."""

    def __init__(
        self, name: str, connect: "Callable[[], socket.socket]", on_change: "Callable[[], None]"
    ) -> None:
        self.connect = connect
        self.on_change = on_change
        self.buffer = memoryview(bytearray(CHUNK))
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.signals: "Optional[int]" = None

    def step(self, signals: int, timeout_s: float) -> None:
        """Serve connections once. Return after an event, a signal or the timeout."""
        if self.signals is None:
            self.signals = signals
            self.selector.register(signals, selectors.EVENT_READ)
        for key, events in self.selector.select(timeout_s):
            if isinstance(key.data, End):
                if key.data.mask:
                    self.serve(key.data, events)
            elif key.fileobj is self.listener:
                self.accept()

    def accept(self) -> None:
        sock = framing.accepted(self.listener)
        if sock is None:
            return
        try:
            server = self.connect()
        except OSError:
            sock.close()
            return
        one, other = End(sock), End(server)
        one.other, other.other = other, one
        one.is_client = True
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
        """Read from one end. Call this only when the other end has written all its bytes."""
        for _ in range(MOST_CHUNKS):
            size = end.sock.recv_into(self.buffer)
            if end.is_client and bytes(self.buffer[:LONGEST_CHANGE]).startswith(CHANGES):
                self.on_change()
            end.has_ended = not size
            end.other.pending = self.buffer[:size]
            try:
                self.write(end.other)
            except BlockingIOError:
                end.other.pending = memoryview(bytes(end.other.pending))
                return
            if size < CHUNK:  # the rest arrives later
                return

    def write(self, end: End) -> None:
        while end.pending:
            end.pending = end.pending[end.sock.send(end.pending) :]
        if end.other.has_ended and not end.shut:
            end.shut = True
            end.sock.shutdown(socket.SHUT_WR)

    def settle(self, end: End) -> None:
        """Watch both ends for the next event, or close a connection that has ended."""
        if all(one.has_ended and one.shut for one in (end, end.other)):
            self.drop(end)
            return
        for one in (end, end.other):
            mask = 0
            if not one.has_ended and not one.other.pending:
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
