"""A login without an `ssh` program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jupyter_slurm.errors import HostKeyError, LoginNeededError
from jupyter_slurm.transport.ssh import connection as ssh_connection
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.route import Hop
from tests.ssh.odd_users import Person
from tests.ssh.plugin import MakeGateway, MakeSshd
from tests.ssh.sshd import Sshd
from tests.transport.ssh.conftest import say
from tests.transport.ssh.test_login import Answers

Connect = Callable[..., SshConnection]


@pytest.fixture(autouse=True)
def no_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connection, "has_openssh", lambda: False)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def hop(sshd: Sshd) -> Hop:
    return Hop(sshd.host, sshd.host, sshd.port, sshd.user)


def test_keys_and_codes_log_in_hop_by_hop(
    gateway: MakeGateway,
    person: Person,
    make_sshd: MakeSshd,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outer, login = gateway(), make_sshd()
    login.known_hosts.write_text(outer.known_hosts_lines() + login.known_hosts_lines())
    monkeypatch.setenv("HOME", str(login.client.folder))
    connection = connect(hop(outer), hop(login))
    with pytest.raises(LoginNeededError):
        connection.open()
    asked = Answers(person.password, person.wrong_code(), person.password, person.code())
    connection.open(asked)
    assert say(connection) == "there"
    assert asked.refused == [False, False, True, True]
    assert [link.needs_person for link in connection.links] == [True, False]


def test_unknown_host_key_needs_confirmation_and_a_changed_key_is_rejected(
    make_sshd: MakeSshd, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    sshd = make_sshd()
    known = sshd.known_hosts.read_text()
    sshd.known_hosts.write_text("")
    monkeypatch.setenv("HOME", str(sshd.client.folder))
    with pytest.raises(LoginNeededError):
        connect(hop(sshd)).open()
    with pytest.raises(HostKeyError):
        connect(hop(sshd)).open(Answers("no"))
    connection = connect(hop(sshd))
    connection.open(Answers("yes"))
    connection.close()
    assert sshd.known_hosts.read_text().split()[0] == known.split()[0]
    kind, other = sshd.known_hosts.read_text().split()[1], make_sshd()
    line = next(one for one in other.known_hosts_lines().splitlines() if f" {kind} " in one)
    sshd.known_hosts.write_text(line.replace(f":{other.port}", f":{sshd.port}") + "\n")
    with pytest.raises(HostKeyError) as caught:
        connect(hop(sshd)).open(Answers())
    assert str(caught.value.message).count("SHA256:") == 2
