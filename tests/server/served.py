"""A real Jupyter server with the extension, its agent and clients. It has no fixtures."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import websocket
from jupyter_server.auth.security import passwd

from jupyter_slurm.wire import Problem
from tests.agent.home import AgentHome
from tests.agent.memory_agent import SCRIPT
from tests.cluster.plugin import ROOT, jupyter_homes
from tests.ssh.sshd import free_port

PATIENCE_S = 60.0
_START_S = 180.0
"""Timeout for the start of a server on a busy machine."""
PASSWORD = "open sesame"
API = "jupyter-slurm/api/"
AGENT = "jupyter-slurm/agent/v1/"
_NOT_OURS = ("JUPYTER", "JPY_", "SLURM")


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a server and an agent with all files below `home`."""
    ours = {key: text for key, text in os.environ.items() if not key.startswith(_NOT_OURS)}
    return ours | jupyter_homes(home) | {"PYTHONPATH": str(ROOT)}


@contextmanager
def short_home() -> Iterator[Path]:
    """Yield a folder with a short path, as sockets need."""
    home = Path(tempfile.mkdtemp(prefix="srv-"))
    try:
        yield home
    finally:
        shutil.rmtree(home)


@contextmanager
def agent_of(env: Mapping[str, str], program: Sequence[str] = ()) -> Iterator[AgentHome]:
    """Yield the agent for `env`, which `program` starts if given. It ends with the context."""
    host = socket.gethostname().split(".")[0]
    runtime = Path(env["JUPYTER_RUNTIME_DIR"]) / f"jupyter-slurm-{host}"
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    home = AgentHome(
        folder=runtime,
        socket=runtime / "agent.sock",
        log=Path(env["JUPYTER_DATA_DIR"], "jupyter-slurm", host, "agent.log"),
        command=tuple(program),
    )
    if program:
        start = [*program, "--detach", "--socket", str(home.socket)]
        subprocess.run(start, env=dict(env), cwd="/", check=True, timeout=_START_S)
    try:
        yield home
    finally:
        if home.agent_pid() is not None:
            home.kill()


def memory_agent(env: Mapping[str, str]) -> Any:
    return agent_of(env, (sys.executable, str(SCRIPT)))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        assert self.status == 200, self
        return json.loads(self.body)

    @property
    def problem(self) -> Problem:
        assert self.status >= 400, self
        return msgspec.json.decode(self.body, type=Problem)


@dataclass
class Client:
    """A page or program that calls the server and sends only the given headers."""

    url: str
    token: str | None = None
    sock: str | None = None
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, **headers)

    def post(self, path: str, value: object, **headers: str) -> Answer:
        return self.ask("POST", path, json.dumps(value).encode(), **headers)

    def call(self, name: str, **args: object) -> Any:
        """Call the API as a page does."""
        xsrf = {"X-XSRFToken": self.cookies["_xsrf"]} if "_xsrf" in self.cookies else {}
        return self.post(API + name, args, **xsrf).value

    def ask(self, verb: str, path: str, body: bytes | None, **headers: str) -> Answer:
        parts = urlsplit(self.url)
        connection = self._connection()
        try:
            connection.request(verb, parts.path + path, body, self._headers() | headers)
            answer = connection.getresponse()
            cookies = SimpleCookie(", ".join(answer.headers.get_all("Set-Cookie", [])))
            self.cookies |= {name: one.value for name, one in cookies.items()}
            return Answer(answer.status, dict(answer.headers), answer.read())
        finally:
            connection.close()

    def log_in(self, password: str = PASSWORD) -> Client:
        """Log in like a user in a browser."""
        self.get("login")
        body = urlencode({"password": password, "_xsrf": self.cookies["_xsrf"]}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self.ask("POST", "login", body, **kind)
        assert answer.status == 302, answer
        return self

    def watch(self, origin: str | None = None) -> Watcher:
        """Open a watch. Raise websocket.WebSocketBadStatusException if it is rejected."""
        return self._opened(f"{API}watch", origin)

    def _opened(self, path: str, origin: str | None) -> Watcher:
        return Watcher(self._connected_to(path, origin))

    def _connected_to(self, path: str, origin: str | None) -> websocket.WebSocket:
        url = "ws" + self.url.removeprefix("http") + path
        kept = {"suppress_origin": True} if origin is None else {"origin": origin}
        return websocket.create_connection(
            url,
            timeout=PATIENCE_S,
            header=self._headers(),
            socket=self._connected(),
            sslopt={"cert_reqs": ssl.CERT_NONE},
            **kept,
        )

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"token {self.token}"} if self.token is not None else {}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={text}" for name, text in self.cookies.items())
        return headers

    def _connected(self) -> socket.socket | None:
        if self.sock is None:
            return None
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.connect(self.sock)
        except OSError:
            connected.close()
            raise
        return connected

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = ssl._create_unverified_context()
            return http.client.HTTPSConnection(
                host, parts.port, timeout=PATIENCE_S, context=context
            )
        connection = http.client.HTTPConnection(host, parts.port, timeout=PATIENCE_S)
        if (connected := self._connected()) is not None:
            connection.sock = connected
        return connection


class Watcher:
    """A page's WebSocket."""

    def __init__(self, connection: websocket.WebSocket) -> None:
        self._connection = connection

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def say(self, **wish: object) -> None:
        self._connection.send(json.dumps(wish))

    def send(self, message: bytes) -> None:
        """Send any bytes."""
        self._connection.send_binary(message)

    def hear(self) -> dict[str, Any]:
        """Return the next message that is not a keep-alive."""
        while True:
            message: dict[str, Any] = json.loads(self._connection.recv())
            if message:
                return message

    def value(self, number: int) -> dict[str, Any]:
        """Return the next value of the watch `number`. Skip values of other watches."""
        while True:
            message = self.hear()
            if message.get("watch") == number and "value" in message:
                value: dict[str, Any] = message["value"]
                return value

    def until(self, number: int, **wanted: object) -> dict[str, Any]:
        """Return the job of the watch `number` once it has the fields `wanted`."""
        while True:
            value = self.value(number)
            for job in value.get("jobs", [value.get("job")]):
                if all(job[name] == one for name, one in wanted.items()):
                    found: dict[str, Any] = job
                    return found


@dataclass(frozen=True)
class Served:
    """A running server; its files are in `folder`."""

    url: str
    token: str
    sock: str | None
    folder: Path
    env: Mapping[str, str]
    pid: int

    def client(self) -> Client:
        """Return a client with the token."""
        return Client(self.url, self.token, self.sock)

    def stranger(self) -> Client:
        """Return a client without credentials."""
        return Client(self.url, None, self.sock)


@contextmanager
def running_server(
    env: Mapping[str, str], home: Path, config: str = "", *, token: str | None = None
) -> Iterator[Served]:
    """Run a server with only this extension, a token (None for a new token) and PASSWORD. `config`
    is Python code."""
    folder = home / "files"
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe() if token is None else token
    settings = home / "server_config.py"
    ours = _CONFIG.format(folder=str(folder), port=free_port(), password=passwd(PASSWORD, "sha1"))
    settings.write_text(ours + config)
    with (home / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", "--allow-root", f"--config={settings}"],
            # Output is unbuffered. Otherwise a signal handler that logs, like the server's own for
            # SIGTERM, fails during a write, and the server continues.
            env={**env, "JUPYTER_TOKEN": token, "PYTHONUNBUFFERED": "1"},
            cwd=home,
            stdout=log,
            stderr=log,
        )
    try:
        info = _server_info(process, Path(env["JUPYTER_RUNTIME_DIR"]), home / "server.log")
        sock = info["sock"] or None
        base: str = info["base_url"]
        url = f"http://localhost{base}" if sock else info["url"]
        served = Served(url, token, sock, folder, env, process.pid)
        _until_it_listens(served.stranger())
        yield served
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


_CONFIG = """\
c.ServerApp.jpserver_extensions = {{
    "jupyter_slurm": True, "jupyterlab": False, "jupyter_lsp": False, "notebook": False,
    "notebook_shim": False, "jupyter_server_terminals": True, "jupyter_server_proxy": False,
}}
c.ServerApp.root_dir = {folder!r}
c.ServerApp.open_browser = False
# With 0, jupyter_server 2.15 reports port 0. If another program takes the port first, the server
# uses another port.
c.ServerApp.port = {port}
c.ServerApp.allow_unauthenticated_access = False
c.PasswordIdentityProvider.hashed_password = {password!r}
"""


def _server_info(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> dict[str, Any]:
    """Return the content of the server's info file once it is not empty."""
    path = runtime / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server has ended\n{log.read_text()}"
        with suppress(FileNotFoundError, ValueError):
            info: dict[str, Any] = json.loads(path.read_text())
            return info
        time.sleep(0.05)
    raise AssertionError(f"the server did not start\n{log.read_text()}")


def _until_it_listens(client: Client) -> None:
    """Wait until the server listens, which is after its info file appears."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            client.get("api")
            return
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


def query(path: str, **args: str) -> str:
    return f"{path}?{urlencode(args, quote_via=quote)}"
