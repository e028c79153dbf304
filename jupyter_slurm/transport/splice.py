"""Two sockets of this machine made one connection. Knows nothing of their owners."""

from __future__ import annotations

import contextlib
import socket
import threading

_PIECE_BYTES = 1 << 18


def splice(one: socket.socket, other: socket.socket) -> None:
    """Take over both and return at once; what comes on either goes out on the other, and so does
    its end. They are closed when both have ended, or when one has broken."""
    there = threading.Thread(target=_copy, args=[one, other], name="splice there", daemon=True)
    back = threading.Thread(
        target=_copy_last, args=[other, one, there], name="splice back", daemon=True
    )
    there.start()
    back.start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    buffer = memoryview(bytearray(_PIECE_BYTES))
    try:
        while size := source.recv_into(buffer):
            target.sendall(buffer[:size])
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _copy_last(source: socket.socket, target: socket.socket, first: threading.Thread) -> None:
    _copy(source, target)
    first.join()
    source.close()
    target.close()
