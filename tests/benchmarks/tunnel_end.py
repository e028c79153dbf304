"""Both ends of a measured tunnel: the server behind it, and the client in front of it.

    python tunnel_end.py serve          prints its port, and serves requests
    python tunnel_end.py drain PORT     downloads without end

A request is a letter and a length (8 bytes, big-endian): D, the server sends that many bytes; U, it
receives them and answers with a byte; E, it echoes them.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading

HEAD = struct.Struct(">cQ")
BLOCK_BYTES = 1 << 20
_DRAIN_BYTES = 1 << 40


def serve() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_answer, args=(sock,), daemon=True).start()


def _answer(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    block = memoryview(bytearray(BLOCK_BYTES))
    try:
        with sock:
            while len(head := sock.recv(HEAD.size, socket.MSG_WAITALL)) == HEAD.size:
                letter, left = HEAD.unpack(head)
                if letter == b"E":
                    sock.sendall(sock.recv(left, socket.MSG_WAITALL))
                elif letter == b"D":
                    while left:
                        left -= sock.send(block[: min(left, BLOCK_BYTES)])
                else:
                    take(sock, left)
                    sock.sendall(b"!")
    except OSError:
        return  # the other end has closed the connection


def take(sock: socket.socket, size: int) -> None:
    """Receive `size` bytes. Raise EOFError if the data ends earlier."""
    block = memoryview(bytearray(BLOCK_BYTES))
    while size:
        got = sock.recv_into(block[: min(size, BLOCK_BYTES)])
        if not got:
            raise EOFError
        size -= got


def drain(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(HEAD.pack(b"D", _DRAIN_BYTES))
        take(sock, _DRAIN_BYTES)


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else drain(int(sys.argv[2]))
