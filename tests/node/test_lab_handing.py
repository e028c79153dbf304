"""What the door of a lab hands to its server, what it copies, and who is handed nothing.

The server is tornado's, in what a ServerApp is to the extension (a fake); with JupyterLab itself it
is looked at in tests/jobs/access/test_labs.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler

from jupyter_slurm.jobs.access.lab_handshake import DoorGreeting
from jupyter_slurm.transport.connect_callbacks import wait_for
from jupyter_slurm.transport.local import LocalTransport
from tests.node.lab_doors import MEGABYTES, door, echoing, lab_handing, lab_port
from tests.ssh.waiting import wait_until
from tests.transport.carrier import everything, sent

KEY = b"0123456789abcdef"
LOOPBACK = "127.0.0.1"
SYSTEM_PYTHON = "/usr/bin/python3"


class Echo(RequestHandler):
    """Gives back what it gets, and tells by which socket."""

    def prepare(self) -> None:
        stream: Any = self.request.connection.stream  # type: ignore[union-attr]
        self.set_header("X-At", repr(stream.socket.getsockname()))
        self.set_header("X-Of", self.request.remote_ip or "")

    def get(self) -> None:
        self.finish(MEGABYTES)

    def put(self) -> None:
        self.finish(self.request.body)


@contextmanager
def serving(path: Path, **settings: Any) -> Iterator[None]:
    """A server at a socket of that path that has loaded the extension, as far as that goes."""
    began, loops = threading.Event(), list[IOLoop]()

    def serve() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        application = Application([(".*", Echo)], **settings)
        server, loop = HTTPServer(application), IOLoop.current()
        loops.append(loop)
        server.add_socket(bind_unix_socket(str(path)))
        app = SimpleNamespace(
            http_server=server,
            io_loop=loop,
            web_app=application,
            sock=str(path),
            log=logging.getLogger("serving"),
        )
        lab_handing._load_jupyter_server_extension(app)
        loop.add_callback(began.set)
        loop.start()
        server.stop()
        loop.run_sync(server.close_all_connections)
        loop.close(all_fds=True)

    thread = threading.Thread(target=serve)
    thread.start()
    assert began.wait(60)
    try:
        yield
    finally:
        loops[0].add_callback(loops[0].stop)
        thread.join()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "server"


@pytest.fixture
def giver(tmp_path: Path) -> lab_handing.Giver:
    made = lab_handing.giver(str(tmp_path))
    assert made is not None
    return made


def by_name(name: str) -> HTTPConnection:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(f"\0{name}")
    return speaking(sock)


def by_port(port: lab_port.Port) -> HTTPConnection:
    ours, given = socket.socketpair()
    host, number = port.where
    greeting = DoorGreeting(KEY, host, number)
    wait_for(partial(LocalTransport().carry, given, host, number, greeting=greeting))
    return speaking(ours)


def speaking(sock: socket.socket) -> HTTPConnection:
    sock.settimeout(60)
    connection = HTTPConnection("localhost")
    connection.sock = sock
    return connection


def asked(connection: HTTPConnection, method: str, body: bytes | None = None) -> HTTPResponse:
    connection.request(method, "/", body)
    return connection.getresponse()


def takes(giver: lab_handing.Giver, whether: bool = True) -> bool:
    return (giver.taker is not None) == whether


def test_what_is_handed_and_what_is_copied_comes_whole_both_ways(
    target: Path, giver: lab_handing.Giver
) -> None:
    port = lab_port.Port(LOOPBACK, KEY)
    with door(target, port, giver) as (name, _):
        for settings, hands in (({"log_function": str}, True), ({}, False)):
            with serving(target, **settings):
                wait_until(partial(takes, giver, hands))
                for come, own in (
                    (partial(by_name, name), repr(b"\0" + name.encode())),
                    (partial(by_port, port), repr(tuple(port.where))),
                ):
                    connection = come()
                    for method, body in (("GET", None), ("PUT", MEGABYTES), ("PUT", b"x")):
                        answer = asked(connection, method, body)
                        assert answer.read() == (body or MEGABYTES)
                        assert answer.headers["X-At"] == (own if hands else repr(str(target)))
                        assert answer.headers["X-Of"] == "0.0.0.0"
                    connection.close()
            target.unlink()


def test_who_changes_something_is_noticed_where_the_door_does_not_see_it(
    target: Path, giver: lab_handing.Giver
) -> None:
    logged: list[str] = []
    with (
        door(target, giver=giver) as (name, stirs),
        serving(target, log_function=lambda handler: logged.append(handler.request.method)),
    ):
        wait_until(lambda: takes(giver))
        connection = by_name(name)
        asked(connection, "GET").read()
        asked(connection, "PUT", b"x").read()
        # What the server had for that goes on, after it.
        wait_until(lambda: logged == ["GET", "PUT"])
        wait_until(lambda: bool(stirs))
        assert len(stirs) == 1
        connection.close()


def test_where_who_took_connections_has_gone_they_are_copied(
    target: Path, giver: lab_handing.Giver
) -> None:
    with echoing(target), door(target, giver=giver) as (name, _):
        for _ in range(2):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taker:
                taker.connect(giver.listener.getsockname())
                wait_until(lambda: takes(giver))
                with by_name(name).sock:
                    _, carried, _, _ = taker.recvmsg(1, 64)
                    assert len(carried) == 1
                    os.close(int.from_bytes(carried[0][2], "little"))
            with by_name(name).sock as sock, sent(sock, MEGABYTES):
                assert everything(sock) == MEGABYTES
            wait_until(lambda: not takes(giver))


def test_a_server_that_has_too_many_before_it_is_handed_no_more_and_nobody_waits(
    giver: lab_handing.Giver,
) -> None:
    with (
        giver.listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taker,
        socket.socket() as visitor,
    ):
        taker.connect(giver.listener.getsockname())
        assert giver.meet() is not None
        assert giver.give(visitor)
        assert not all(giver.give(visitor) for _ in range(10_000))
        giver.forget()
        assert not giver.give(visitor)


def test_another_users_program_is_handed_nothing() -> None:
    if os.getuid() != 0:
        pytest.skip("to be two users takes root")
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # a lab's own is 0700
        giver = lab_handing.giver(folder)
        assert giver is not None
        path = Path(folder, lab_handing.NAME)
        path.chmod(0o777)
        come = "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
        come += "s.connect(sys.argv[1]); print(s.recv(1))"
        target = Path(folder, "server")
        with echoing(target), door(target, giver=giver) as (name, _):
            theirs = subprocess.run(
                [SYSTEM_PYTHON, "-c", come, str(path)],
                capture_output=True,
                text=True,
                check=True,
                user="nobody",
                timeout=60,
            )
            assert theirs.stdout == "b''\n"
            with by_name(name).sock as sock, sent(sock, b"hello"):
                assert everything(sock) == b"hello"
