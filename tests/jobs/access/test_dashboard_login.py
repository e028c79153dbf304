"""Who gets into a dashboard at its port here."""

from __future__ import annotations

import socket
import threading

import pytest

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.jobs.access.dashboard_login import (
    PATH,
    Guard,
    LoginRequestError,
    NotLoggedInError,
)
from jupyter_slurm.jobs.access.lab_host import NotThisLabError

HOST, PORT = "ray-abcdefgh-00.localhost", 4000
SECRET = "5" * 64
GUARD = Guard(HOST, SECRET, "ray-token")


def request(first: str = "GET / HTTP/1.1", host: str = f"{HOST}:{PORT}", cookie: str = "") -> bytes:
    lines = [first, f"Host: {host}", *([f"Cookie: {cookie}"] if cookie else [])]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        (request(), NotLoggedInError),
        (request(cookie="a=1; jupyter-slurm=" + "6" * 64), NotLoggedInError),
        (request(cookie=f"other={SECRET}"), NotLoggedInError),
        (request(host=f"127.0.0.1:{PORT}", cookie=f"jupyter-slurm={SECRET}"), NotThisLabError),
        (request(f"POST {PATH} HTTP/1.1"), LoginRequestError),
        (request(f"POST {PATH} HTTP/1.1", host=f"localhost:{PORT}"), NotThisLabError),
    ],
)
def test_a_client_without_name_and_cookie_is_kept_out(
    asked: bytes, refused: type[ForwardError]
) -> None:
    with pytest.raises(refused):
        GUARD.admit(asked, PORT)


def test_a_browser_that_has_logged_in_gets_to_the_dashboard() -> None:
    asked = request(cookie=f"a=1; jupyter-slurm={SECRET}; b=2")
    assert not GUARD.admit(asked[:-2], PORT)
    assert GUARD.admit(asked, PORT)


@pytest.mark.parametrize(("token", "status"), [(SECRET, 303), ("wrong", 403), ("", 403)])
def test_only_the_secret_brings_the_cookies(token: str, status: int) -> None:
    ours, theirs = socket.socketpair()
    threading.Thread(target=GUARD.log_in, args=(theirs,)).start()
    body = f"token={token}&password={token}".encode()
    head = request(f"POST {PATH} HTTP/1.1")[:-2] + f"Content-Length: {len(body)}\r\n\r\n".encode()
    with ours:
        ours.sendall(head + body[:5])
        ours.sendall(body[5:])
        answer = b"".join(iter(lambda: ours.recv(4096), b"")).decode()
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert ("ray-authentication-token=ray-token; " in answer) == (status == 303)
    assert answer.count(SECRET) == (1 if status == 303 else 0)
