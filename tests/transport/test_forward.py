"""A port of this machine that leads elsewhere."""

from __future__ import annotations

import gc
import hashlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest

from jupyter_slurm.errors import ForwardError, LoginNeededError
from jupyter_slurm.transport.connect_callbacks import Answered, wait_for
from jupyter_slurm.transport.forward import Forward
from jupyter_slurm.transport.ssh import transport as ssh_transport
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.transport import SshTransport
from tests.ssh.plugin import MakeSshd
from tests.ssh.sshd import Sshd, free_port
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
    """No thread and no open file more than before."""
    gc.collect()
    threads, files = set(threading.enumerate()), open_files()
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name
    wait_until(lambda: open_files() <= files)


@pytest.fixture
def opened(nothing_left: None, carrier: Carrier) -> Iterator[Open]:
    """`opened(port)`: a Forward to that port of this machine."""
    with ExitStack() as stack:

        def make(port: int, local_port: int = 0, patience_s: float = 20.0) -> Forward:
            def carry(sock: socket.socket, answered: Answered) -> None:
                carrier.carry(sock, "127.0.0.1", port, answered)

            forward = Forward(carry, local_port, patience_s=patience_s)
            stack.callback(forward.close)
            return forward

        yield make


def connected(forward: Forward) -> socket.socket:
    return socket.create_connection(("127.0.0.1", forward.local_port), 30)


def is_reset(forward: Forward) -> bool:
    """Whether a new connection is, at once or while it is being made."""
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


def test_bytes_get_there_and_back(opened: Open) -> None:
    with service(echo) as port, connected(opened(port)) as sock, sent(sock, MEGABYTE):
        assert everything(sock) == MEGABYTE


def test_it_listens_for_this_machine_alone(opened: Open) -> None:
    forward = opened(free_port())
    text = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    listening = [line.split()[1] for line in text.splitlines() if line.split()[3] == "0A"]
    ours = [place for place in listening if place.endswith(f":{forward.local_port:04X}")]
    there = ("0100007F", "00000000000000000000000001000000")
    assert ours == [f"{address}:{forward.local_port:04X}" for address in there]


def test_port_that_is_wanted_is_the_one_that_is_got(opened: Open) -> None:
    wanted = free_port()
    assert opened(free_port(), wanted).local_port == wanted


def test_port_that_is_taken_is_an_error_that_names_it(opened: Open) -> None:
    taken = opened(free_port()).local_port
    words = f"Port {taken} of this machine cannot be used at 127.0.0.1: Address"
    with pytest.raises(ForwardError, match=words):
        opened(free_port(), taken)


def test_one_direction_may_end_before_the_other(opened: Open) -> None:
    def answer_at_the_end(sock: socket.socket) -> None:
        sock.sendall(hashlib.sha256(everything(sock)).digest())

    with service(answer_at_the_end) as port, connected(opened(port)) as sock, sent(sock, MEGABYTE):
        assert everything(sock) == hashlib.sha256(MEGABYTE).digest()


def test_end_from_the_other_side_leaves_this_one_open(opened: Open) -> None:
    heard: SimpleQueue[bytes] = SimpleQueue()

    def first_say_goodbye(sock: socket.socket) -> None:
        sock.sendall(b"bye")
        sock.shutdown(socket.SHUT_WR)
        heard.put(everything(sock))

    with service(first_say_goodbye) as port, connected(opened(port)) as sock:
        assert everything(sock) == b"bye"
        sock.sendall(b"so long")
        sock.shutdown(socket.SHUT_WR)
        assert heard.get(timeout=30) == b"so long"


def test_target_that_refuses_breaks_the_connection_and_is_told(opened: Open) -> None:
    forward = opened(free_port())
    assert is_reset(forward)
    assert forward.problem is not None
    assert forward.problem.code == "forward"
    assert "cannot be reached from this machine: Connection refused" in str(forward.problem.message)
    assert forward.connections == 0


def test_problem_is_over_with_the_next_connection_that_stands(opened: Open) -> None:
    target = free_port()
    forward = opened(target)
    assert is_reset(forward)
    with socket.create_server(("127.0.0.1", target)) as server, connected(forward) as sock:
        there, _ = server.accept()
        with there:
            there.sendall(b"x")
            assert sock.recv(1) == b"x"
            wait_until(lambda: forward.problem is None)
            wait_until(lambda: forward.connections == 1)


def test_connection_waits_for_a_way_that_is_lost_and_then_stands(
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


def test_way_that_stays_lost_ends_the_wait_and_the_same_port_works_again_later(
    opened: Open, carrier: Carrier
) -> None:
    with service(echo) as port:
        forward = opened(port, patience_s=0.05)
        carrier.lost.set()
        assert is_reset(forward)
        assert forward.problem is not None
        assert forward.problem.message == "The connection to the cluster is lost."
        carrier.lost.clear()
        with connected(forward) as sock:
            sock.sendall(b"again")
            assert sock.recv(5) == b"again"


def test_nobody_waits_for_a_login_that_only_a_person_can_do(nothing_left: None) -> None:
    def carry(sock: socket.socket, answered: Answered) -> None:
        answered(LoginNeededError("A code is needed."))

    forward = Forward(carry, patience_s=3600)
    assert is_reset(forward)
    assert forward.problem is not None
    assert forward.problem.code == "login-needed"
    forward.close()


def test_failure_that_nobody_foresaw_is_told_and_the_port_goes_on(nothing_left: None) -> None:
    failures = [ValueError("odd"), ForwardError("Refused.")]

    def carry(sock: socket.socket, answered: Answered) -> None:
        raise failures.pop(0)

    forward = Forward(carry)
    assert is_reset(forward)
    assert forward.problem is not None
    assert str(forward.problem.message) == "The connection failed: odd."
    assert is_reset(forward)
    assert forward.problem.message == "Refused."
    forward.close()


def test_connection_that_is_slow_to_stand_holds_up_no_other(nothing_left: None) -> None:
    slow: SimpleQueue[Answered] = SimpleQueue()
    standing: list[socket.socket] = []

    def carry(sock: socket.socket, answered: Answered) -> None:
        if standing:
            sock.sendall(b"here")
            answered(None)
        else:
            slow.put(answered)
        standing.append(sock)

    forward = Forward(carry)
    with connected(forward) as first:
        answered = slow.get(timeout=20)
        with connected(forward) as second:
            assert second.recv(4) == b"here"
        answered(ForwardError("Too late."))
        assert was_reset(first)
    forward.close()
    standing[1].close()


def test_hundred_connections_at_once(opened: Open) -> None:
    results: list[bool] = []

    def talk(forward: Forward, number: int) -> None:
        data = random.Random(number).randbytes(65_536)
        with connected(forward) as sock, sent(sock, data):
            results.append(everything(sock) == data)

    with service(echo) as port:
        forward = opened(port)
        threads = [threading.Thread(target=talk, args=(forward, n)) for n in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 100


def test_closing_it_ends_its_connections_and_frees_the_port(opened: Open) -> None:
    with service(echo) as port:
        forward = opened(port)
        with connected(forward) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
            wait_until(lambda: forward.connections == 1)
            forward.close()
            assert not sock.recv(1)
        socket.create_server(("127.0.0.1", forward.local_port)).close()


def test_closing_it_sends_away_who_waits_for_the_way_to_come_back(
    opened: Open, carrier: Carrier
) -> None:
    forward = opened(free_port(), patience_s=3600)
    carrier.lost.set()
    with connected(forward) as sock:
        with carrier.tried:
            assert carrier.tried.wait_for(lambda: carrier.tries > 0, 20)
        forward.close()
        assert was_reset(sock)


def test_closing_it_while_somebody_knocks_is_no_error(
    nothing_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The knock wakes its thread, which may end before `close` wakes it."""
    forward = Forward(lambda sock, answered: None)
    wake = forward._wake
    with socket.socket() as knocking:
        knocking.setblocking(False)

        def wakes_late() -> None:
            # the port may close on this before it stands: no matter, it has knocked
            knocking.connect_ex(("127.0.0.1", forward.local_port))
            forward._acceptor.join()
            wake()

        monkeypatch.setattr(forward, "_wake", wakes_late)
        forward.close()


def test_connections_that_have_ended_are_not_counted(opened: Open) -> None:
    with service(echo) as port:
        forward = opened(port)
        with connected(forward) as sock, sent(sock, b"x"):
            assert everything(sock) == b"x"
        wait_until(lambda: forward.connections == 0)


# --- over SSH ---------------------------------------------------------------------------------


@pytest.fixture
def far(make_sshd: MakeSshd, nothing_left: None) -> Iterator[tuple[Sshd, SshConnection]]:
    sshd = make_sshd()
    connection = SshConnection([sshd.hop()], name="cluster")
    yield sshd, connection
    connection.close()


def test_over_ssh_a_connection_waits_on_the_same_port_until_the_host_is_back(
    far: tuple[Sshd, SshConnection],
) -> None:
    sshd, connection = far
    transport = SshTransport(connection)
    with service(echo) as port:
        forward = Forward(
            lambda sock, answered: transport.carry(sock, "127.0.0.1", port, answered),
            patience_s=300.0,
        )
        with connected(forward) as sock:
            sock.sendall(b"before")
            assert sock.recv(6, socket.MSG_WAITALL) == b"before"
            sshd.stop()
            assert not left_open(sock)
        with connected(forward) as sock, sent(sock, MEGABYTE):
            sock.settimeout(120)
            wait_until(lambda: forward.problem is not None)
            sshd.start()
            assert everything(sock) == MEGABYTE
        wait_until(lambda: forward.problem is None)
        forward.close()
    transport.close()


def test_over_ssh_target_that_does_not_answer_is_told_and_the_connection_stands(
    far: tuple[Sshd, SshConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_transport, "_CARRY_S", 0.05)
    connection = far[1]
    transport = SshTransport(connection)
    near, given = socket.socketpair()
    with near, given, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        # Nobody accepts, and there is room for one: the next one's SYN is dropped.
        with socket.create_connection(("127.0.0.1", port)):
            with pytest.raises(ForwardError, match=f"127.0.0.1:{port} did not answer .* in time"):
                wait_for(partial(transport.carry, given, "127.0.0.1", port))
            assert connection.state == "open"
    transport.close()


def left_open(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) != b""
    except ConnectionResetError:
        return False
