"""The parts of a lab on the node: the door, who uses it, and JupyterLab beside an image."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from traitlets.config import Config

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.transport.relay import Relay, abstract_socket
from tests.node.lab_doors import door, echoing
from tests.transport.carrier import everything, sent

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
# There they find each other by their bare names.
import lab  # noqa: E402
import lab_activity  # noqa: E402

sys.path[:] = [path for path in sys.path if path != NODE]

_HOLD = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind("\\0" + sys.argv[1])
s.listen(1)
print("there", flush=True)
sys.stdin.read()
"""


def come(name: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(f"\0{name}")
    return sock


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "server"
    with echoing(path):
        yield path


def test_a_change_is_a_sign_of_somebody_behind_other_requests_of_the_same_connection(
    server: Path,
) -> None:
    with door(server) as (name, stirs), come(name) as sock:
        for data in (b"GET /api HTTP/1.1\r\n", b"PUT /api/contents/a.ipynb HTTP/1.1\r\n"):
            assert not stirs
            sock.sendall(data)
            assert sock.recv(len(data), socket.MSG_WAITALL) == data
        assert len(stirs) == 1


def test_relay_refuses_another_users_socket_of_a_doors_name(server: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("to be two users takes root")
    relay = Relay(LocalTransport().open_stream, lambda argv: argv, sys.executable, "n1")
    taken = f"jslurm-test-{secrets.token_hex(8)}"
    with (
        door(server) as (name, _),
        subprocess.Popen(
            ["/usr/bin/python3", "-c", _HOLD, taken],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user="nobody",
        ) as other,
    ):
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        try:
            ours, theirs = socket.socketpair()
            relay.connect(theirs, *abstract_socket(name))
            with ours, sent(ours, b"hello"):
                assert everything(ours) == b"hello"
            ours, theirs = socket.socketpair()
            with ours, theirs, pytest.raises(ForwardError, match="another user's program"):
                relay.connect(theirs, *abstract_socket(taken))
            with ours, theirs, pytest.raises(ForwardError, match="Connection refused"):
                relay.connect(theirs, *abstract_socket(taken + "x"))
        finally:
            relay.close()
            other.communicate(b"")


class Server(lab_activity.Server):
    """Answers what it was told to."""

    def __init__(self) -> None:
        self.said: dict[str, object] = {}

    def get(self, what: str) -> object:
        return self.said.get(what)


@pytest.mark.parametrize(
    ("kind", "said", "used"),
    [
        ("kernels", {"execution_state": "busy", "last_activity": "2000-01-01T00:00:00Z"}, True),
        ("kernels", {"execution_state": "idle", "last_activity": "2000-01-01T00:00:00Z"}, False),
        ("kernels", {"execution_state": "idle", "last_activity": "NOW"}, True),
        ("terminals", {"name": "1", "last_activity": "NOW"}, True),
        ("terminals", {"name": "1", "last_activity": "2000-01-01T00:00:00Z"}, False),
        ("terminals", {"name": "1"}, False),
    ],
)
def test_a_kernel_at_work_and_a_terminal_in_use_keep_a_lab(
    kind: str, said: dict[str, str], used: bool
) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%S.123456Z", time.gmtime())
    server, told = Server(), list[float | None]()
    activity = lab_activity.Activity(server, 3600, told.append, lambda: None)
    activity.last_s = time.time() - 4000
    server.said[kind] = [
        {**said, "last_activity": said.get("last_activity", "").replace("NOW", now)}
    ]
    activity.look()
    assert activity.is_over() is not used
    assert told == ([] if used else [round(activity.last_s, 3)])
    activity.stir()
    assert not activity.is_over()
    assert told[1:] == ([] if used else [None])


@pytest.mark.parametrize(
    ("jupyterlab", "server", "place"),
    [
        ("2.3.2", None, "NotebookApp"),
        ("3.2.9", "1.13.5", "ServerApp"),
        ("3.6.8", "2.14.0", "IdentityProvider"),
        ("4.6.6", "2.21.1", "IdentityProvider"),
    ],
)
def test_the_token_lies_where_the_release_of_the_server_looks_for_it(
    monkeypatch: pytest.MonkeyPatch, jupyterlab: str, server: str | None, place: str
) -> None:
    """The releases are fakes that have a version and no more."""
    for name, version in (("jupyterlab", jupyterlab), ("jupyter_server", server)):
        fake = None if version is None else SimpleNamespace(__version__=version)
        monkeypatch.setitem(sys.modules, name, fake)
    monkeypatch.setattr(sys, "path", list(sys.path))
    values = {"token": "t0k", "sock": "/x/server", "host": "lab", "base_url": "/"}
    page = {"title": "fit · n1 · JupyterLab", "workspaces": "/x/w", "extensions": "/x/e"}
    config = Config()
    exec(lab.CONFIG.format(**values, **page), {"c": config})
    shown = next(config[name].tornado_settings for name in config if "sock" in config[name])
    assert shown["page_config_hook"](None, {"appName": "JupyterLab"}) == {"appName": page["title"]}
    assert {name for name in config if "token" in config[name]} == {place}
    assert config[place].token == "t0k"
