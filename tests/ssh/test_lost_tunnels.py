"""The line is cut in the middle of a download through a tunnel: it goes on, or it is seen to be
broken, and the tunnel leads to its target again."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jupyter_slurm.wire import ConnectionState
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.site import Site
from tests.ssh.waiting import wait_until

_SIZE_MIB = 192
"""Much more than is on its way at any time."""
_FIRST_MIB = 8

_SERVER = f"""
import socket, threading
def serve(sock):
    with sock:
        try:
            for i in range({_SIZE_MIB}):
                sock.sendall(i.to_bytes(8, "big") * 131072)
        except OSError:
            pass
server = socket.create_server(("", 0))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=[server.accept()[0]]).start()
"""
_READER = f"""
import hashlib, socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
digest, size, first = hashlib.sha256(), 0, True
try:
    while data := sock.recv(1 << 16):
        digest.update(data)
        size += len(data)
        if first and size >= {_FIRST_MIB} << 20:
            first = False
            print("begun", flush=True)
            sys.stdin.readline()
except ConnectionResetError:
    print("broken", size < {_SIZE_MIB} << 20)
else:
    print("ended", size >> 20, digest.hexdigest())
"""


@pytest.fixture(scope="module")
def whole() -> str:
    """What a reader says that has got everything once, in order."""
    digest = hashlib.sha256()
    for i in range(_SIZE_MIB):
        digest.update(i.to_bytes(8, "big") * 131072)
    return f"ended {_SIZE_MIB} {digest.hexdigest()}\n"


@contextmanager
def streaming(site: Site) -> Iterator[int]:
    """A program on c2 that sends the same to all who connect: its port."""
    argv = site.machines["c2"].argv(
        "/usr/bin/python3", "-c", _SERVER, user=site.person.account.name
    )
    with subprocess.Popen(argv, cwd="/", stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


class Download:
    """By a program on the laptop, which has got a little and waits for a word to go on."""

    def __init__(self, laptop: Laptop, local_port: int) -> None:
        argv = (sys.executable, "-c", _READER, str(local_port))
        self._process = laptop.start(*argv, stdin=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "begun\n"

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> str:
        """What it says at its end."""
        out, err = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0, err
        return str(out)


@contextmanager
def downloading(laptop: Laptop) -> Iterator[tuple[dict[str, Any], Download]]:
    """A tunnel to what c2 streams, as the command tells it, and a download through it."""
    with streaming(laptop.site) as port:
        tunnel = json.loads(laptop.slurm("tunnel", f"c2:{port}", "--json"))
        yield tunnel, Download(laptop, tunnel["local_port"])


def test_download_over_a_line_that_was_cut_and_healed_gets_every_byte_once(
    laptop: Laptop, whole: str
) -> None:
    site = laptop.site
    laptop.notice_soon()
    laptop.log_in()
    before = site.logins()
    with downloading(laptop) as (_, download):
        site.cut()
        try:
            download.go_on()
            wait_until(lambda: laptop.connection().state is ConnectionState.LOST, PATIENCE_S)
        finally:
            site.heal()
        assert download.end() == whole
    assert site.logins() == before


def test_download_over_a_line_that_was_lost_is_broken_and_the_next_one_is_whole(
    impatient_gateway: Site, laptop: Laptop, whole: str
) -> None:
    site = impatient_gateway
    laptop.log_in()
    with downloading(laptop) as (tunnel, download):
        site.cut()
        try:
            download.go_on()
            wait_until(lambda: site.gateway.pids() == [], PATIENCE_S)
        finally:
            site.heal()
        assert download.end() == "broken True\n"
        wait_until(lambda: laptop.connection().state is ConnectionState.LOGIN_NEEDED, PATIENCE_S)
        laptop.log_in()
        [again] = json.loads(laptop.slurm("tunnel", "--json"))
        assert (again["id"], again["local_port"]) == (tunnel["id"], tunnel["local_port"])
        the_next = Download(laptop, tunnel["local_port"])
        the_next.go_on()
        assert the_next.end() == whole
