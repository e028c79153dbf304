"""Commands and tunnels over a master of this machine's OpenSSH, to a real sshd."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport.ask import nobody
from jupyter_slurm.transport.ssh.master import Master
from jupyter_slurm.transport.ssh.mux import Mux, RefusedError, Session
from tests.ssh.plugin import MakeSshd
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until
from tests.transport.carrier import echo, everything, service

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture
def master(sshd: Sshd) -> Iterator[Master]:
    one = logged_in(sshd)
    yield one
    one.close()


def logged_in(sshd: Sshd) -> Master:
    return Master.log_in("far", sshd.hop(), None, nobody, lambda link: None)


def run(mux: Mux, command: str, stdin: bytes = b"") -> tuple[int | None, bytes, bytes]:
    session = mux.session(command, PATIENCE_S)
    try:
        with ThreadPoolExecutor(2) as pool:
            out, err = (pool.submit(everything, one) for one in (session.stdout, session.stderr))
            with suppress(BrokenPipeError):  # it has ended already
                session.stdin.sendall(stdin)
                session.stdin.shutdown(socket.SHUT_WR)
            return session.exit_status(PATIENCE_S), out.result(), err.result()
    finally:
        session.close()


def carried(mux: Mux, port: int) -> socket.socket:
    """Our end of a socket that is carried to `port` there."""
    near, far = socket.socketpair()
    near.settimeout(PATIENCE_S)
    answer: Future[Exception | None] = Future()
    mux.carry(far, "127.0.0.1", port, PATIENCE_S, answer.set_result)
    problem = answer.result(PATIENCE_S)
    if problem is not None:
        near.close()
        far.close()
        raise problem
    return near


def echo_through(mux: Mux, port: int, mib: int) -> None:
    """Send so much, and assert that the same comes back and then ends."""
    block = os.urandom(1 << 20)
    sent, got = hashlib.sha256(), hashlib.sha256()
    with carried(mux, port) as near:

        def send() -> None:
            for number in range(mib):
                piece = block[number % 1000 :]
                sent.update(piece)
                near.sendall(piece)
            near.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        while data := near.recv(1 << 18):
            got.update(data)
        sender.join(PATIENCE_S)
    assert got.digest() == sent.digest()


def at_once(n: int, work: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(work, range(n)))


def descriptors(pid: int) -> int:
    return psutil.Process(pid).num_fds()


# --- commands ---


def test_status_streams_and_input_are_the_commands_own(master: Master) -> None:
    assert run(master.mux, "cat; echo err >&2; exit 7", b"in") == (7, b"in", b"err\n")
    status, _, _ = run(master.mux, "kill -9 $$")
    assert status != 0


def test_commands_from_many_threads_get_their_own_answers(master: Master) -> None:
    def one(number: int) -> None:
        assert run(master.mux, f"cat; echo {number}", b"x" * 9999)[1] == b"x" * 9999 + (
            f"{number}\n".encode()
        )

    for _ in range(5):
        at_once(4, one)


def test_a_session_that_is_closed_ends_its_command(master: Master, sshd: Sshd) -> None:
    session = master.mux.session("exec cat", PATIENCE_S)
    assert not session.ended
    session.close()
    assert session.ended
    wait_until(lambda: not [one for one in sshd.processes() if one.name() == "cat"])


def test_a_session_ends_with_its_command(master: Master) -> None:
    session = master.mux.session("true", PATIENCE_S)
    wait_until(lambda: session.ended)
    session.close()


def test_a_session_too_many_is_refused(make_sshd: MakeSshd) -> None:
    held: list[Session] = []
    link = logged_in(make_sshd("MaxSessions 1"))

    def is_held() -> bool:
        with suppress(RefusedError):  # the login has tried one, which may not have gone yet
            held.append(link.mux.session("cat", PATIENCE_S))
        return bool(held)

    with closing(link):
        wait_until(is_held)
        with pytest.raises(RefusedError):
            link.mux.session("cat", PATIENCE_S)
        held[0].close()


# --- tunnels ---


def test_what_goes_through_comes_back_as_it_was(master: Master) -> None:
    with service(echo) as port:
        echo_through(master.mux, port, 60)
        at_once(8, lambda _: echo_through(master.mux, port, 4))


def test_each_end_may_end_first(master: Master) -> None:
    def answers(sock: socket.socket) -> None:
        asked = everything(sock)
        sock.sendall(b"got " + asked)

    def says(sock: socket.socket) -> None:
        sock.sendall(b"all")
        sock.shutdown(socket.SHUT_WR)
        heard.append(everything(sock))

    heard: list[bytes] = []
    with service(answers) as port, carried(master.mux, port) as near:
        near.sendall(b"this")
        near.shutdown(socket.SHUT_WR)
        assert everything(near) == b"got this"
    with service(says) as port, carried(master.mux, port) as near:
        assert everything(near) == b"all"
        wait_until(lambda: heard == [b""])


def test_a_reader_that_does_not_read_holds_up_nobody_else(master: Master) -> None:
    def floods(sock: socket.socket) -> None:
        while True:
            sock.sendall(bytes(1 << 16))

    with service(floods) as port, carried(master.mux, port) as near, service(echo) as other:
        assert near.recv(1) == b"\0"
        echo_through(master.mux, other, 4)


def test_a_port_that_nobody_listens_on_is_refused_and_the_log_says_why(master: Master) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    before = master.log_bytes()
    with pytest.raises(RefusedError):
        carried(master.mux, port)
    assert "Connection refused" in master.log(before)


def test_many_short_ones_and_ones_that_are_cut_leave_nothing_open(master: Master) -> None:
    chance = random.Random(1)
    me, ssh = os.getpid(), master.mux.pid()
    assert ssh is not None
    with service(echo) as port:
        echo_through(master.mux, port, 1)
        before = descriptors(me), descriptors(ssh)

        def one(_: int) -> None:
            for _ in range(25):
                with carried(master.mux, port) as near:
                    near.sendall(b"x" * chance.randrange(1, 200_000))
                    if chance.random() < 0.5:
                        near.shutdown(socket.SHUT_WR)
                        everything(near)

        at_once(6, one)
        echo_through(master.mux, port, 1)
        wait_until(lambda: descriptors(me) <= before[0] and descriptors(ssh) <= before[1])


# --- the master ---


def test_a_process_that_is_killed_takes_its_own_commands_and_leaves_the_master(
    master: Master, sshd: Sshd
) -> None:
    path = master.mux._path
    script = (
        "import sys; from jupyter_slurm.transport.ssh.mux import Mux\n"
        f"mux = Mux({path!r}); sessions = [mux.session('exec cat', 20) for _ in range(3)]\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    mine = master.mux.session("exec cat", PATIENCE_S)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        other.send_signal(signal.SIGKILL)
    wait_until(lambda: len([one for one in sshd.processes() if one.name() == "cat"]) == 1)
    mine.stdin.sendall(b"still here")
    assert mine.stdout.recv(99) == b"still here"
    mine.close()
    assert run(master.mux, "echo well")[1] == b"well\n"


def test_other_clients_may_use_the_same_master(master: Master) -> None:
    argv = ["ssh", "-F", "/dev/null", "-S", master.mux._path, "any", "echo", "well"]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=PATIENCE_S)
    assert done.stdout == b"well\n"


def test_who_waits_is_told_when_the_master_ends(make_sshd: MakeSshd) -> None:
    sshd = make_sshd()
    master = logged_in(sshd)
    session = master.mux.session("exec cat", PATIENCE_S)
    with service(echo) as port, carried(master.mux, port) as near:
        sshd.kill_sessions()
        assert everything(session.stdout) == b""
        assert session.exit_status(PATIENCE_S) in (None, 255)
        assert everything(near) == b""
        assert master.wait(PATIENCE_S)
    with pytest.raises(ConnectionLostError):
        master.mux.session("true", PATIENCE_S)
    session.close()
    master.close()
