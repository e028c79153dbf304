"""Ports of this machine for this machine alone: one number on both loopbacks, or none.

A browser tries ::1 and 127.0.0.1 for every name below localhost, in an order of its own: on the one
where we do not listen another user may. Nothing here knows what a port is for.
"""

from __future__ import annotations

import errno
import pwd
import socket
from contextlib import suppress
from pathlib import Path

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.readable import joined

_BACKLOG = 128
_NUMBERS = 64
"""How many are tried: one that is free on one loopback may be taken on the other."""
_NO_IPV6 = frozenset((errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL))
_LISTENS = "0A"
_OURS = ("0100007F", "0" * 8, "0" * 24 + "01000000", "0" * 32)
"""Addresses, as proc(5) writes them: each loopback, and any of its kind."""


def listeners(port: int) -> list[socket.socket]:
    """Return a listening socket for each loopback that this machine has; `port` 0: any port
    that is free on both. ForwardError: the port is taken on one of them."""
    for _ in range(1 if port else _NUMBERS):
        first = _listener("127.0.0.1", port)
        number: int = first.getsockname()[1]
        try:
            second = _listener("::1", number)
        except _NoLoopbackError:
            return [first]
        except ForwardError:
            first.close()
            if port:
                raise
        else:
            return [first, second]
    raise ForwardError(
        "Other programs listen at ::1, on the number of every port that was free at 127.0.0.1: "
        f"{_NUMBERS} were tried.",
        hint="`ss -ltnp` shows who listens.",
    )


class _NoLoopbackError(Exception):
    """This machine has no such loopback."""


def _listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as exc:
        number = getattr(exc, "errno", None)
        if family == socket.AF_INET6 and (number in _NO_IPV6 or not socket.has_ipv6):
            raise _NoLoopbackError from exc
        reason = getattr(exc, "strerror", None) or str(exc)
        owner = _owner(port) if number == errno.EADDRINUSE else None
        told = f"Port {port} of this machine cannot be used at {address}: {reason}."
        by = f"A program of {owner} listens there." if owner else None
        raise ForwardError(
            joined(told, by), hint="Leave the local port out, and a free one is taken."
        ) from exc
    listener.setblocking(False)
    return listener


def _owner(port: int) -> str | None:
    """Return the user whose program listens at the port; None: not told here (proc(5))."""
    for table in ("/proc/net/tcp6", "/proc/net/tcp"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines():
                _, local, _, state, *rest = line.split()
                address, _, number = local.partition(":")
                if state == _LISTENS and address in _OURS and number == f"{port:04X}":
                    return _user(int(rest[3]))
    return None


def _user(uid: int) -> str:
    with suppress(KeyError):
        return f"the user {pwd.getpwuid(uid).pw_name}"
    return f"the user {uid}"
