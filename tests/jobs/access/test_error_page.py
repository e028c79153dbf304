"""What somebody is told at the port of a lab that cannot be reached."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from jupyter_slurm.errors import ForwardError, LoginNeededError
from jupyter_slurm.jobs.access import error_page
from jupyter_slurm.jobs.access.error_page import Reason
from jupyter_slurm.jobs.access.labs import why_not
from jupyter_slurm.transport.connect_callbacks import Answered
from jupyter_slurm.transport.forward import Forward
from jupyter_slurm.wire import JobKind, JobState
from tests.specs import known
from tests.ssh.waiting import wait_until

REASON = Reason("lab <1> on site", ("The line & more.", "Log in."), again=True)
BROWSER = "Accept: text/html,application/xhtml+xml\r\nSec-Fetch-Mode: navigate\r\n"
Ask = Callable[..., tuple[str, str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """`ask(text)`: head and body of what somebody gets for these words."""
    monkeypatch.setattr(error_page, "_HEAD_S", 60.0)
    with ExitStack() as stack:

        def make(words: str, reason: Reason = REASON) -> tuple[str, str]:
            near, far = socket.socketpair()
            stack.enter_context(near)
            near.sendall(words.encode())  # before, as it has little time for it
            telling = threading.Thread(target=error_page.answer, args=[far, reason])
            telling.start()
            got = b""
            with suppress(ConnectionResetError):  # not all that was sent was read
                while data := near.recv(1 << 16):
                    got += data
            near.close()
            telling.join()
            assert far.fileno() == -1
            head, _, body = got.decode().partition("\r\n\r\n")
            return head, body

        yield make


def request(extra: str = "", first: str = "GET /lab/tree/a HTTP/1.1", host: str = "") -> str:
    return f"{first}\r\nHost: {host or 'lab-abcdefgh.localhost:8000'}\r\n{extra}\r\n"


def test_who_navigates_there_gets_a_page_that_says_why_and_looks_again(ask: Ask) -> None:
    head, body = ask(request(BROWSER))
    assert head.startswith("HTTP/1.1 503 ")
    assert "Cache-Control: no-store" in head
    assert "Retry-After: 5" in head
    assert f"Content-Length: {len(body)}" in head
    assert "<h1>lab &lt;1&gt; on site</h1>" in body
    assert "<p>The line &amp; more.</p>\n<p>Log in.</p>" in body
    assert 'http-equiv="refresh"' in body


@pytest.mark.parametrize(
    "words",
    [
        request("Accept: */*\r\n"),
        request("Accept: text/html\r\nSec-Fetch-Mode: cors\r\n"),
        request("Accept: text/html\r\nUpgrade: websocket\r\n"),
        request("Content-Length: 3\r\n", "PUT /api/contents/a HTTP/1.1") + "abc",
    ],
)
def test_a_program_gets_no_page_but_the_sentences(ask: Ask, words: str) -> None:
    head, body = ask(words)
    assert head.startswith("HTTP/1.1 503 ")
    assert json.loads(body) == {"message": "The line & more. Log in.", "reason": None}


def test_what_would_do_something_is_not_done_again_by_the_page(ask: Ask) -> None:
    _, body = ask(request(BROWSER, "POST /login HTTP/1.1"))
    assert "<p>Log in.</p>" in body
    assert "refresh" not in body


def test_who_comes_by_a_name_of_another_machine_learns_nothing(ask: Ask) -> None:
    for host in ("evil.example:8000", "localhost.evil.example", "xlocalhost:1"):
        head, body = ask(request(BROWSER, host=host))
        assert (head[:12], body) == ("HTTP/1.1 503", "")


@pytest.mark.parametrize(
    "words",
    [
        "SSH-2.0-x\r\n\r\n",
        "GET /lab HTTP/1.1\r\nHost: localhost\r\n",  # and then nothing more
        "GET / HTTP/1.1\r\n" + "".join(f"X-{i}: x\r\n" for i in range(500)) + "\r\n",
        "GET / HTTP/1.1\r\nX: " + "x" * (1 << 16),
    ],
)
def test_who_speaks_otherwise_or_not_to_the_end_gets_nothing(
    ask: Ask, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_page, "_HEAD_S", 0.5)
    assert ask(words) == ("", "")


def test_a_port_tells_those_whom_it_cannot_connect_and_lets_them_go_when_it_closes() -> None:
    def carry(sock: socket.socket, answered: Answered) -> None:
        answered(LoginNeededError("Log in."))

    def tell(sock: socket.socket, error: Exception) -> None:
        error_page.answer(sock, Reason("a lab", (str(error),), again=True))

    forward = Forward(carry, tell=tell)
    asked = socket.create_connection(("127.0.0.1", forward.local_port), 30)
    asked.sendall(request(BROWSER).encode())
    assert b"<p>Log in.</p>" in asked.makefile("rb").read()
    silent = socket.create_connection(("127.0.0.1", forward.local_port), 30)
    wait_until(lambda: any(one.name == "told" for one in threading.enumerate()))
    forward.close()
    with suppress(ConnectionResetError):
        assert silent.recv(1) == b""
    asked.close()
    silent.close()
    wait_until(lambda: not any(one.name == "told" for one in threading.enumerate()))


def test_a_lab_that_has_ended_is_not_said_to_go_on() -> None:
    error = ForwardError("Job x has ended: it is FINISHING.")
    lab = known(id="x", kind=JobKind.LAB, state=JobState.TIMEOUT)
    why = why_not(lab, error)
    assert why.sentences == ("The lab has ended: it is TIMEOUT.",)
    assert not why.again
