"""The link to the agent through the kernel's Jupyter server, with the methods of a `Link`.

It serves kernels in containers and on other machines, which cannot reach the agent's socket. Their
server relays the calls (`server/handlers.py`) if the user is allowed to execute programs there.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from jupyter_core import paths

from jupyter_slurm.agent.protocol import ONCE, may_be_done
from jupyter_slurm.errors import AgentError

_PATH = "jupyter-slurm/agent/v1/"
_PAUSES_S = (0.0, 0.5, 2.0)
"""Pauses before each attempt, because the server may restart, or the connection may drop."""
_SPARE_S = 5.0
"""Extra seconds for the server to time out first, since its message is more precise."""


@dataclass(frozen=True, slots=True)
class JupyterServer:
    """The kernel's Jupyter server."""

    url: str
    """The base URL, with a slash at the end."""
    token: str
    sock: str | None = None
    """The Unix socket on which the server listens instead of a port."""


def own_server() -> JupyterServer | None:
    """Return the kernel's server, from JupyterHub's variables or the server's own file. Return None
    if the server is unknown or does not have a token."""
    url, token = (os.environ.get(f"JUPYTERHUB_{name}", "") for name in ("SERVICE_URL", "API_TOKEN"))
    if url and token:
        return JupyterServer(url.rstrip("/") + "/", token)
    parent = os.environ.get("JPY_PARENT_PID", "")
    file = Path(paths.jupyter_runtime_dir()) / f"jpserver-{parent}.json"
    try:
        info = json.loads(file.read_text(encoding="utf-8"))
        server = JupyterServer(info["url"], info["token"], info.get("sock") or None)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return server if server.token else None


class ServerLink:
    """A thread-safe link through `server`."""

    def __init__(self, server: JupyterServer) -> None:
        self._server = server

    def check(self) -> None:
        """Wait for an answer from the agent."""
        self.ask("status", b"{}", 60.0)

    def reaches(self) -> bool:
        """Return whether the agent answers; the server starts it if needed."""
        try:
            self.check()
        except AgentError:
            return False
        return True

    def close(self) -> None:
        """Do nothing, because each call has its own connection."""

    def ask(self, name: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Return the status and the body of the answer. Raise AgentError if the server cannot be
        reached or refuses this kernel."""
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            try:
                return self._allowed(*self._ask(name, body, timeout_s + _SPARE_S))
            except (OSError, http.client.HTTPException) as exc:
                if name in ONCE and not isinstance(exc, ConnectionRefusedError):
                    raise may_be_done(name, exc) from exc
                failed = exc
        raise AgentError(
            f"Cannot reach this kernel's Jupyter server at {self._server.url}: {failed}.",
            hint="Check that the server is running and that this machine can connect to it.",
        ) from failed

    def stream(self, name: str, body: bytes, timeout_s: float) -> socket.socket | tuple[int, bytes]:
        raise AgentError(
            "Remote kernels cannot connect through the Jupyter server.",
            hint="Start the kernel on the machine where the Jupyter server runs.",
        )

    def _ask(self, name: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        connection, path = self._connection(timeout_s)
        try:
            if self._server.sock is not None:
                connection.sock.connect(self._server.sock)
            headers = {
                "Authorization": f"token {self._server.token}",
                "Content-Type": "application/json",
            }
            connection.request("POST", path + name, body, headers)
            with connection.getresponse() as answer:  # see AgentConnection._exchange
                return answer.status, answer.read()
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
        parts = urlsplit(self._server.url)
        path = parts.path + _PATH
        if self._server.sock is not None:
            connection = http.client.HTTPConnection("localhost", timeout=timeout_s)
            connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.sock.settimeout(timeout_s)
            return connection, path
        host = parts.hostname or "localhost"
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s), path
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s), path

    def _allowed(self, status: int, answer: bytes) -> tuple[int, bytes]:
        if status == 403:
            raise AgentError(
                "This kernel's Jupyter server rejected the kernel's token.",
                hint="Restart the kernel from Jupyter, so that it gets the server's token.",
            )
        if not answer.startswith((b"{", b"[", b'"', b"null")):
            raise AgentError(
                f"This kernel's Jupyter server at {self._server.url} lacks jupyter-slurm "
                f"(status {status}).",
                hint="Install jupyter-slurm where the Jupyter server runs, and restart the server.",
            )
        return status, answer
