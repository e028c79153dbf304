"""The agent's HTTP interface, and the table of calls generated from Api."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from jupyter_slurm.agent.protocol import LONGEST_WAIT_S, calls
from jupyter_slurm.api import Api
from jupyter_slurm.wire import CellSpec, Problem
from tests.agent.home import AgentHome
from tests.specs import known
from tests.ssh.waiting import wait_until

Http = http.client.HTTPConnection


@pytest.fixture
def web(agent_home: AgentHome) -> Iterator[Http]:
    agent_home.client().check()
    web = Http("agent")
    web.sock = socket.socket(socket.AF_UNIX)
    web.sock.connect(str(agent_home.socket))
    yield web
    web.close()


def ask(web: Http, verb: str, path: str, body: str = "") -> tuple[int, Any]:
    web.request(verb, path, body)
    response = web.getresponse()
    return response.status, json.loads(response.read())


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "words"),
    [
        ("/v1/wake_waiters", "{}", 404, "agent", "'wake_waiters'"),
        ("/v1/job", '{"job_id": 7}', 400, "request", "job_id"),
        ("/v1/job", '{"job_id": "none"}', 404, "not-found", "none"),
        ("/v1/job", '{"job_id": "a bug"}', 500, "internal", "ZeroDivisionError"),
    ],
)
def test_invalid_request_is_answered_with_a_problem(
    web: Http, path: str, body: str, status: int, code: str, words: str
) -> None:
    got, problem = ask(web, "POST", path, body)
    assert (got, problem["code"]) == (status, code)
    assert words in str(msgspec.convert(problem, Problem).message)


def test_service_detects_a_client_disconnect_during_login(web: Http, agent_home: AgentHome) -> None:
    api = agent_home.client()
    assert ask(web, "POST", "/v1/connect", json.dumps({"caller": "a terminal"}))[0] == 200
    assert len(api.connections()) == 1
    web.close()
    wait_until(lambda: [one.cluster for one in api.connections()] == ["here", "a terminal"])
    assert "ERROR" not in agent_home.log.read_text()


def test_two_hundred_long_polls_do_not_block_other_calls(agent_home: AgentHome) -> None:
    api = agent_home.client()
    cursor = api.changes().cursor
    polls = [Http("agent") for _ in range(200)]
    for poll in polls:
        poll.sock = socket.socket(socket.AF_UNIX)
        poll.sock.connect(str(agent_home.socket))
        poll.request("POST", "/v1/changes", json.dumps({"cursor": cursor, "wait_s": 60}))
    wait_until(lambda: api.status().clients == 201)
    job = api.submit(CellSpec(id="abcdefgh", name="cell", code=""))
    answers = [json.loads(poll.getresponse().read()) for poll in polls]
    assert {answer["jobs"][0]["revision"] for answer in answers} == {job.revision}
    for poll in polls:
        poll.close()


# --- the table ---
def test_every_api_method_is_a_remote_call() -> None:
    assert set(calls()) == {name for name in vars(Api) if not name.startswith("_")}


def test_arguments_round_trip() -> None:
    spec = CellSpec(
        id="abcdefgh",
        name="cell",
        code="print('é\n$HOME \\')",
        options={"comment": 'a "b" c'},
        inputs_python=(3, 11),
        mounts=("/a b:/c:ro",),
    )
    call = calls()["submit"]
    assert call.unpack(call.pack({"spec": spec})) == {"spec": spec}


def test_fields_of_a_newer_agent_are_ignored() -> None:
    newer = msgspec.json.encode(msgspec.to_builtins(known()) | {"mood": "good"})
    assert calls()["job"].unpack_answer(200, newer).created_s == 1.0


def test_calls_wait_at_most_a_minute() -> None:
    """A waiting call holds its thread until the end of the wait, even if its client disconnects."""
    assert calls()["changes"].unpack(b'{"wait_s": 1e300}')["wait_s"] == LONGEST_WAIT_S
    assert calls()["changes"].unpack(b'{"wait_s": 2}')["wait_s"] == 2.0
