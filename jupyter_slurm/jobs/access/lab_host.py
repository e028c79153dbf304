"""Check by its first request whether a connection to a lab's port is for the lab; the answers to
those that are refused.

A browser keeps a connection for one name and one port (it shares those of several names only in
HTTP/2 and later, which needs TLS), so what holds for the first request holds for all that follow.
"""

from __future__ import annotations

import socket

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.readable import joined
from jupyter_slurm.transport.relay_streams import break_off

MISDIRECTED = "421 Misdirected Request"
UNAVAILABLE = "503 Service Unavailable"
FORBIDDEN = "403 Forbidden"
_END_S = 5.0

_END = b"\r\n\r\n"
_VERSION = b"HTTP/1.1"


class NotThisLabError(ForwardError):
    """The client may not get to the lab, whether the lab can be reached or not."""


def is_meant(host: str, first: bytes, port: int) -> bool:
    """Return True where the request is for `host:port`, False while its head is incomplete.

    NotThisLabError: it is for something else, or can be read in more than one way.
    """
    head, end, _ = first.partition(_END)
    if not end:
        return False
    request, *lines = head.split(b"\r\n")
    method, _, target = request.partition(b" ")
    path, _, version = target.partition(b" ")
    fields = [line.partition(b":") for line in lines]
    hosts = [value.strip(b" \t") for name, _, value in fields if name.lower() == b"host"]
    is_plain = (
        method.isalpha()
        and path.startswith(b"/")
        and version == _VERSION
        and all(colon and name and name == name.strip() for name, colon, _ in fields)
        and not any(byte in head.replace(b"\r\n", b"") for byte in b"\r\n\0")
    )
    if not is_plain or [one.lower() for one in hosts] != [f"{host}:{port}".encode()]:
        raise NotThisLabError(
            "This is not the address of a lab, or no longer: it changes whenever the agent of "
            "jupyter-slurm is started anew, and what runs in the lab goes on.",
            hint="Open the lab again: `%slurm lab open`.",
        )
    return True


def answer(sock: socket.socket, status: str, *sentences: str | None) -> None:
    """Take over `sock`, whose client has sent the head of a request, and answer with plain text."""
    text = joined(*sentences).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    try:
        sock.settimeout(_END_S)
        sock.sendall(head.encode("ascii") + text)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):  # closed with something unread, it would lose the answer
            pass
    except OSError:
        pass
    break_off(sock)
