"""What a browser is told at a lab's port when the lab cannot be reached: a page that says why.

Else it would show its own, of a connection that was reset. Only a request's head is read, so much
of it as a server would, and of a client that uses a name of this machine; nothing here knows of
labs.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from html import escape
from http.client import HTTPException, parse_headers
from io import BytesIO

import msgspec

from jupyter_slurm.transport.relay_streams import break_off

_HEAD_S, _END_S = 5.0, 5.0
_HEAD_BYTES = 1 << 16
"""The most that tornado takes."""
_PIECE_BYTES = 1 << 16
_AGAIN_S = 5
_SOON = "This page looks every few seconds, and shows the lab as soon as it can be reached."
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_LOCAL = frozenset(("localhost", "127.0.0.1", "[::1]"))


@dataclass(frozen=True)
class Reason:
    """Why nobody gets in now. `title`: the lab's name, for people."""

    title: str
    sentences: tuple[str, ...]
    again: bool
    """It may be otherwise soon."""
    status: str = "503 Service Unavailable"


def answer(sock: socket.socket, reason: Reason) -> None:
    """Take `sock` over and answer on it, for some seconds at most. A browser that navigates there
    gets a page that asks again by itself; a program gets the sentences as Jupyter's servers give
    theirs; a client that speaks no HTTP, or that came by another name (of a page elsewhere, made to
    lead here), gets nothing."""
    try:
        head = _head(sock)
        if head is None:
            break_off(sock)
            return
        with sock:
            sock.settimeout(_END_S)
            sock.sendall(_answer(head, reason))
            sock.shutdown(socket.SHUT_WR)
            _drain(sock)
    except (OSError, HTTPException, ValueError):
        break_off(sock)


def _head(sock: socket.socket) -> bytes | None:
    """Return the head of a request; None: it is not HTTP, or did not arrive in time."""
    deadline_s = time.monotonic() + _HEAD_S
    data = b""
    while b"\r\n\r\n" not in data:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or len(data) >= _HEAD_BYTES:
            return None
        sock.settimeout(left_s)
        more = sock.recv(_HEAD_BYTES - len(data))
        if not more:
            return None
        data += more
    head = data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    known = method.decode("latin-1") in _METHODS and rest.rpartition(b" ")[2].startswith(b"HTTP/1.")
    return head if known else None


def _drain(sock: socket.socket) -> None:
    """Read until the client has gone: closing with unread data would break off the answer."""
    deadline_s = time.monotonic() + _END_S
    while (left_s := deadline_s - time.monotonic()) > 0:
        sock.settimeout(left_s)
        if not sock.recv(_PIECE_BYTES):
            return


def _answer(head: bytes, reason: Reason) -> bytes:
    first, _, rest = head.partition(b"\r\n")
    method = first.partition(b" ")[0]
    asked = parse_headers(BytesIO(rest))
    kind, body = "text/plain; charset=utf-8", b""
    host = asked.get("Host", "").rpartition(":")[0] or asked.get("Host", "")
    if host.lower() in _LOCAL or host.lower().endswith(".localhost"):
        wants_page = (
            method in {b"GET", b"POST"}
            and "text/html" in asked.get("Accept", "")
            and asked.get("Sec-Fetch-Mode", "navigate") == "navigate"
            and "Upgrade" not in asked
        )
        if wants_page:
            again = reason.again and method == b"GET"
            kind, body = "text/html; charset=utf-8", _page(reason, again=again).encode()
        else:
            kind = "application/json"
            body = msgspec.json.encode({"message": " ".join(reason.sentences), "reason": None})
    lines = [
        f"HTTP/1.1 {reason.status}",
        "Connection: close",
        "Cache-Control: no-store",
        *([f"Retry-After: {_AGAIN_S}"] if reason.again else []),
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
        "frame-ancestors 'self'",
    ]
    if method == b"HEAD":
        body = b""
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _page(reason: Reason, *, again: bool) -> str:
    refresh = f'<meta http-equiv="refresh" content="{_AGAIN_S}">' if again else ""
    sentences = [*reason.sentences, _SOON] if again else reason.sentences
    said = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return _PAGE.format(title=escape(reason.title), refresh=refresh, said=said)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{refresh}
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark; background: Canvas; color: CanvasText; }}
  body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; }}
  body {{ margin: 12vh auto; padding: 0 1rem; }}
  h1 {{ font-size: 1.25rem; font-weight: 600; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{said}
</main>
</body>
</html>
"""
