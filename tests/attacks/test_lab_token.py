"""Attacks on a lab by another user of this machine: through the same port on the other loopback
address, and through a service worker installed while no agent ran and the attacker held the
port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from jupyter_slurm.commands import labs
from jupyter_slurm.transport.forward import Forward
from tests.attacks.lab_here import JOB_ID, FarServer, LabHere, lab_here, other_user, page
from tests.ssh.sshd import free_port
from tests.transport.carrier import Carrier
from tests.ui.conftest import chromium, new_page

LOOPBACKS = ("127.0.0.1", "::1")
INSIDE = "<title>in the lab</title>"

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


@pytest.fixture
def far() -> FarServer:
    """Return a server like Jupyter: the token sets a cookie that gives access."""
    server = FarServer()

    def answers(request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        if head.startswith(b"POST /login") and token(here_of[server]) in body:
            return page("", "Set-Cookie: username=ada", "Location: /lab", status="302 Found")
        if b"username=ada" in head:
            return page(INSIDE)
        return page("who are you", status="403 Forbidden")

    server.answers = answers
    return server


here_of: dict[FarServer, LabHere] = {}


def token(here: LabHere) -> bytes:
    assert here.labs is not None
    return here.labs.lab_entry(JOB_ID).token.encode()


@pytest.fixture
def here(far: FarServer, tmp_path: Path) -> Iterator[LabHere]:
    with lab_here(tmp_path / "store", far) as one:
        here_of[far] = one
        yield one
    del here_of[far]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def entry_page(here: LabHere, folder: Path) -> str:
    assert here.labs is not None
    path = folder / "in.html"
    path.write_text(labs.page(here.labs.lab_entry(JOB_ID), "lab"), encoding="utf-8")
    return path.as_uri()


def test_listener_on_the_other_loopback_address_does_not_get_the_token(
    here: LabHere, far: FarServer, browser: Browser, tmp_path: Path
) -> None:
    """A browser tries the other loopback address first, and any user can list open ports."""
    lab = here.open()
    with other_user(lab.port, "::1", answer="the impostor") as other, new_page(browser) as tab:
        tab.goto(entry_page(here, tmp_path))
        tab.wait_for_url(re.compile("^http:"))
        assert (tab.url, tab.title()) == (f"{lab.url}lab", "in the lab")
        other.end()
    assert other.heard == b""
    assert any(token(here) in request for request in far.got)


def test_service_worker_at_an_old_port_does_not_see_the_lab(
    here: LabHere, browser: Browser, tmp_path: Path
) -> None:
    """With the same address, the service worker could read the posted token and act as the lab's
    owner."""
    old = here.open()
    here.close()
    install = (
        "<script>navigator.serviceWorker.register('/worker.js').then("
        "() => navigator.serviceWorker.ready).then(() => document.title = 'planted')</script>"
    )
    with new_page(browser) as tab:
        with other_user(old.port, *LOOPBACKS, answer=install) as other:
            tab.goto(f"{old.url}lab")
            tab.wait_for_function("document.title === 'planted'")
            other.end()
        lab = here.open()
        assert lab.port == old.port
        tab.goto(entry_page(here, tmp_path))
        tab.wait_for_url(re.compile("^http:"))
        assert (tab.url, tab.title()) == (f"{lab.url}lab", "in the lab")


# --- tunnels ----------------------------------------------------------------------------------


def test_tunnel_has_the_same_port_on_both_loopback_addresses() -> None:
    forward = opened()
    for address in LOOPBACKS:
        with other_user(forward.local_port, address) as other:
            assert other.port is None
    forward.close()


def opened(local_port: int = 0) -> Forward:
    carrier = Carrier()
    return Forward(
        lambda sock, answered: carrier.connect(sock, "127.0.0.1", free_port(), answered), local_port
    )


_WITHOUT_IPV6 = """
import socket
from jupyter_slurm.transport.forward import Forward
forward = Forward(lambda sock, answered: None)
socket.create_connection(("127.0.0.1", forward.local_port)).close()
forward.close()
print("it listens")
"""


def test_tunnels_and_labs_work_without_ipv6() -> None:
    bare = 'ip link set lo up; echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6; exec "$@"'
    argv = ["unshare", "--net", "sh", "-c", bare, "sh", sys.executable, "-c", _WITHOUT_IPV6]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "it listens\n", done.stderr
