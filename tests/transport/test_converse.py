"""A conversation with a program on this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import psutil
import pytest

from jupyter_slurm.errors import TransportError
from jupyter_slurm.transport import local_program
from jupyter_slurm.transport.local import LocalTransport
from tests.ssh.processes import name_of
from tests.transport.carrier import everything, sent


@pytest.fixture
def transport() -> Iterator[LocalTransport]:
    """Leaves no process and no thread."""
    threads = set(threading.enumerate())
    yield LocalTransport()
    for thread in set(threading.enumerate()) - threads:
        thread.join(20)
        assert not thread.is_alive(), thread.name
    names = {name_of(one) for one in psutil.Process().children()}
    assert not names & {"cat", "sleep"}


def test_what_is_said_is_its_input_and_what_is_heard_its_output(transport: LocalTransport) -> None:
    data = bytes(range(256)) * 10_000
    with transport.converse(["cat"]) as sock, sent(sock, data):
        assert everything(sock) == data


def test_program_that_ends_ends_the_conversation(transport: LocalTransport) -> None:
    with transport.converse(["sh", "-c", "echo 'a  b'; echo lost >&2"]) as sock:
        assert everything(sock) == b"a  b\n"


def test_program_that_does_not_end_with_its_input_is_ended(
    transport: LocalTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_program, "_END_S", 0.05)
    with transport.converse(["sh", "-c", "trap '' TERM; echo ready; sleep 600"]) as sock:
        assert sock.recv(6, socket.MSG_WAITALL) == b"ready\n"


def test_program_that_is_not_there_is_named(transport: LocalTransport) -> None:
    with pytest.raises(TransportError, match="no-such-program"):
        transport.converse(["no-such-program"])
