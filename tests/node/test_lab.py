"""Parts of a lab on the node: the proxy, idle detection, the page, and the configuration."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterlab_server.config import get_federated_extensions
from traitlets.config import Config

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.transport.relay import Relay, abstract_socket
from tests.transport.carrier import everything, sent

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
# On the node, these modules import each other by bare names.
import lab  # noqa: E402
import lab_activity  # noqa: E402
import socket_proxy  # noqa: E402

sys.path[:] = [path for path in sys.path if path != NODE]

_HOLD = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind("\\0" + sys.argv[1])
s.listen(1)
print("there", flush=True)
sys.stdin.read()
"""


@contextmanager
def echoing(path: Path) -> Iterator[None]:
    """Run an echo server on a Unix socket at `path`."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        threading.Thread(target=_echo_all, args=(listener,), daemon=True).start()
        yield


def _echo_all(listener: socket.socket) -> None:
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=(sock,), daemon=True).start()


def _echo(sock: socket.socket) -> None:
    with sock:
        while data := sock.recv(1 << 16):
            sock.sendall(data)


@contextmanager
def proxying(target: Path) -> Iterator[tuple[str, list[float]]]:
    """Run a proxy to `target`; yield its name and the times of changes."""
    name, changes = f"jslurm-test-{secrets.token_hex(8)}", list[float]()
    wake_in, wake_out = os.pipe()
    connect = partial(socket_proxy.connect_path, str(target))
    proxy = socket_proxy.SocketProxy(name, connect, lambda: changes.append(time.monotonic()))
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            proxy.step(wake_in, 10)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield name, changes
    finally:
        over.set()
        os.write(wake_out, b"!")
        thread.join()
        for left in [key.data for key in proxy.selector.get_map().values()]:
            if isinstance(left, socket_proxy.End) and left.mask:  # its client has just disconnected
                proxy.drop(left)
        proxy.selector.close()
        proxy.listener.close()
        os.close(wake_in)
        os.close(wake_out)


def connected(name: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(f"\0{name}")
    return sock


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "server"
    with echoing(path):
        yield path


def test_proxy_reports_a_change_after_other_requests_on_a_connection(
    server: Path,
) -> None:
    with proxying(server) as (name, changes), connected(name) as sock:
        for data in (b"GET /api HTTP/1.1\r\n", b"PUT /api/contents/a.ipynb HTTP/1.1\r\n"):
            assert not changes
            sock.sendall(data)
            assert sock.recv(len(data), socket.MSG_WAITALL) == data
        assert len(changes) == 1


def test_relay_rejects_another_users_socket(server: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can act as another user")
    relay = Relay(LocalTransport().open_stream, lambda argv: argv, sys.executable, "n1")
    taken = f"jslurm-test-{secrets.token_hex(8)}"
    with (
        proxying(server) as (name, _),
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
    """A server that gives the answers `said`."""

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
def test_busy_kernels_and_used_terminals_count_as_activity(
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
    activity.mark_used()
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
def test_config_sets_the_token_where_each_release_reads_it(
    monkeypatch: pytest.MonkeyPatch, jupyterlab: str, server: str | None, place: str
) -> None:
    """Fakes with only a version stand for the releases."""
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


# --- the page ---
Make = Callable[..., lab.Page]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.chdir(tmp_path)

    def made(job_id: str, name: str = "fit", node: str = "n1") -> lab.Page:
        monkeypatch.setenv("SLURMD_NODENAME", node)
        folder, private = tmp_path / job_id, tmp_path / f"private-{job_id}"
        folder.mkdir()
        (folder / "started.0.json").write_text('{"slurm_id": "7", "time_s": 1000}')
        task = {"id": job_id, "name": name, "gpus": 2}
        page = lab.Page(str(private), str(folder), "0", task)
        page.write()
        return page

    return made


def facts(page: lab.Page) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path(page.static, "facts.json").read_text())
    return told


def test_page_shows_the_job_and_its_time_limit(make: Make, tmp_path: Path) -> None:
    page = make("abcdefgh", "fit · it's $2", "n7")
    assert page.title == "fit · it's $2 · n7 · JupyterLab"
    known = {"id": "abcdefgh", "name": "fit · it's $2", "node": "n7", "gpus": 2}
    assert facts(page) == {**known, "end_s": None}
    for limit_s in (3600, 7200):
        (tmp_path / "abcdefgh" / "limit").write_text(f"{limit_s}\n")
        page.renew()
        assert facts(page) == {**known, "end_s": 1000 + limit_s}


def test_jupyterlab_finds_the_extension(make: Make) -> None:
    page = make("abcdefgh")
    found = get_federated_extensions([page.extensions])[lab.EXTENSION]
    build = found["jupyterlab"]["_build"]
    script = Path(found["ext_path"], build["load"])
    assert script.read_bytes() == Path(NODE, lab.SCRIPT).read_bytes()
