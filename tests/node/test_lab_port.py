"""The port of a lab's door: who gets in there, and what everybody else gets."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.jobs.access.lab_handshake import DoorGreeting
from jupyter_slurm.transport.connect_callbacks import wait_for
from jupyter_slurm.transport.local import LocalTransport
from tests.node.lab_doors import MEGABYTES, door, echoing, lab_port
from tests.ssh.waiting import wait_until
from tests.transport.carrier import everything, sent, service

KEY = secrets.token_hex(32).encode() + b"\n"
PATIENCE_S = 60.0
LOOPBACK = "127.0.0.1"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """That of a door before a server that gives back what it gets."""
    made = lab_port.Port(LOOPBACK, KEY.strip())
    with echoing(tmp_path / "server"), door(tmp_path / "server", made):
        yield made.where[1]


def carried(port: int, key: bytes = KEY, host: str = LOOPBACK) -> socket.socket:
    """Our end, as a lab's own way has it. ForwardError."""
    ours, given = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    try:
        greeting = DoorGreeting(key, host, port)
        wait_for(partial(LocalTransport().carry, given, LOOPBACK, port, greeting=greeting))
    except ForwardError:
        ours.close()
        given.close()
        raise
    return ours


def knocking(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), PATIENCE_S)


def is_let_in(sock: socket.socket) -> bool:
    """Whether what it says comes back."""
    try:
        sock.sendall(b"GET /")
        sock.shutdown(socket.SHUT_WR)
        return everything(sock) == b"GET /"
    except OSError:
        return False


def answered(sock: socket.socket, greeting: DoorGreeting) -> bytes:
    """What the door says to the first word."""
    sock.sendall(greeting.first)
    return sock.recv(greeting.answer_bytes, socket.MSG_WAITALL)


def test_who_knows_the_key_is_let_in_and_what_is_said_comes_whole(port: int) -> None:
    for data in (b"hello", MEGABYTES):
        with carried(port) as sock, sent(sock, data):
            assert everything(sock) == data


def test_who_does_not_know_the_key_is_not(port: int) -> None:
    with pytest.raises(ForwardError, match="is not the lab"):
        carried(port, b"another key")
    greeting = DoorGreeting(b"another key", LOOPBACK, port)
    with knocking(port) as sock:
        assert len(answered(sock, greeting)) == greeting.answer_bytes
        sock.sendall(secrets.token_bytes(32))
        assert not is_let_in(sock)


def test_who_says_at_once_what_it_came_for_gets_nothing_of_it(port: int) -> None:
    with knocking(port) as sock:
        said = b""
        with suppress(OSError):  # it has hung up on what it leaves unread
            sock.sendall(b"GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n" * 9)
            said = sock.recv(64, socket.MSG_WAITALL)
            said += everything(sock)
        assert b"GET" not in said
        assert len(said) <= 64


def test_what_another_has_said_to_be_let_in_lets_nobody_in_again(port: int) -> None:
    greeting = DoorGreeting(KEY, LOOPBACK, port)
    with knocking(port) as sock:
        proof = greeting.last(answered(sock, greeting))
        sock.sendall(proof)
        assert is_let_in(sock)
    with knocking(port) as sock:
        answered(sock, greeting)
        sock.sendall(proof)
        assert not is_let_in(sock)


def test_a_door_that_is_asked_in_anothers_place_does_not_answer_for_it(port: int) -> None:
    """Who listens at a port where the lab was, and asks the lab where it is now."""
    with pytest.raises(ForwardError, match="is not the lab"):
        carried(port, host="10.0.0.3")


def test_who_says_nothing_and_who_says_half_is_sent_away(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hurried:
        hurried.setattr(lab_port, "KNOCK_S", 0.2)
        for said in (b"", b"x", b"x" * lab_port.RANDOM_BYTES):
            # Not all that was sent may have been read.
            with knocking(port) as sock, suppress(ConnectionError):
                sock.sendall(said)
                everything(sock)  # has an end, which nobody here has asked for
    with carried(port) as sock:
        assert is_let_in(sock)


def test_many_who_say_nothing_keep_nobody_out(port: int) -> None:
    crowd = [knocking(port) for _ in range(lab_port.MOST_KNOCKS + 20)]
    try:
        with carried(port) as sock:
            assert is_let_in(sock)
        assert crowd[0].recv(1) == b""  # longest there, and gone before its time
    finally:
        for one in crowd:
            one.close()


def test_who_has_taken_the_port_gets_random_bytes_and_no_more() -> None:
    got: list[bytes] = []

    def take(says: bytes, sock: socket.socket) -> None:
        got.append(sock.recv(32, socket.MSG_WAITALL))
        sock.sendall(says or got[-1] * 2)
        got.append(everything(sock))

    for says in (secrets.token_bytes(64), b"", (b"HTTP/1.1 200 OK\r\n\r\n" * 4)[:64]):
        got.clear()
        with service(partial(take, says)) as port:
            with pytest.raises(ForwardError, match="is not the lab"):
                carried(port)
            wait_until(lambda: len(got) == 2)
        assert [len(one) for one in got] == [32, 0]


def test_a_door_is_at_the_address_by_which_those_get_there_who_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_SUBMIT_HOST", "no-such-host.invalid")
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    assert lab_port.opened(b"key") is None
    monkeypatch.setenv("SLURM_SUBMIT_HOST", LOOPBACK)
    made = lab_port.opened(b"key")
    assert made is not None
    with made.listener:
        assert made.where == list(made.listener.getsockname())
        assert made.where[0] == LOOPBACK
