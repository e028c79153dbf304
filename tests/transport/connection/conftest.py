"""Connections that leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_slurm.transport.connection import SshConnection
from jupyter_slurm.transport.ssh_config import Hop

Connect = Callable[..., SshConnection]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes connections, and sees to it that each leaves nothing behind."""
    before = set(threading.enumerate())
    made: list[SshConnection] = []

    def make(*hops: Hop, **named: Any) -> SshConnection:
        made.append(SshConnection(hops, name="cluster", **named))
        return made[-1]

    yield make
    for one in made:
        one.close()
    assert [t for t in threading.enumerate() if t not in before] == []


def say(connection: SshConnection, words: str = "there") -> str:
    with connection.session() as channel:
        channel.exec_command(f"echo {words}")
        return channel.makefile().read().decode().strip()
