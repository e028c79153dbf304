"""Commands and tunnels over a master of this machine's OpenSSH, connected to a real sshd."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from jupyter_slurm.transport.ask import no_prompt
from jupyter_slurm.transport.ssh.master import Master
from jupyter_slurm.transport.ssh.mux import Mux
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
    return Master.log_in("far", sshd.hop(), None, no_prompt, lambda link: None)


def run(mux: Mux, command: str, stdin: bytes = b"") -> tuple[int | None, bytes, bytes]:
    session = mux.session(command, PATIENCE_S)
    try:
        with ThreadPoolExecutor(2) as pool:
            out, err = (pool.submit(everything, one) for one in (session.stdout, session.stderr))
            with suppress(BrokenPipeError):  # the command has already ended
                session.stdin.sendall(stdin)
                session.stdin.shutdown(socket.SHUT_WR)
            return session.exit_status(PATIENCE_S), out.result(), err.result()
    finally:
        session.close()


def carried(mux: Mux, port: int) -> socket.socket:
    """Return our end of a socket that is forwarded to `port` on the host."""
    near, far = socket.socketpair()
    near.settimeout(PATIENCE_S)
    answer: Future[Exception | None] = Future()
    mux.connect(far, "127.0.0.1", port, PATIENCE_S, answer.set_result)
    problem = answer.result(PATIENCE_S)
    if problem is not None:
        near.close()
        far.close()
        raise problem
    return near


def echo_through(mux: Mux, port: int, mib: int) -> None:
    """Send a number of MiB. Assert that the same data returns, followed by EOF."""
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


# --- commands ---


def test_command_has_its_own_streams_and_status(master: Master) -> None:
    assert run(master.mux, "cat; echo err >&2; exit 7", b"in") == (7, b"in", b"err\n")
    status, _, _ = run(master.mux, "kill -9 $$")
    assert status != 0


def test_closing_a_session_ends_its_command(master: Master, sshd: Sshd) -> None:
    session = master.mux.session("exec cat", PATIENCE_S)
    assert not session.ended
    session.close()
    assert session.ended
    wait_until(lambda: not [one for one in sshd.processes() if one.name() == "cat"])


# --- tunnels ---


def test_tunnel_returns_bytes_unchanged(master: Master) -> None:
    with service(echo) as port:
        echo_through(master.mux, port, 4)
