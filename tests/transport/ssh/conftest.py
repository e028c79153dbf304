"""Connections that leave no threads behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.route import Hop
from tests.ssh.waiting import wait_until

Connect = Callable[..., SshConnection]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return a function that opens connections. Check that they leave no threads behind."""
    before = set(threading.enumerate())
    made: list[SshConnection] = []

    def make(*hops: Hop, **named: Any) -> SshConnection:
        made.append(SshConnection(hops, name="cluster", **named))
        return made[-1]

    yield make
    for one in made:
        one.close()
    # Without OpenSSH, the threads of sessions end on their own soon after the connection.
    wait_until(lambda: set(threading.enumerate()) <= before)


def say(connection: SshConnection, words: str = "there") -> str:
    with connection.session(f"echo {words}") as session:
        return session.stdout.makefile().read().strip()
