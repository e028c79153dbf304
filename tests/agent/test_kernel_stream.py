"""Connections to the agent that become streams of kernels."""

from __future__ import annotations

import socket
import threading

import pytest

from jupyter_slurm.errors import NotFoundError
from tests.agent.home import AgentHome

JOB_ID = "abcdefgh"


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += sock.recv(size - len(data)) or pytest.fail("the agent closed the connection")
    return data


def test_bytes_of_kernel_streams_and_calls_do_not_mix(agent_home: AgentHome) -> None:
    client = agent_home.client()
    with client.kernel(JOB_ID) as one, client.kernel(JOB_ID) as other:
        one.sendall(b"first")
        other.sendall(b"second")
        assert exactly(one, 5) == b"first"
        assert exactly(other, 6) == b"second"
        assert client.clusters()
        many = bytes(range(256)) * 20_000
        thread = threading.Thread(target=one.sendall, args=[many])
        thread.start()
        assert exactly(one, len(many)) == many
        thread.join()
    assert client.status().clients == 1


def test_unknown_kernel_is_an_error_and_the_connection_stays_usable(
    agent_home: AgentHome,
) -> None:
    client = agent_home.client()
    with pytest.raises(NotFoundError, match="Job nojob not found"):
        client.kernel("nojob")
    assert client.clusters()
