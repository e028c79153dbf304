"""Logins to real sshds: every method that OpenSSH's server has, and every way to be refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paramiko

from jupyter_slurm.transport.ask import Ask, Prompt, nobody
from jupyter_slurm.transport.login import log_in
from tests.ssh.sshd import Sshd


@contextmanager
def reached(sshd: Sshd) -> Iterator[paramiko.Transport]:
    """Keys are exchanged, nobody is logged in."""
    transport = paramiko.Transport(socket.create_connection((sshd.host, sshd.port), timeout=20))
    try:
        transport.start_client(timeout=20)
        yield transport
    finally:
        transport.close()
        transport.join(20)


def logged_in(sshd: Sshd, ask: Ask = nobody, **changes: Any) -> bool:
    with reached(sshd) as transport:
        asked = log_in(transport, sshd.hop(**changes), ask)
        assert transport.is_authenticated()
        channel = transport.open_session()
        channel.exec_command("echo in")
        assert channel.makefile().read() == b"in\n"
        return asked


def test_a_key_logs_in_without_a_question(sshd: Sshd) -> None:
    assert logged_in(sshd) is False
