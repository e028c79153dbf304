"""Forwarded ports of this machine."""

from __future__ import annotations

import gc
import hashlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import pytest

from jupyter_slurm.errors import ForwardError, LoginNeededError
from jupyter_slurm.transport import Answered
from jupyter_slurm.transport.forward import Forward
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until
from tests.transport.carrier import Carrier, echo, everything, sent, service

MEGABYTE = random.Random(1).randbytes(1 << 20)

Open = Callable[..., Forward]


@pytest.fixture
def carrier() -> Carrier:
    return Carrier()


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Check that no thread and no open file is left."""
    gc.collect()
    threads, files = set(threading.enumerate()), open_files()
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name
    wait_until(lambda: open_files() <= files)


@pytest.fixture
def opened(nothing_left: None, carrier: Carrier) -> Iterator[Open]:
    """Return `opened(port)`, which opens a Forward to that port of this machine."""
    with ExitStack() as stack:

        def make(port: int, local_port: int = 0, patience_s: float = 20.0) -> Forward:
            def connect(sock: socket.socket, answered: Answered) -> None:
                carrier.connect(sock, "127.0.0.1", port, answered)

            forward = Forward(connect, local_port, patience_s=patience_s)
            stack.callback(forward.close)
            return forward

        yield make


def connected(forward: Forward) -> socket.socket:
    return socket.create_connection(("127.0.0.1", forward.local_port), 30)


def is_reset(forward: Forward) -> bool:
    """Return whether a new connection is reset, during connect or right after."""
    try:
        with connected(forward) as sock:
            return was_reset(sock)
    except ConnectionResetError:
        return True


def was_reset(sock: socket.socket) -> bool:
    try:
        sock.recv(1)
    except ConnectionResetError:
        return True
    return False


def test_bytes_pass_both_ways(opened: Open) -> None:
    with service(echo) as port, connected(opened(port)) as sock, sent(sock, MEGABYTE):
        assert everything(sock) == MEGABYTE


def test_forward_listens_only_on_loopback_addresses(opened: Open) -> None:
    forward = opened(free_port())
    text = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    listening = [line.split()[1] for line in text.splitlines() if line.split()[3] == "0A"]
    ours = [place for place in listening if place.endswith(f":{forward.local_port:04X}")]
    there = ("0100007F", "00000000000000000000000001000000")
    assert ours == [f"{address}:{forward.local_port:04X}" for address in there]


def test_error_names_taken_port(opened: Open) -> None:
    taken = opened(free_port()).local_port
    words = f"port {taken} on 127.0.0.1 of this machine: Address"
    with pytest.raises(ForwardError, match=words):
        opened(free_port(), taken)


def test_one_direction_can_end_before_the_other(opened: Open) -> None:
    def answer_at_the_end(sock: socket.socket) -> None:
        sock.sendall(hashlib.sha256(everything(sock)).digest())

    with service(answer_at_the_end) as port, connected(opened(port)) as sock, sent(sock, MEGABYTE):
        assert everything(sock) == hashlib.sha256(MEGABYTE).digest()


def test_refusing_target_resets_the_connection_and_is_reported(opened: Open) -> None:
    forward = opened(free_port())
    assert is_reset(forward)
    assert forward.problem is not None
    assert forward.problem.code == "forward"
    assert "from this machine: Connection refused" in str(forward.problem.message)
    assert forward.connections == 0


def test_connection_waits_until_the_cluster_is_reachable_again(
    opened: Open, carrier: Carrier
) -> None:
    with service(echo) as port:
        forward = opened(port)
        carrier.lost.set()
        with connected(forward) as sock:
            sock.sendall(b"hello")
            with carrier.tried:
                assert carrier.tried.wait_for(lambda: carrier.tries > 1, 20)
            assert forward.problem is not None
            assert forward.problem.code == "connection-lost"
            carrier.lost.clear()
            assert sock.recv(5) == b"hello"
        wait_until(lambda: forward.problem is None)


def test_connection_fails_at_once_when_a_login_is_needed(nothing_left: None) -> None:
    def connect(sock: socket.socket, answered: Answered) -> None:
        answered(LoginNeededError("A code is needed."))

    forward = Forward(connect, patience_s=3600)
    assert is_reset(forward)
    assert forward.problem is not None
    assert forward.problem.code == "login-needed"
    forward.close()


def test_slow_connection_does_not_delay_other_connections(nothing_left: None) -> None:
    slow: SimpleQueue[Answered] = SimpleQueue()
    standing: list[socket.socket] = []

    def connect(sock: socket.socket, answered: Answered) -> None:
        if standing:
            sock.sendall(b"here")
            answered(None)
        else:
            slow.put(answered)
        standing.append(sock)

    forward = Forward(connect)
    with connected(forward) as first:
        answered = slow.get(timeout=20)
        with connected(forward) as second:
            assert second.recv(4) == b"here"
        answered(ForwardError("Too late."))
        assert was_reset(first)
    forward.close()
    standing[1].close()


def test_closing_ends_connections_and_frees_the_port(opened: Open) -> None:
    with service(echo) as port:
        forward = opened(port)
        with connected(forward) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
            wait_until(lambda: forward.connections == 1)
            forward.close()
            assert not sock.recv(1)
        socket.create_server(("127.0.0.1", forward.local_port)).close()
