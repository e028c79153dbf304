"""A connection to the agent that becomes the stream of a kernel."""

from __future__ import annotations

import socket
import threading

import pytest

from jupyter_slurm.client import AgentClient
from jupyter_slurm.errors import AgentError, NotFoundError
from tests.agent.home import AgentHome
from tests.ssh.waiting import wait_until

JOB_ID = "abcdefgh"


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += sock.recv(size - len(data)) or pytest.fail("it has hung up")
    return data


def test_bytes_go_both_ways_beside_calls_and_to_nobody_else(agent_home: AgentHome) -> None:
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


def test_what_ends_at_one_end_ends_at_the_other(agent_home: AgentHome) -> None:
    client = agent_home.client()
    threads = client.status()
    with client.kernel(JOB_ID) as sock:
        sock.sendall(b"x")
        exactly(sock, 1)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
    assert client.status().pid == threads.pid


def test_a_kernel_that_is_not_there_is_an_error_and_the_connection_is_used_on(
    agent_home: AgentHome,
) -> None:
    client = agent_home.client()
    with pytest.raises(NotFoundError, match="no job nojob"):
        client.kernel("nojob")
    assert client.clusters()


def test_a_request_that_is_none_is_named(agent_home: AgentHome) -> None:
    client = agent_home.client()
    client.check()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(agent_home.socket))
        sock.sendall(b"POST /v1/kernel HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        assert b"missing required field `job_id`" in sock.recv(65536)


def test_an_agent_that_ends_ends_its_streams(agent_home: AgentHome) -> None:
    client = agent_home.client()
    with client.kernel(JOB_ID) as sock:
        sock.sendall(b"x")
        exactly(sock, 1)
        agent_home.kill()
        assert sock.recv(1) == b""


def test_an_agent_that_is_gone_is_started_for_it_or_missed(agent_home: AgentHome) -> None:
    client = agent_home.client()
    client.check()
    agent_home.kill()
    with client.kernel(JOB_ID) as sock:
        sock.sendall(b"x")
        assert exactly(sock, 1) == b"x"
    agent_home.kill()
    wait_until(lambda: agent_home.agent_pid() is None)
    with pytest.raises(AgentError, match="No agent is running"):
        AgentClient(agent_home.socket, None).kernel(JOB_ID)
