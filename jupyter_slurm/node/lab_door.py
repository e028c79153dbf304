"""The door of a lab: sockets of the node that lead to the server's, for this user alone.

Runs on the cluster, Python 3.6 and later, standard library only. One is abstract, without a file:
it can be come to from outside a container, by who shares the network with it, whatever folders
these two share; the kernel tells whose program comes. The other is a port (lab_port.py), to which
a visitor comes without a step of the job's, and faster. What is said there is copied.
"""

import selectors
import socket
import time

import framing
import lab_port

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Callable, List, Optional  # noqa: F401 - in comments

CHUNK = 1 << 16
"""What is read at once. Four times as much takes a third more of the processor's time: it is out of
its cache before it is written. splice(2) takes little less than this, and more where pieces are
small (measured with 2 GB from a Unix socket to TCP)."""
MOST_CHUNKS = 16
"""Of one connection, before others have their turn."""
CONNECT_S = 5.0
CHANGES = (b"PUT ", b"POST ", b"PATCH ", b"DELETE ")
"""What a request begins with that changes something; one that does not comes of itself, too."""
LONGEST_CHANGE = 7


class End(object):
    """One end of a connection, and what waits to be written to it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.pending = memoryview(b"")
        self.mask = 0
        self.has_ended = False
        self.shut = False
        self.other = self
        self.is_near = False


class Door(object):
    """`target` is the path of the server's socket; `stir` is called when somebody changes
    something; `port` None: there is none. OSError: somebody else has that name."""

    def __init__(
        self,
        name: str,
        target: str,
        stir: "Callable[[], None]",
        port: "Optional[lab_port.Port]" = None,
    ) -> None:
        self.target = target
        self.stir = stir
        self.port = port
        self.knocks = []  # type: List[lab_port.Knock]
        self.buffer = memoryview(bytearray(CHUNK))
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, self.welcome)
        if port is not None:
            self.selector.register(port.listener, selectors.EVENT_READ, self.hear_a_knock)
        self.signals = None  # type: Optional[int]

    def step(self, signals: int, timeout_s: float) -> None:
        """Returns when something was done, there is a signal to be read, or it was quiet."""
        if self.signals is None:
            self.signals = signals
            self.selector.register(signals, selectors.EVENT_READ)
        if self.knocks:
            timeout_s = min(timeout_s, lab_port.KNOCK_S)
        for key, events in self.selector.select(timeout_s):
            if isinstance(key.data, End):
                if key.data.mask:
                    self.serve(key.data, events)
            elif isinstance(key.data, lab_port.Knock):
                if key.data in self.knocks:
                    self.answer(key.data)
            elif key.data is not None:
                key.data()
        now_s = time.monotonic()
        while self.knocks and self.knocks[0].until_s <= now_s:
            self.send_away(self.knocks[0])

    # --- who comes ---

    def welcome(self) -> None:
        sock = framing.accepted(self.listener)
        if sock is not None:
            self.let_in(sock)

    def hear_a_knock(self) -> None:
        assert self.port is not None
        try:
            sock, _ = self.port.listener.accept()
        except OSError:
            return
        if len(self.knocks) == lab_port.MOST_KNOCKS:
            self.send_away(self.knocks[0])
        knock = lab_port.Knock(self.port, sock, time.monotonic() + lab_port.KNOCK_S)
        self.knocks.append(knock)
        self.selector.register(sock, selectors.EVENT_READ, knock)

    def answer(self, knock: "lab_port.Knock") -> None:
        try:
            if not knock.listen():
                return
        except OSError:
            self.send_away(knock)
            return
        self.knocks.remove(knock)
        self.selector.unregister(knock.sock)
        self.let_in(knock.sock)

    def send_away(self, knock: "lab_port.Knock") -> None:
        self.knocks.remove(knock)
        self.selector.unregister(knock.sock)
        knock.sock.close()

    def let_in(self, sock: socket.socket) -> None:
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

    # --- what they say ---

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
        """Only while nothing waits to be written at the other end."""
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
        """Waits for what can happen next, at both ends; lets go where nothing can."""
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
