"""What the tests of SharedTransport use: connections to a real sshd, and servers behind it."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import paramiko

from jupyter_slurm.transport.ssh_transport import SharedTransport
from tests.ssh.sshd import Sshd

PATIENCE_S = 60.0
KINDS = ("gcm", "ctr", "unknown paramiko")
"""Fast, the slow way for another cipher, and the slow way because paramiko is not as expected."""


@contextmanager
def connected(
    sshd: Sshd, kind: str = "gcm", *, port: int | None = None, rekey_bytes: int | None = None
) -> Iterator[SharedTransport]:
    """Logged in; closed at the end."""
    transport = SharedTransport(socket.create_connection((sshd.host, port or sshd.port)))
    try:
        if kind == "ctr":
            transport.get_security_options().ciphers = ("aes128-ctr",)
        elif kind == "unknown paramiko":
            transport.packetizer.as_expected = False
        if rekey_bytes is not None:
            transport.packetizer.REKEY_BYTES = rekey_bytes
        transport.start_client(timeout=PATIENCE_S)
        transport.auth_publickey(sshd.user, paramiko.PKey.from_path(sshd.key))
        assert transport.fast is (kind == "gcm")
        yield transport
    finally:
        transport.close()


def run(transport: SharedTransport, command: str, stdin: bytes = b"") -> tuple[int, bytes]:
    """Exit status and stdout of a command."""
    channel = transport.open_stream(timeout_s=PATIENCE_S)
    try:
        channel.exec_command(command)
        channel.sendall(stdin)
        channel.shutdown_write()
        out = bytearray()
        while data := channel.recv(1 << 16):
            out += data
        return channel.recv_exit_status(), bytes(out)
    finally:
        channel.close()


@contextmanager
def serving(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that talks so with each who comes; all ended at the end."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    talking: dict[threading.Thread, socket.socket] = {}

    def one(sock: socket.socket) -> None:
        with sock:
            try:
                talk(sock)
            except OSError:
                return
            finally:
                del talking[threading.current_thread()]

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=one, args=(sock,))
            talking[thread] = sock
            thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(PATIENCE_S)
        for thread, sock in list(talking.items()):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def echo(sock: socket.socket) -> None:
    while data := sock.recv(1 << 18):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def carried(transport: SharedTransport, port: int) -> socket.socket:
    """Our end of a socket that is carried to `port` there."""
    near, far = socket.socketpair()
    near.settimeout(PATIENCE_S)
    try:
        transport.carry(far, "127.0.0.1", port, PATIENCE_S)
    except BaseException:
        near.close()
        far.close()
        raise
    return near


def echo_through(transport: SharedTransport, port: int, mib: int) -> None:
    """Sends so much, and asserts that the same comes back and then ends."""
    block = os.urandom(1 << 20)
    sent, got = hashlib.sha256(), hashlib.sha256()

    def send() -> None:
        for i in range(mib):
            piece = block[i % 1000 :]
            sent.update(piece)
            near.sendall(piece)
        near.shutdown(socket.SHUT_WR)

    with carried(transport, port) as near:
        sender = threading.Thread(target=send)
        sender.start()
        while data := near.recv(1 << 18):
            got.update(data)
        sender.join(PATIENCE_S)
    assert got.digest() == sent.digest()


def at_once(n: int, work: Callable[[int], None]) -> None:
    """Calls `work` in so many threads and raises what the first that failed raised."""
    problems: list[BaseException] = []

    def one(i: int) -> None:
        try:
            work(i)
        except BaseException as exc:
            problems.append(exc)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * PATIENCE_S)
        assert not thread.is_alive(), "a thread hangs"
    if problems:
        raise problems[0]
