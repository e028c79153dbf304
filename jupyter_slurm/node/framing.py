"""Frames over a stream, and a check that the peer of a Unix socket belongs to this user.

Runs on the cluster, Python 3.6 and later, standard library only. wire/framing.py is the other end.
A frame consists of its kind (a letter), the size of its body, and the body.

srun sends a step's stream in pieces of 1,000 bytes, and waits for the acknowledgement of each
piece. That takes 40 ms unless data goes the other way (Slurm does not set TCP_NODELAY; measured
with 22.05). So an end that has received part of a frame answers at once with ALIVE.
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
CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid, as in struct ucred of unix(7)."""
READ_BYTES, WRITE_BYTES = 1 << 18, 1 << 16


def frame(kind: bytes, *parts: bytes) -> bytes:
    return b"".join((HEAD.pack(kind, sum(map(len, parts))),) + parts)


class Line:
    """A stream of frames that reads from `source` and writes to `sink`. Reading blocks only if
    `source` does; writing never blocks."""

    def __init__(
        self, source: int, sink: int, sock: "Optional[socket.socket]" = None, most: int = 0xFFFFFFFF
    ) -> None:
        """Accept bodies of at most `most` bytes. Disconnect a peer that announces more."""
        self.source = source
        self.sink = sink
        self.sock = sock
        self.most = most
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.heard_s = self.said_s = time.monotonic()
        os.set_blocking(sink, False)

    def receive(self) -> "Optional[List[Tuple[bytes, bytes]]]":
        """Return the complete frames; None if the peer disconnected or sent an invalid frame."""
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
        """Write what the stream accepts. Return False if the peer has disconnected."""
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


def is_ours(sock: socket.socket) -> bool:
    """Return whether the peer of a Unix socket is a program of this user. The name of an abstract
    socket is not secret, so any user can bind it first or connect to it."""
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return bool(CREDENTIALS.unpack(told)[1] == os.getuid())


def accepted(listener: socket.socket) -> "Optional[socket.socket]":
    """Accept a connection. Return None if that failed, or if another user connected."""
    try:
        sock, _ = listener.accept()
    except OSError:  # the client has left, or this process has too many open files
        return None
    if is_ours(sock):
        return sock
    sock.close()
    return None
