"""Hostile bodies and messages to the Jupyter server and to the agent."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from jupyter_slurm.agent.protocol import KERNEL, MAX_BODY_BYTES, calls
from jupyter_slurm.server.calls import RULES
from tests.agent.home import AgentHome
from tests.server.served import API, Served

_DEEP = b"[" * 200_000
BODIES = {
    "nested": b'{"job_id":' + _DEEP,
    "no UTF-8": b'{"job_id":"\xff"}',
    "another kind": b"[7]",
    "no JSON": b"\0" * 4096,
}
OWN = "spec outlook notebook executed up".split()
OWN += "kernels kernel_meant kernel_add kernel_remove terminal".split()
OWN += "cluster_ways cluster_begin cluster_found cluster_keep cluster_drop".split()


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_server_rejects_invalid_bodies_as_request_errors(served: Served, body: bytes) -> None:
    client = served.client()
    for name in (*RULES, *OWN):
        answer = client.ask("POST", API + name, body)
        assert (answer.status, answer.problem.code) == (400, "request"), (name, answer)
    log = (served.folder.parent / "server.log").read_text()
    assert "Traceback" not in log


def test_agent_rejects_invalid_bodies_as_request_errors(agent_home: AgentHome) -> None:
    agent_home.client().check()
    for body in BODIES.values():
        for name in (*calls(), KERNEL):
            status, answer = _agents_answer(agent_home, name, body)
            assert (status, json.loads(answer)["code"]) == (400, "request"), (name, answer)
    assert "Traceback" not in agent_home.log.read_text()


def _agents_answer(home: AgentHome, name: str, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("agent", timeout=60.0)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.connect(str(home.socket))
    try:
        connection.request("POST", f"/v1/{name}", body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _send_much(sock: socket.socket) -> None:
    """Send four times the limit, in chunks of a megabyte."""
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    for _ in range(4 * MAX_BODY_BYTES // len(chunk)):
        sock.sendall(chunk)


def test_agent_stops_reading_an_endless_body(agent_home: AgentHome) -> None:
    head = "Transfer-Encoding: chunked"
    client = agent_home.client()
    client.check()
    before_mib = client.status().memory_mib
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(60.0)
        sock.connect(str(agent_home.socket))
        sock.sendall(f"POST /v1/jobs HTTP/1.1\r\nHost: agent\r\n{head}\r\n\r\n".encode())
        with pytest.raises(ConnectionError):
            _send_much(sock)
    assert client.status().memory_mib < before_mib + 3 * MAX_BODY_BYTES / 2**20


def test_server_rejects_large_watch_arguments(served: Served) -> None:
    with served.client().watch() as page:
        page.say(watch=1, call="logs", args={"job_id": "a" * 1_000_000})
        assert "too long" in page.hear()["problem"]["message"]
        page.say(watch=1, call="changes", args={})
        assert page.value(1)["whole"]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_invalid_message_does_not_end_a_websocket(served: Served, body: bytes) -> None:
    with served.client().watch() as page:
        page.send(body[:10_000] if body.startswith(b"\0") else body)
        assert page.hear()["problem"]["code"] == "request"
        page.say(watch=1, call="changes", args={})
        assert page.value(1)["whole"]
