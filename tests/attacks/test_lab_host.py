"""Requests to a lab's port under another host name or with other servers' cookies, caused by a
hostile lab or page; and attempts to lock out the owner.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error

from tests.attacks.lab_here import (
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
    "evil.example:{port}",
    "lab-zzzzzzzz-00112233445566778899.localhost:{port}",
    "{name}:1",
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


def test_redirecting_lab_does_not_get_cookies_of_the_users_jupyter(
    here: LabHere, far: FarServer, browser: Browser
) -> None:
    """Cookies ignore ports: a browser sends those of `localhost:8888` to every port of
    localhost."""
    name = "localhost"

    def own_jupyter(sock: socket.socket) -> None:
        with sock.makefile("rb") as file:
            one_request(file)
        sock.sendall(page("mine", f"Set-Cookie: {SECRET}; HttpOnly; Path=/"))

    port = port_of(here)
    away = f"Location: http://{name}:{port}/stolen"
    # For /go, the lab redirects the browser to localhost. Its other pages have a picture on
    # localhost.
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
        with pytest.raises(Error, match=r"ERR_CONNECTION|ERR_EMPTY"):
            tab.goto(f"http://{here.host}/go")
    paths = {request.split(b" ")[1] for request in far.got}
    assert paths - {b"/favicon.ico"} == {b"/lab", b"/go"}
    assert far.cookies == b""


def test_dns_rebinding_does_not_reach_the_lab(
    here: LabHere, far: FarServer, browser: Browser
) -> None:
    """With DNS rebinding, the page shares the lab's origin and can read its answers."""
    with new_page(browser) as tab, pytest.raises(Error):
        tab.goto(f"http://evil.example:{port_of(here)}/api/contents")
    assert far.got == []


def test_request_with_another_host_header_does_not_reach_the_lab(
    here: LabHere, far: FarServer
) -> None:
    port = port_of(here)
    name = here.host.partition(":")[0]
    for host in (one.format(port=port, name=name) for one in FOREIGN):
        request = f"GET /lab HTTP/1.1\r\nHost: {host}\r\nCookie: {SECRET}\r\n\r\n".encode()
        assert answer_to(port, request) == b"", host
    assert far.got == []


@pytest.mark.parametrize(
    "words",
    [
        "GET /lab HTTP/1.1\r\n\r\n",
        "GET /lab HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n",
        "GET http://evil.example/lab HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET http://{host}/lab HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
        "GET /lab HTTP/1.1\r\n Host: {host}\r\n\r\n",
        "GET /lab HTTP/1.1\r\nX: y\nHost: evil.example\r\nHost: {host}\r\n\r\n",
        "GET /lab HTTP/1.1\r\nHost: {host}\0\r\n\r\n",
    ],
)
def test_ambiguous_request_does_not_reach_the_lab(
    here: LabHere, far: FarServer, words: str
) -> None:
    assert answer_to(port_of(here), words.format(host=here.host).encode()) == b""
    assert far.got == []


def test_request_with_the_labs_host_header_arrives_unchanged(here: LabHere, far: FarServer) -> None:
    host = here.host.upper()  # host names ignore case
    cookie = "theme=" + "x" * 20_000
    first = f"GET /lab HTTP/1.1\r\nhost:\t{host} \r\nCookie: {cookie}\r\n\r\n".encode()
    second = f"POST /api HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbody".encode()
    assert answer_to(port_of(here), first + second).count(b"HTTP/1.1 200 OK") == 2
    assert b"".join(far.got) == first + second


def test_idle_browser_connections_stay_usable(here: LabHere, far: FarServer) -> None:
    request = f"GET /lab HTTP/1.1\r\nHost: {here.host}\r\n\r\n".encode()
    with ExitStack() as stack:
        address = ("127.0.0.1", port_of(here))
        early = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(6)]
        assert answer_to(port_of(here), request).startswith(b"HTTP/1.1 200 OK")
        for one in early:
            one.sendall(request)
            assert one.recv(15) == b"HTTP/1.1 200 OK"
    wait_until(lambda: len(far.got) == 7)
