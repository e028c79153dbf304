"""A `carry` over plain TCP that can be cut off, and services to carry connections to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from jupyter_slurm.errors import ConnectionLostError, ForwardError


class Carrier:
    """Carries by two threads a connection, as a cluster's connection would that can be lost."""

    def __init__(self) -> None:
        self.lost = threading.Event()
        self.tries = 0
        self.tried = threading.Condition()

    def carry(self, sock: socket.socket, host: str, port: int) -> None:
        with self.tried:
            self.tries += 1
            self.tried.notify_all()
        if self.lost.is_set():
            sock.close()
            raise ConnectionLostError("The connection to the cluster is lost.")
        try:
            there = socket.create_connection((host, port), 10)
        except OSError as exc:
            sock.close()
            raise ForwardError(f"{host}:{port} refuses: {exc.strerror}.") from exc
        there.settimeout(None)
        ends = threading.Barrier(2)
        for one, other in ((sock, there), (there, sock)):
            threading.Thread(target=_pump, args=(one, other, ends), name="carrier").start()


def _pump(one: socket.socket, other: socket.socket, ends: threading.Barrier) -> None:
    with suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    ends.wait()
    one.close()


@contextmanager
def service(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port on 127.0.0.1 whose every connection is served by a thread of its own."""
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
    """What comes until the end."""
    found = bytearray()
    while data := sock.recv(1 << 18):
        found += data
    return bytes(found)


@contextmanager
def sent(sock: socket.socket, data: bytes) -> Iterator[None]:
    """Sends `data` and its end beside what the test does meanwhile."""

    def send() -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send, name="sender")
    thread.start()
    yield
    thread.join()


def unused_port() -> int:
    """Nothing listens there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
