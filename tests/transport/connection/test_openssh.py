"""OpenSSH's own masters, opened by the system's ssh, used in place of a login."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_slurm.transport.connection import SshConnection, openssh
from jupyter_slurm.transport.ssh import SshTransport
from jupyter_slurm.transport.ssh_config import Hop
from tests.ssh.kept import Keeper
from tests.ssh.plugin import Delayed, MakeSshd
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until
from tests.transport.connection.conftest import Connect, say

OpenMaster = Callable[..., Hop]


@pytest.fixture
def open_master(ssh_keeper: Keeper, tmp_path: Path) -> Iterator[OpenMaster]:
    """`ssh -M` to an sshd: its hop, with the path of the master's socket."""
    paths: list[tuple[Sshd, str]] = []

    def control(sshd: Sshd, path: str, word: str) -> int:
        argv = ["ssh", "-F", str(sshd.config), "-S", path, "-O", word, sshd.alias]
        return subprocess.run(argv, env=sshd.env, capture_output=True, check=False).returncode

    def make(sshd: Sshd, *options: str) -> Hop:
        path = str(tmp_path / f"master-{len(paths)}")
        argv = ["ssh", "-F", str(sshd.config), "-NM", "-S", path, *options, sshd.alias]
        ssh_keeper.start(argv, tmp_path / "master.log", sshd.env)
        paths.append((sshd, path))
        wait_until(lambda: control(sshd, path, "check") == 0)
        return sshd.hop(control_path=path)

    yield make
    for sshd, path in paths:
        control(sshd, path, "exit")


@pytest.fixture
def opened(connect: Connect) -> Connect:
    def make(*hops: Hop) -> SshConnection:
        connection = connect(*hops)
        connection.open()
        return connection

    return make


def test_an_open_master_saves_the_login(
    make_sshd: MakeSshd, open_master: OpenMaster, opened: Connect
) -> None:
    sshd = make_sshd()
    connection = opened(replace(open_master(sshd), identity_files=()))
    assert connection.via_openssh
    assert [say(connection, f"{i}") for i in range(20)] == [f"{i}" for i in range(20)]
    assert sshd.logins() == 1
    assert len(sshd.pids()) == 1


def test_the_cluster_behind_a_gateway_needs_no_gateway_where_it_has_a_master(
    make_sshd: MakeSshd, open_master: OpenMaster, opened: Connect
) -> None:
    gateway, login = make_sshd(), make_sshd()
    connection = opened(gateway.hop(), open_master(login))
    assert say(connection) == "there"
    assert (gateway.logins(), login.logins()) == (0, 1)


def test_a_gateways_master_carries_the_hops_behind_it(
    make_sshd: MakeSshd, open_master: OpenMaster, opened: Connect
) -> None:
    gateway, login = make_sshd(), make_sshd()
    connection = opened(open_master(gateway), login.hop())
    with connection.session() as channel:
        channel.exec_command("head -c 20000000 /dev/zero | tr '\\0' x")
        data = b"".join(iter(lambda: channel.recv(65536), b""))
    assert (len(data), data.count(b"x")) == (20_000_000, 20_000_000)
    assert (gateway.logins(), login.logins()) == (1, 1)
    assert connection.via_openssh
    assert connection.generation == 1


def test_when_the_master_ends_the_own_login_takes_over(
    make_sshd: MakeSshd, open_master: OpenMaster, opened: Connect
) -> None:
    sshd = make_sshd()
    hop = open_master(sshd)
    connection = opened(hop)
    assert hop.control_path is not None
    exit_it = ["ssh", "-F", str(sshd.config), "-S", hop.control_path, "-O", "exit", sshd.alias]
    subprocess.run(exit_it, env=sshd.env, capture_output=True, check=True)
    wait_until(lambda: not connection.via_openssh and connection.state == "open")
    assert say(connection) == "there"
    assert connection.generation == 2


def test_a_masters_login_is_not_ended_with_what_a_lost_connection_has_left(
    make_sshd: MakeSshd, open_master: OpenMaster, opened: Connect
) -> None:
    """It is another's; of ours over there the shells are."""
    sshd = make_sshd()
    connection = opened(open_master(sshd))
    [login] = sshd.pids()
    transport = SshTransport(connection)
    assert transport.run(["echo", "one"]).stdout == b"one\n"
    connection.close()
    assert [one.leads for one in connection.leftovers.lost()] == [True]
    connection.open()
    assert transport.run(["echo", "two"]).stdout == b"two\n"
    assert connection.via_openssh
    assert connection.leftovers.lost() == []
    assert sshd.pids() == [login]
    transport.close()


def test_ping_goes_to_the_host_and_back(make_sshd: MakeSshd, open_master: OpenMaster) -> None:
    sshd = make_sshd()
    transport = openssh.attach(open_master(sshd))
    assert transport is not None
    for _ in range(50):
        took_s = transport.ping(20.0)
        assert took_s is not None
    sshd.kill_sessions()
    transport.join(20)
    assert transport.ping(20.0) is None
    transport.close()


def test_a_frozen_line_is_noticed_though_the_master_lives(
    make_sshd: MakeSshd, open_master: OpenMaster, delayed: Delayed
) -> None:
    sshd = make_sshd()
    line = delayed(sshd.port, 0.0)
    transport = openssh.attach(
        open_master(sshd, "-p", str(line.port), "-o", f"HostKeyAlias=[127.0.0.1]:{sshd.port}")
    )
    assert transport is not None
    assert transport.ping(20.0) is not None
    line.freeze()
    assert transport.ping(0.2) is None
    assert transport.is_active()
    line.thaw()
    assert transport.ping(20.0) is not None
    transport.close()


def test_what_is_no_master_is_passed_over(tmp_path: Path, sshd: Sshd) -> None:
    assert openssh.attach(sshd.hop(control_path=None)) is None
    assert openssh.attach(sshd.hop(control_path=str(tmp_path / "missing"))) is None
    plain = tmp_path / "plain"
    plain.write_text("no socket")
    assert openssh.attach(sshd.hop(control_path=str(plain))) is None
    stale = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(stale))
    assert openssh.attach(sshd.hop(control_path=str(stale))) is None


def test_a_listener_that_is_no_master_is_passed_over(tmp_path: Path, sshd: Sshd) -> None:
    path = tmp_path / "other"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        for words in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b""):

            def answer(words: bytes = words) -> None:
                with listener.accept()[0] as sock:
                    sock.recv(100)
                    sock.sendall(words)

            thread = threading.Thread(target=answer)
            thread.start()
            assert openssh.attach(sshd.hop(control_path=str(path))) is None
            thread.join()
