"""A remote program on a local terminal, by `ssh -S`."""

from __future__ import annotations

import secrets

import pexpect
import pytest

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.transport.ssh import connection as ssh_connection
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.route import Hop
from jupyter_slurm.transport.ssh.transport import SshTransport
from tests.on_terminal import end, spawned
from tests.ssh.plugin import MakeSshd
from tests.transport.ssh.test_transport import transport_to

WORD = 'it\'s a "word"\n$HOME !! \\ é'


def opened(transport: SshTransport, *argv: str) -> pexpect.spawn:
    folder = transport.home() / f"on terminal's {secrets.token_hex(4)}"
    return spawned(transport.on_terminal(folder, {}, argv))


def test_program_gets_the_terminal_and_its_folder_is_removed(
    make_sshd: MakeSshd,
) -> None:
    with transport_to(make_sshd()) as transport:
        before = transport.listing(transport.home())
        code = 'tty; stty size; printf "%s" "$1"; exit 7'
        terminal = opened(transport, "sh", "-c", code, "sh", WORD)
        terminal.expect(r"/dev/pts/\d+\r\n30 100\r\n")
        terminal.expect_exact(WORD.replace("\n", "\r\n"))
        assert end(terminal) == 7
        assert transport.listing(transport.home()) == before


def test_terminal_needs_ssh(make_sshd: MakeSshd, monkeypatch: pytest.MonkeyPatch) -> None:
    sshd = make_sshd()
    monkeypatch.setattr(ssh_connection, "has_openssh", lambda: False)
    monkeypatch.setenv("HOME", str(sshd.client.folder))
    connection = SshConnection([Hop(sshd.host, sshd.host, sshd.port, sshd.user)], name="far")
    transport = SshTransport(connection)
    with pytest.raises(ConfigError, match="`ssh`"):
        opened(transport, "true")
    transport.close()
    connection.close()
