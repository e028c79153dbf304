"""One connection, shared: opened once, kept, lost and brought back, at real sshds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_slurm.transport.connection import Connection
from jupyter_slurm.transport.ssh_config import Hop
from tests.ssh.plugin import MakeSshd
from tests.ssh.sshd import Sshd

Connect = Callable[..., Connection]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes connections, and sees to it that each leaves nothing behind."""
    before = set(threading.enumerate())
    made: list[Connection] = []

    def make(*hops: Hop, **named: Any) -> Connection:
        made.append(Connection(hops, name="cluster", **named))
        return made[-1]

    yield make
    for one in made:
        one.close()
    assert [t for t in threading.enumerate() if t not in before] == []


def say(connection: Connection, words: str = "there") -> str:
    with connection.session() as channel:
        channel.exec_command(f"echo {words}")
        return channel.makefile().read().decode().strip()


def test_a_command_runs_without_anybody_having_opened_it(sshd: Sshd, connect: Connect) -> None:
    connection = connect(sshd.hop())
    assert connection.state == "closed"
    assert say(connection) == "there"
    assert connection.state == "open"
    assert connection.generation == 1
    connection.close()
    assert connection.state == "closed"


def test_callers_at_the_same_time_share_one_login(make_sshd: MakeSshd, connect: Connect) -> None:
    sshd = make_sshd()
    connection = connect(sshd.hop())
    together = threading.Barrier(8)
    said: list[str] = []

    def one() -> None:
        together.wait()
        connection.open()
        said.append(say(connection))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["there"] * 8
    assert sshd.logins() == 1


def test_a_chain_of_hops(make_sshd: MakeSshd, connect: Connect) -> None:
    gateway, middle, login = make_sshd(), make_sshd(), make_sshd()
    connection = connect(gateway.hop(), middle.hop(), login.hop())
    assert say(connection) == "there"
    assert [one.logins() for one in (gateway, middle, login)] == [1, 1, 1]
