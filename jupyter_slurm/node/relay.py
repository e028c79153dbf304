"""The remote end of the relay. It opens connections from inside a job and forwards them over one
stream.

Runs on the node, Python 3.6 and later, standard library only. The local end (transport/relay.py)
sends this program over standard input, without a file. It connects only to targets that the local
end requests. It ends when the local end disconnects, or after SILENCE_S without a frame.

The body of each frame except ALIVE begins with the number of a connection, which the local end
chooses. An end may send WINDOW bytes of a connection, plus the bytes that CREDIT frames have
allowed, so a slow reader delays only its own connection. WINDOW covers the 40 ms that a CREDIT may
take (framing.py).
"""

import collections
import contextlib
import os
import selectors
import socket
import struct
import sys
import threading
import time
import tty

import framing

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import Deque, Dict, Optional, Tuple, Union

NUMBER = struct.Struct(">I")
OPEN = b"O"
"""A request from the local end to connect, in UTF-8: "PORT HOST", "0 @ABSTRACT-SOCKET" or
"0 /PATH-OF-SOCKET"."""
OPENED = b"K"
REFUSED = b"R"
"""A failure to connect, with the reason in UTF-8."""
DATA = b"D"
CREDIT = b"C"
"""Permission to send NUMBER more bytes."""
EOF = b"E"
"""The end of this direction."""
ABORT = b"X"
"""The end of both directions, after an error."""

WINDOW = 2 * 1024 * 1024
CHUNK = 32 * 1024
OUTBOX_MOST = 256 * 1024
"""Number of bytes in the outbox above which the relay does not read from connections."""
CONNECT_S = 15.0
SILENCE_S = 300.0
ABSTRACT = "@"
"""The prefix that marks a host as the name of an abstract socket."""


class Stream:
    """An established connection."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.sock = sock
        self.credit = WINDOW
        self.pending = bytearray()
        self.written = 0
        """Number of bytes written since the last CREDIT."""
        self.sent_eof = False
        self.got_eof = False
        self.shut = False
        self.mask = 0


class Relay:
    """All connections, in one thread. Separate threads open connections, because opening a
    connection may wait for a name server."""

    def __init__(self, source: int, sink: int) -> None:
        self.line = framing.Line(source, sink)
        self.streams: "Dict[int, Optional[Stream]]" = {}
        self.answers: "Deque[Tuple[int, Union[socket.socket, str]]]" = collections.deque()
        self.wake_in, self.wake_out = os.pipe()
        self.selector = selectors.DefaultSelector()
        self.selector.register(source, selectors.EVENT_READ)
        self.selector.register(self.wake_in, selectors.EVENT_READ)
        self.sink_waits = False
        os.set_blocking(self.wake_out, False)

    def run(self) -> None:
        """Relay until the local end disconnects."""
        self.line.say(framing.ALIVE)  # acknowledges what has arrived (framing.py)
        self.flush()
        while time.monotonic() - self.line.heard_s < SILENCE_S:
            for key, events in self.selector.select(SILENCE_S / 10):
                if key.fd == self.line.source:
                    found = self.line.receive()
                    if found is None:
                        return
                    for kind, body in found:
                        self.take_frame(kind, body)
                elif key.fd == self.wake_in:
                    os.read(self.wake_in, 4096)
                elif isinstance(key.data, Stream) and key.data.mask:
                    self.serve(key.data, events)
            self.take_answers()
            if not self.flush():
                return

    def take_frame(self, kind: bytes, body: bytes) -> None:
        if kind == framing.ALIVE:
            return
        (number,) = NUMBER.unpack_from(body)
        body = body[NUMBER.size :]
        if kind == OPEN:
            self.streams[number] = None
            thread = threading.Thread(target=self.connect, args=(number, body.decode()))
            thread.daemon = True
            thread.start()
            return
        stream = self.streams.get(number)
        if kind == ABORT:
            self.streams.pop(number, None)
        if stream is None:
            return
        if kind == DATA:
            stream.pending += body
            self.write(stream)
        elif kind == CREDIT:
            stream.credit += NUMBER.unpack(body)[0]
        elif kind == EOF:
            stream.got_eof = True
            self.write(stream)
        elif kind == ABORT:
            self.drop(stream)
        self.settle(stream)

    def connect(self, number: int, target: str) -> None:
        port, _, host = target.partition(" ")
        try:
            if host.startswith(ABSTRACT):
                sock = connect_abstract(host[len(ABSTRACT) :])
            elif host.startswith("/"):
                sock = connect_unix(host)
            else:
                sock = socket.create_connection((host, int(port)), CONNECT_S)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            self.answers.append((number, sock))
        except (OSError, UnicodeError, OverflowError) as exc:
            self.answers.append((number, getattr(exc, "strerror", None) or str(exc)))
        with contextlib.suppress(BlockingIOError):  # the pipe is full, and wakes the relay
            os.write(self.wake_out, b"!")

    def take_answers(self) -> None:
        while self.answers:
            number, answer = self.answers.popleft()
            if isinstance(answer, str):
                self.streams.pop(number, None)
                self.send(REFUSED, number, answer.encode("utf-8", "replace"))
            elif number not in self.streams:  # the local end aborted it
                answer.close()
            else:
                stream = self.streams[number] = Stream(number, answer)
                self.send(OPENED, number)
                self.settle(stream)

    def serve(self, stream: Stream, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self.write(stream)
        if events & selectors.EVENT_READ and self.streams.get(stream.number) is stream:
            self.read(stream)
        self.settle(stream)

    def read(self, stream: Stream) -> None:
        try:
            data = stream.sock.recv(min(CHUNK, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            self.fail(stream)
            return
        if data:
            stream.credit -= len(data)
            self.send(DATA, stream.number, data)
        else:
            stream.sent_eof = True
            self.send(EOF, stream.number)

    def write(self, stream: Stream) -> None:
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
            self.fail(stream)
            return
        if stream.written >= WINDOW // 4 and not stream.got_eof:
            self.send(CREDIT, stream.number, NUMBER.pack(stream.written))
            stream.written = 0

    def fail(self, stream: Stream) -> None:
        if self.streams.pop(stream.number, None) is stream:
            self.send(ABORT, stream.number)
            self.drop(stream)

    def drop(self, stream: Stream) -> None:
        """Reset the connection. Unwritten data is lost."""
        with contextlib.suppress(OSError):
            stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.watch(stream, 0)
        stream.sock.close()

    def settle(self, stream: Stream) -> None:
        """Watch the connection for the next event, or remove it if both directions have ended."""
        if self.streams.get(stream.number) is not stream:
            return
        if stream.sent_eof and stream.shut:
            del self.streams[stream.number]
            self.watch(stream, 0)
            stream.sock.close()
            return
        mask = 0
        if not stream.sent_eof and stream.credit and len(self.line.outbox) < OUTBOX_MOST:
            mask |= selectors.EVENT_READ
        if stream.pending:
            mask |= selectors.EVENT_WRITE
        self.watch(stream, mask)

    def watch(self, stream: Stream, mask: int) -> None:
        if mask == stream.mask:
            return
        if not mask:
            self.selector.unregister(stream.sock)
        elif not stream.mask:
            self.selector.register(stream.sock, mask, stream)
        else:
            self.selector.modify(stream.sock, mask, stream)
        stream.mask = mask

    def send(self, kind: bytes, number: int, body: bytes = b"") -> None:
        self.line.say(kind, NUMBER.pack(number), body)

    def flush(self) -> bool:
        """Write what the local end accepts. Return False if it has disconnected."""
        line = self.line
        was_full = len(line.outbox) >= OUTBOX_MOST
        if not line.flush():
            return False
        if bool(line.outbox) != self.sink_waits:
            self.sink_waits = bool(line.outbox)
            if self.sink_waits:
                self.selector.register(line.sink, selectors.EVENT_WRITE)
            else:
                self.selector.unregister(line.sink)
        if was_full and len(line.outbox) < OUTBOX_MOST:
            for stream in list(self.streams.values()):
                if stream is not None:
                    self.settle(stream)
        return True


def connect_abstract(name: str) -> socket.socket:
    """Connect to an abstract socket of this user. Raise OSError if another user has bound its
    name."""
    sock = connect_unix("\0" + name)
    if not framing.is_ours(sock):
        sock.close()
        raise OSError("another user's program has its name")
    return sock


def connect_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(CONNECT_S)
    sock.connect(path)
    return sock


def main() -> None:
    if os.isatty(1):  # `srun --unbuffered` gives a terminal, which would change the bytes
        tty.setraw(1)
    os.write(1, sys.argv[1].encode())
    # Exit successfully even if the local end disconnects, because a failed step would show in the
    # job's accounting.
    with contextlib.suppress(OSError):
        Relay(0, 1).run()


if __name__ == "__main__":
    main()
