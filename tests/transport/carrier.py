"""A `connect` that tests can interrupt, and services to connect to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport import Answered
from jupyter_slurm.transport.local import LocalTransport

Connect = Callable[[socket.socket, str, int, Answered], None]


class Carrier:
    """The `connect` of a transport (default: this machine's own), which tests can interrupt."""

    def __init__(self, connect: Connect | None = None) -> None:
        self._connect_via = connect or LocalTransport().connect
        self.lost = threading.Event()
        self.tries = 0
        self.tried = threading.Condition()

    def connect(self, sock: socket.socket, host: str, port: int, answered: Answered) -> None:
        with self.tried:
            self.tries += 1
            self.tried.notify_all()
        if self.lost.is_set():
            answered(ConnectionLostError("The connection to the cluster is lost."))
        else:
            self._connect_via(sock, host, port, answered)


@contextmanager
def service(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Open a port on 127.0.0.1 that serves each connection in its own thread."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        threads: list[threading.Thread] = []
        open_socks: list[socket.socket] = []

        def handle(sock: socket.socket) -> None:
            with sock, suppress(OSError):
                serve(sock)

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                open_socks.append(sock)
                thread = threading.Thread(target=handle, args=[sock], name="service")
                threads.append(thread)
                thread.start()

        acceptor = threading.Thread(target=accept, name="service")
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for sock in open_socks:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def echo(sock: socket.socket) -> None:
    while data := sock.recv(1 << 16):
        sock.sendall(data)


def everything(sock: socket.socket) -> bytes:
    """Return all data up to the end."""
    found = bytearray()
    while data := sock.recv(1 << 18):
        found += data
    return bytes(found)


@contextmanager
def sent(sock: socket.socket, data: bytes) -> Iterator[None]:
    """Send `data` and EOF in the background."""

    def send() -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send, name="sender")
    thread.start()
    yield
    thread.join()
