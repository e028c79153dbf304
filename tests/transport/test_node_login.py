"""A login one hop beyond the cluster's own, at a real sshd."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.transport.connection import SshConnection
from jupyter_slurm.transport.connection.hops import OpenHop
from jupyter_slurm.transport.node_login import NodeLogin
from jupyter_slurm.transport.ssh_config import CONFIG_VARIABLE
from tests.ssh.plugin import MakeSshd
from tests.ssh.sshd import Sshd, free_port
from tests.ssh.waiting import wait_until
from tests.transport.carrier import echo, everything, sent, service

Beyond = Callable[..., NodeLogin]


@pytest.fixture
def beyond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beyond]:
    """`beyond(sshd, node)`: by way of a cluster at that sshd, which is the node's as well."""
    (tmp_path / "config").touch()
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))
    before = set(threading.enumerate())
    made: list[NodeLogin | SshConnection] = []

    def make(sshd: Sshd, node: str = "127.0.0.1") -> NodeLogin:
        connection = SshConnection([sshd.hop()], name="cluster")
        connection.open()

        def previous() -> OpenHop | None:
            return connection.links[-1] if connection.links else None

        login = NodeLogin(node, previous, sshd.port)
        made.extend((connection, login))
        return login

    yield make
    for one in reversed(made):
        one.close()
    assert set(threading.enumerate()) <= before


def connected(login: NodeLogin, port: int) -> socket.socket:
    ours, theirs = socket.socketpair()
    try:
        login.carry(theirs, "127.0.0.1", port)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    return ours


def test_key_that_opened_the_cluster_opens_its_node_once_for_all(
    make_sshd: MakeSshd, beyond: Beyond
) -> None:
    sshd = make_sshd()
    login = beyond(sshd)
    with service(echo) as port:
        for _ in range(3):
            with connected(login, port) as sock, sent(sock, b"hello"):
                assert everything(sock) == b"hello"
    wait_until(lambda: sshd.log().count("Accepted publickey") == 2)


def test_port_of_the_node_that_refuses_is_an_error_that_says_so(sshd: Sshd, beyond: Beyond) -> None:
    login, port = beyond(sshd), free_port()
    with pytest.raises(ForwardError, match=f"127.0.0.1:{port} cannot be reached from 127.0.0.1"):
        connected(login, port)


def test_node_that_nobody_has_vouched_for_is_not_entered_and_not_asked_again(
    make_sshd: MakeSshd, beyond: Beyond
) -> None:
    sshd = make_sshd()
    login = beyond(sshd, "localhost")
    for _ in range(3):
        with pytest.raises(ForwardError, match="no login on localhost without a question"):
            connected(login, 1)
    # One for the cluster, one for the node; sshd writes when it gets round to it.
    wait_until(lambda: sshd.log().count("Connection from") == 2)
    assert sshd.log().count("Accepted publickey") == 1


def test_login_that_is_lost_is_made_again(make_sshd: MakeSshd, beyond: Beyond) -> None:
    sshd = make_sshd()
    login = beyond(sshd)
    with service(echo) as port:
        connected(login, port).close()
        assert login._link is not None
        login._link.transport.close()
        with connected(login, port) as sock, sent(sock, b"hello"):
            assert everything(sock) == b"hello"
