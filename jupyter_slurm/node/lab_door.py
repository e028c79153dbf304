"""The way to the server of a lab or a dashboard: an abstract socket, for this user alone.

Runs on the cluster, Python 3.6 and later, standard library only. An abstract socket has no file: a
program outside a container can reach it if it shares the network with the container, whatever
folders the two share; the kernel says whose program connects. The door copies bytes between this
socket and the server.
"""

import selectors
import socket

import framing

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Callable, Optional  # noqa: F401 - in comments

CHUNK = 1 << 16
"""How many bytes are read at once. Four times as many take a third more of the processor's time:
they are out of its cache before they are written. splice(2) takes little less than this, and more
where pieces are small (measured with 2 GB from a Unix socket to TCP)."""
MOST_CHUNKS = 16
"""How many pieces of one connection are read before others have their turn."""
CONNECT_S = 5.0
CHANGES = (b"PUT ", b"POST ", b"PATCH ", b"DELETE ")
"""The beginnings of requests that change something; other requests also come without a person."""
LONGEST_CHANGE = 7


class End(object):
    """One end of a connection, and the bytes that wait to be written to it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.pending = memoryview(b"")
        self.mask = 0
        self.has_ended = False
        self.shut = False
        self.other = self
        self.is_near = False


def at_path(path: str) -> socket.socket:
    """Return a connection to the Unix socket `path`. Raise OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_S)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


class Door(object):
    """A socket that forwards to a server. `reach` connects to the server or raises OSError. `stir`
    is called for each request that changes something. Raises OSError if another program has the
    socket's name."""

    def __init__(
        self,
        name: str,
        reach: "Callable[[], socket.socket]",
        stir: "Callable[[], None]",
    ) -> None:
        self.reach = reach
        self.stir = stir
        self.buffer = memoryview(bytearray(CHUNK))
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.signals = None  # type: Optional[int]

    def step(self, signals: int, timeout_s: float) -> None:
        """Serve the connections; return when something was done, a signal can be read, or it was
        quiet."""
        if self.signals is None:
            self.signals = signals
            self.selector.register(signals, selectors.EVENT_READ)
        for key, events in self.selector.select(timeout_s):
            if isinstance(key.data, End):
                if key.data.mask:
                    self.serve(key.data, events)
            elif key.fileobj is self.listener:
                self.welcome()

    def welcome(self) -> None:
        sock = framing.accepted(self.listener)
        if sock is None:
            return
        try:
            far = self.reach()
        except OSError:
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
        """Read from one end; only called while nothing waits to be written at the other."""
        for _ in range(MOST_CHUNKS):
            size = end.sock.recv_into(self.buffer)
            if end.is_near and bytes(self.buffer[:LONGEST_CHANGE]).startswith(CHANGES):
                self.stir()
            end.has_ended = not size
            end.other.pending = self.buffer[:size]
            try:
                self.write(end.other)
            except BlockingIOError:
                end.other.pending = memoryview(bytes(end.other.pending))
                return
            if size < CHUNK:  # there is no more, or it comes at the next turn
                return

    def write(self, end: End) -> None:
        while end.pending:
            end.pending = end.pending[end.sock.send(end.pending) :]
        if end.other.has_ended and not end.shut:
            end.shut = True
            end.sock.shutdown(socket.SHUT_WR)

    def settle(self, end: End) -> None:
        """Watch both ends for what can happen next; drop the connection where nothing can."""
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
