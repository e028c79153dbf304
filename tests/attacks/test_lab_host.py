"""A hostile lab, or a hostile page, has a browser come to the lab's port by another name, under
which it has other servers' cookies; and somebody wants to keep the owner out.
"""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tornado.httputil import HTTPHeaders, HTTPInputError, parse_request_start_line

from jupyter_slurm.jobs.access.lab_host import NotThisLabError, is_meant
from jupyter_slurm.transport import forward
from tests.attacks.lab_here import (
    OTHER_PYTHON,
    FarServer,
    LabHere,
    answer_to,
    lab_here,
    one_request,
    page,
)
from tests.ssh.waiting import wait_until
from tests.transport.carrier import service
from tests.ui.conftest import chromium, new_page

SECRET = "username-localhost-8888=the-users-own"
FOREIGN = (
    "localhost:{port}",
    "127.0.0.1:{port}",
    "[::1]:{port}",
    "2130706433:{port}",
    "0.0.0.0:{port}",
    "evil.example:{port}",
    "lab-zzzzzzzz-00112233445566778899.localhost:{port}",
    "x.{name}:{port}",
    "{name}.:{port}",
    "{name}:1",
    "{name}",
    "{name}.evil.example:{port}",
    "{name}:{port}, evil.example",
    "evil.example#{name}:{port}",
    "",
)


@pytest.fixture
def far() -> FarServer:
    return FarServer()


@pytest.fixture
def here(far: FarServer, tmp_path: Path) -> Iterator[LabHere]:
    with lab_here(tmp_path / "store", far) as one:
        one.open()
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(options=["--host-resolver-rules=MAP evil.example 127.0.0.1"]) as started:
        yield started


def port_of(here: LabHere) -> int:
    return int(here.host.rpartition(":")[2])


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_lab_that_sends_the_browser_elsewhere_gets_no_cookie_of_the_users_own_jupyter(
    here: LabHere, far: FarServer, browser: Browser, name: str
) -> None:
    """Cookies do not know ports: those of `localhost:8888` go to every port of localhost."""

    def own_jupyter(sock: socket.socket) -> None:
        with sock.makefile("rb") as file:
            one_request(file)
        sock.sendall(page("mine", f"Set-Cookie: {SECRET}; HttpOnly; Path=/"))

    port = port_of(here)
    away = f"Location: http://{name}:{port}/stolen"
    # By navigation, and by what a page loads.
    far.answers = lambda request: (
        page("", away, status="302 Found")
        if request.startswith(b"GET /go")
        else page(f"<title>lab</title><img src='http://{name}:{port}/picture'>")
    )
    with service(own_jupyter) as own_port, new_page(browser) as tab:
        tab.goto(f"http://{name}:{own_port}/")
        assert tab.context.cookies(f"http://{name}:{port}/")
        with tab.expect_request("**/picture") as loaded:
            tab.goto(f"http://{here.host}/lab")
        loaded.value.response()
        tab.goto(f"http://{here.host}/go")
        assert tab.url == f"http://{name}:{port}/stolen"
        assert "Open the lab again" in tab.content()
    paths = {request.split(b" ")[1] for request in far.got}
    assert paths - {b"/favicon.ico"} == {b"/lab", b"/go"}
    assert far.cookies == b""


def test_a_name_that_was_made_to_lead_here_does_not_lead_into_the_lab(
    here: LabHere, far: FarServer, browser: Browser
) -> None:
    """DNS rebinding: the page is its own origin there, and reads what it is answered."""
    with new_page(browser) as tab:
        answer = tab.goto(f"http://evil.example:{port_of(here)}/api/contents")
        assert answer is not None
        assert answer.status == 421
    assert far.got == []


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_no_request_by_another_name_gets_to_the_lab(
    here: LabHere, far: FarServer, address: str
) -> None:
    port = port_of(here)
    name = here.host.partition(":")[0]
    for host in (one.format(port=port, name=name) for one in FOREIGN):
        request = f"GET /lab HTTP/1.1\r\nHost: {host}\r\nCookie: {SECRET}\r\n\r\n".encode()
        assert answer_to(port, request, address).startswith(b"HTTP/1.1 421 "), host
    assert far.got == []


@pytest.mark.parametrize(
    "words",
    [
        "GET /lab HTTP/1.1\r\n\r\n",
        "GET /lab HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n",
        "GET /lab HTTP/1.1\r\nHost: evil.example\r\nHost: {host}\r\n\r\n",
        "GET http://evil.example/lab HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET http://{host}/lab HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET /lab HTTP/1.0\r\nHost: {host}\r\n\r\n",
        "GET /lab HTTP/2.0\r\nHost: {host}\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
        "GET /lab HTTP/1.1\r\nHost : {host}\r\n\r\n",
        "GET /lab HTTP/1.1\r\n Host: {host}\r\n\r\n",
        "GET /lab HTTP/1.1\r\nX: y\r\n Host: {host}\r\nHost: {host}\r\n\r\n",
        "GET /lab HTTP/1.1\r\nX: y\nHost: evil.example\r\nHost: {host}\r\n\r\n",
        "GET /lab HTTP/1.1\r\nX: y\rHost: evil.example\r\nHost: {host}\r\n\r\n",
        "GET /lab HTTP/1.1\r\nHost: {host}\0\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "\r\nGET /lab HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
    ],
)
def test_what_can_be_read_in_two_ways_or_is_another_protocol_does_not_get_to_the_lab(
    here: LabHere, far: FarServer, words: str
) -> None:
    answer = answer_to(port_of(here), words.format(host=here.host).encode())
    assert answer[:13] in {b"", b"HTTP/1.1 421 "}
    assert far.got == []


def test_hostile_first_bytes_are_refused_and_nothing_else() -> None:
    host, rng = "lab-abcdefgh-00.localhost", random.Random(7)
    plain = f"GET /lab?x=1 HTTP/1.1\r\nHost: {host}:80\r\nCookie: a=b\r\n\r\n".encode()
    assert is_meant(host, plain, 80)
    lets_in = 0
    for _ in range(20_000):
        hostile = bytearray(plain)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(hostile))
            hostile[place : place + rng.randint(0, 3)] = rng.choice(
                (rng.randbytes(rng.randint(0, 3)), b"\r\n", b"\n", b":", b" ", b"Host: evil\r\n")
            )
        with suppress(NotThisLabError, HTTPInputError):
            if is_meant(host, bytes(hostile), 80):
                lets_in += 1
                # As the lab's server reads it.
                start, _, fields = (
                    hostile.partition(b"\r\n\r\n")[0].decode("latin-1").partition("\n")
                )
                assert parse_request_start_line(start.rstrip("\r")).path.startswith("/")
                assert HTTPHeaders.parse(fields)["Host"].lower() == f"{host}:80"
    assert lets_in


def test_by_its_name_all_bytes_get_to_the_lab_as_they_were_sent(
    here: LabHere, far: FarServer
) -> None:
    host = here.host.upper()  # names are the same in either case
    cookie = "theme=" + "x" * 20_000
    first = f"GET /lab HTTP/1.1\r\nhost:\t{host} \r\nCookie: {cookie}\r\n\r\n".encode()
    second = f"POST /api HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbody".encode()
    assert answer_to(port_of(here), first + second).count(b"HTTP/1.1 200 OK") == 2
    assert b"".join(far.got) == first + second


def test_who_is_slow_gets_in_all_the_same(here: LabHere, far: FarServer) -> None:
    request = f"GET /lab HTTP/1.1\r\nHost: {here.host}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port_of(here)), 30) as slow:
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(len(request)):
            slow.sendall(request[place : place + 1])
        assert slow.recv(15) == b"HTTP/1.1 200 OK"
    assert far.got == [request]


def test_who_says_too_much_before_the_end_of_a_head_is_sent_away(
    here: LabHere, far: FarServer
) -> None:
    endless = f"GET /lab HTTP/1.1\r\nHost: {here.host}\r\nX: ".encode() + b"x" * (1 << 17)
    assert answer_to(port_of(here), endless) == b""
    assert far.got == []


def test_who_says_nothing_is_sent_away_in_the_end(
    here: LabHere, far: FarServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "_AT_DOOR_S", 0.2)
    for words in (b"", b"GET /lab HTTP/1.1\r\nHos"):
        with socket.create_connection(("127.0.0.1", port_of(here)), 30) as silent:
            silent.sendall(words)
            with pytest.raises(ConnectionResetError):
                silent.recv(1)
    assert far.got == []


_CROWD = """
import socket, sys
crowd = []
for _ in range(900):
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30)
    sock.sendall(b"GET / HTTP/1.1" if len(crowd) % 2 else b"")
    crowd.append(sock)
print("there", flush=True)
sys.stdin.read()
"""


def test_somebody_who_opens_many_connections_keeps_the_owner_out_for_no_moment(
    here: LabHere, far: FarServer
) -> None:
    port = port_of(here)
    argv = [OTHER_PYTHON, "-c", _CROWD, str(port)]
    request = f"GET /lab HTTP/1.1\r\nHost: {here.host}\r\n\r\n".encode()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as crowd:
        assert crowd.stdout is not None
        assert crowd.stdout.readline() == b"there\n"
        assert answer_to(port, request).startswith(b"HTTP/1.1 200 OK")
        crowd.communicate()
    assert far.got == [request]


def test_a_visitor_by_another_name_is_told_nothing_of_the_lab(here: LabHere) -> None:
    port = port_of(here)
    name = here.host.partition(":")[0]
    for host in ("localhost", "[::1]", "evil.example"):
        browser = "Accept: text/html\r\nSec-Fetch-Mode: navigate\r\n"
        request = f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\n{browser}\r\n"
        answer = answer_to(port, request.encode())
        assert b"Open the lab again" in answer
        for word in (name, "abcdefgh", "site"):
            assert word.encode() not in answer


def test_a_connection_that_a_browser_opens_before_it_knows_what_for_is_there_when_it_does(
    here: LabHere, far: FarServer
) -> None:
    request = f"GET /lab HTTP/1.1\r\nHost: {here.host}\r\n\r\n".encode()
    with ExitStack() as stack:
        address = ("127.0.0.1", port_of(here))
        early = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(6)]
        assert answer_to(port_of(here), request).startswith(b"HTTP/1.1 200 OK")
        for one in early:
            one.sendall(request)
            assert one.recv(15) == b"HTTP/1.1 200 OK"
    wait_until(lambda: len(far.got) == 7)
