"""Frames over one line, and a check of who is at its other end: for all programs on the node that
talk to us.

Sent as text, Python 3.6 and later, standard library only; nothing here knows what the frames mean.
The other end has the same in wire/framing.py.

A frame is its kind (a letter) and the size of its body, then the body.

Between srun and its step a stream goes through TCP in pieces of 1,000 bytes, and after a piece
nothing more is sent until it is acknowledged: after 40 ms, or with what is sent in the other
direction (Slurm does not set TCP_NODELAY; measured with 22.05). So an end that has received part of
a frame answers at once (ALIVE).
"""

import os
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import List, Optional, Tuple

HEAD = struct.Struct(">cI")
ALIVE = b"A"  # both ways: no body
CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid (unix(7))
READ_BYTES, WRITE_BYTES = 1 << 18, 1 << 16


def frame(kind: bytes, *parts: bytes) -> bytes:
    return b"".join((HEAD.pack(kind, sum(map(len, parts))),) + parts)


class Line:
    """A line that carries frames from one descriptor to another, or both ways over `sock`. Reading
    blocks only where `source` does; writing never does."""

    def __init__(
        self, source: int, sink: int, sock: "Optional[socket.socket]" = None, most: int = 0xFFFFFFFF
    ) -> None:
        """Set up the line. `most` is the largest body in bytes; a peer that announces more is not
        one of our programs."""
        self.source = source
        self.sink = sink
        self.sock = sock
        self.most = most
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.heard_s = self.said_s = time.monotonic()
        os.set_blocking(sink, False)

    def receive(self) -> "Optional[List[Tuple[bytes, bytes]]]":
        """Return the complete frames, or None when the peer has gone or sent what none of our
        programs sends."""
        try:
            data = os.read(self.source, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self.heard_s = time.monotonic()
        self.inbox += data
        found = []
        while len(self.inbox) >= HEAD.size:
            kind, size = HEAD.unpack_from(self.inbox)
            if size > self.most:
                return None
            end = HEAD.size + size
            if len(self.inbox) < end:
                break
            found.append((kind, bytes(memoryview(self.inbox)[HEAD.size : end])))
            del self.inbox[:end]
        if self.inbox and not self.outbox:
            self.say(ALIVE)
        return found

    def say(self, kind: bytes, *parts: bytes) -> None:
        self.said_s = time.monotonic()
        self.outbox += frame(kind, *parts)

    def flush(self) -> bool:
        """Write what the line takes, and tell whether the peer is still there."""
        try:
            while self.outbox:
                del self.outbox[: os.write(self.sink, self.outbox[:WRITE_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def close(self) -> None:
        self.flush()
        if self.sock is not None:
            self.sock.close()


def read_frame(source: int) -> "Optional[Tuple[bytes, bytes]]":
    """Wait for the next frame and return it, without reading a byte more; None when the peer has
    gone."""
    head = read_exactly(source, HEAD.size)
    if len(head) < HEAD.size:
        return None
    kind, size = HEAD.unpack(head)
    body = read_exactly(source, size)
    return (kind, body) if len(body) == size else None


def read_exactly(source: int, size: int) -> bytes:
    """Read `size` bytes, or fewer where the input ends."""
    data = b""
    while len(data) < size:
        more = os.read(source, size - len(data))
        if not more:
            break
        data += more
    return data


def is_ours(sock: socket.socket) -> bool:
    """Tell whether this user's program is at the other end of a Unix socket. The name of an
    abstract socket is not secret, and anybody may take it first or connect to it."""
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return bool(CREDENTIALS.unpack(told)[1] == os.getuid())


def accepted(listener: socket.socket) -> "Optional[socket.socket]":
    """Return the next connection, or None when it came from another user (it is then closed) or
    could not be accepted."""
    try:
        sock, _ = listener.accept()
    except OSError:  # hung up already, or this process has too many files open
        return None
    if is_ours(sock):
        return sock
    sock.close()
    return None
