"""PURE but for the socket of one client: how a browser gets into a dashboard at its port here.

A dashboard asks nobody who they are, so its port does: by the name, as of a lab (`lab_host.py`),
and by a cookie that a browser gets in exchange for a secret, which it POSTs. No address holds that,
so no history, log, command line or notebook does.
"""

from __future__ import annotations

import hmac
import socket
import time
from dataclasses import dataclass
from urllib.parse import parse_qs

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.jobs.access import lab_host
from jupyter_slurm.jobs.access.lab_host import NotThisLabError
from jupyter_slurm.transport.relay_streams import break_off

PATH = "/jupyter-slurm-login"
_COOKIE = b"jupyter-slurm"
_RAY_COOKIE = "ray-authentication-token"
"""Where Ray's dashboard looks for its token (ray/_private/authentication)."""
_HEAD_END = b"\r\n\r\n"
_WITHIN_S = 5.0
_MOST_BYTES = 1 << 15


class LoginRequestError(ForwardError):
    """No error: the client wants to log in, and does not go to the dashboard for that."""


class NotLoggedInError(ForwardError):
    """The client knows the dashboard's address, and has not logged in."""


@dataclass(frozen=True)
class Guard:
    """Lets in a browser that knows `host` and `secret`, which were made for this opening of the
    port. `ray_token`: the token of Ray's own dashboard; "": the dashboard is not Ray's."""

    host: str
    secret: str
    ray_token: str = ""

    def admit(self, first: bytes, port: int) -> bool:
        """Return True where the request may go to the dashboard, False while its head is
        incomplete. ForwardError: it may not."""
        try:
            if not lab_host.is_meant(self.host, first, port):
                return False
        except NotThisLabError:
            raise NotThisLabError(
                "This is not the address of a dashboard, or no longer: it changes whenever the "
                "agent of jupyter-slurm is started anew.",
                hint=_again(),
            ) from None
        head = first.partition(_HEAD_END)[0]
        if head.startswith(f"POST {PATH} ".encode()):
            raise LoginRequestError("This is a login.")
        if not any(self._is_right(one) for one in _cookies(head)):
            raise NotLoggedInError("This browser has not logged in here.", hint=_again())
        return True

    @property
    def cookie(self) -> str:
        """The header of a client that has logged in."""
        return "; ".join(f"{name}={one}" for name, one in self._cookies())

    def log_in(self, sock: socket.socket) -> None:
        """Take over the socket of a client that POSTs the secret, and answer with the cookie."""
        try:
            told = parse_qs(_body(sock).decode("ascii", "replace"), max_num_fields=8)
            is_right = self._is_right(told.get("token", [""])[0].encode())
            with sock:
                sock.sendall(self._answer() if is_right else _REFUSED)
                sock.shutdown(socket.SHUT_WR)
        except (OSError, ValueError):
            break_off(sock)

    def _is_right(self, secret: bytes) -> bool:
        return hmac.compare_digest(secret, self.secret.encode())

    def _cookies(self) -> list[tuple[str, str]]:
        ray = [(_RAY_COOKIE, self.ray_token)] if self.ray_token else []
        return [(_COOKIE.decode(), self.secret), *ray]

    def _answer(self) -> bytes:
        cookies = [f"{name}={one}; Path=/; HttpOnly" for name, one in self._cookies()]
        lines = [
            "HTTP/1.1 303 See Other",
            "Location: /",
            *(f"Set-Cookie: {one}; SameSite=Lax" for one in cookies),
            "Cache-Control: no-store",
            "Content-Length: 0",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def _again() -> str:
    return "Open it again: from the job's card, or with `%slurm tunnel`."


def _cookies(head: bytes) -> list[bytes]:
    """Return the values of our cookie."""
    fields = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    given = [value for name, _, value in fields if name.lower() == b"cookie"]
    pairs = [one.strip(b" \t").partition(b"=") for value in given for one in value.split(b";")]
    return [value for name, _, value in pairs if name == _COOKIE]


def _body(sock: socket.socket) -> bytes:
    """Return the body of the request. ValueError, OSError: it does not come, or is too long."""
    deadline_s = time.monotonic() + _WITHIN_S
    data, size = b"", None
    while size is None or len(data) < size:
        if _HEAD_END in data and size is None:
            head = data.partition(_HEAD_END)[0]
            fields = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
            lengths = [value for name, _, value in fields if name.lower() == b"content-length"]
            size = len(head) + len(_HEAD_END) + int(lengths[0] if lengths else 0)
            continue
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or len(data) > _MOST_BYTES:
            raise ValueError("no body")
        sock.settimeout(left_s)
        more = sock.recv(_MOST_BYTES)
        if not more:
            raise ValueError("no body")
        data += more
    return data.partition(_HEAD_END)[2]
