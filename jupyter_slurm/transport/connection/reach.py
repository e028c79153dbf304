"""A byte stream to a hop: TCP from this machine, a ProxyCommand, or through the hop before it.

What runs over the stream is not known here. Every failure is a TransportError with a sentence
that names the hop.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import paramiko

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport.login.server_text import shown
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.transport.ssh_config.remarks import NOT_READ
from jupyter_slurm.transport.ssh_transport import SharedTransport
from jupyter_slurm.wire import Message, together

_NEXT_ADDRESS_S = 0.25
"""A host's next address is tried after this time, beside the first (RFC 8305)."""
_KEEPALIVE = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 6),
)
_END_TIMEOUT_S = 2.0
_FORBIDDEN = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED (RFC 4254, 5.1)."""


@dataclass(frozen=True, slots=True)
class HopSocket:
    """A socket to a hop, and the ProxyCommand that stands behind it, if any."""

    sock: socket.socket
    process: subprocess.Popen[bytes] | None = None
    errors: IO[bytes] | None = None

    def words(self) -> str:
        """Return what the ProxyCommand has said of what went wrong."""
        if self.errors is None:
            return ""
        self.errors.seek(0)
        return shown(self.errors.read(1 << 16))

    def close(self) -> None:
        self.sock.close()
        if self.process is not None:
            _end(self.process)
        if self.errors is not None:
            self.errors.close()


def from_here(hop: Hop) -> HopSocket:
    """Open the way to the first hop."""
    return _by_command(hop, hop.proxy_command) if hop.proxy_command else HopSocket(_by_tcp(hop))


def through(previous: SharedTransport, hop: Hop, gateway: str) -> HopSocket:
    """Open the way to `hop` from the hop before it, whose label is `gateway`."""
    try:
        return HopSocket(_carried(previous, hop))
    except paramiko.ChannelException as exc:
        if exc.code == _FORBIDDEN:
            raise TransportError(
                "{gateway} does not let connections through to {place}.",
                hint="Its administrators forbid it (AllowTcpForwarding, PermitOpen), or another "
                "host is the one to jump from.",
                detail=exc.text,
                gateway=gateway,
                place=_place(hop),
            ) from exc
        raise TransportError(
            "{gateway} cannot reach {place}.",
            hint="Is the name right, as that host knows it, and is the machine up?",
            detail=exc.text,
            gateway=gateway,
            place=_place(hop),
        ) from exc
    except TimeoutError as exc:
        raise TransportError(
            "{gateway} could not reach {place} within {connect_timeout_s} s.",
            hint="Is the machine up, and is it the right name as that host knows it?",
            gateway=gateway,
            place=_place(hop),
            connect_timeout_s=f"{hop.connect_timeout_s:g}",
        ) from exc
    except ConnectionLostError as exc:
        raise TransportError(
            "The connection to {gateway} broke off on the way to {place}.",
            gateway=gateway,
            place=_place(hop),
        ) from exc


# --- TCP ---


def _carried(by: SharedTransport, hop: Hop) -> socket.socket:
    ours, theirs = socket.socketpair()
    try:
        by.carry(theirs, hop.host, hop.port, hop.connect_timeout_s)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    return ours


def _by_tcp(hop: Hop) -> socket.socket:
    try:
        found = socket.getaddrinfo(hop.host, hop.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as exc:
        hint = "Is the name right, is this machine online, or is a gateway (ProxyJump) needed?"
        raise TransportError(
            "There is no host {host}: its name cannot be resolved.",
            hint=together(hint, NOT_READ if NOT_READ in hop.remarks else None),
            detail=str(exc),
            host=repr(hop.host),
        ) from exc
    sock = _first(_interleaved(found), hop)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock


_Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""An address of getaddrinfo(3); the last part is the family's own form of a place."""


def _interleaved(found: Sequence[_Address]) -> list[_Address]:
    """Mix address families in turn: when all of one lead nowhere, the other is not last."""
    first = [address for address in found if address[0] == found[0][0]]
    rest = [address for address in found if address[0] != found[0][0]]
    mixed: list[_Address] = []
    while first or rest:
        mixed += first[:1] + rest[:1]
        first, rest = first[1:], rest[1:]
    return mixed


def _first(addresses: list[_Address], hop: Hop) -> socket.socket:
    """Return the first connection that stands; drop the others."""
    deadline = time.monotonic() + hop.connect_timeout_s
    failure = errno.ETIMEDOUT
    with selectors.DefaultSelector() as selector:
        try:
            while (addresses or selector.get_map()) and (left_s := deadline - time.monotonic()) > 0:
                if addresses:
                    failure = _begin(addresses.pop(0), selector) or failure
                    left_s = min(left_s, _NEXT_ADDRESS_S) if selector.get_map() else 0
                for key, _ in selector.select(left_s):
                    sock = key.fileobj
                    assert isinstance(sock, socket.socket)
                    selector.unregister(sock)
                    problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not problem:
                        sock.setblocking(True)
                        return sock
                    failure = problem
                    sock.close()
        finally:
            for key in selector.get_map().values():
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
    raise _unreachable(hop, failure)


def _begin(address: _Address, selector: selectors.BaseSelector) -> int:
    """Begin to connect, in `selector`; else return the error's number."""
    family, kind, protocol, _, place = address
    try:
        sock = socket.socket(family, kind, protocol)
    except OSError as exc:  # this machine has no such family
        return exc.errno or errno.EAFNOSUPPORT
    sock.setblocking(False)
    problem = sock.connect_ex(place)
    if problem not in {0, errno.EINPROGRESS}:
        sock.close()
        return problem
    selector.register(sock, selectors.EVENT_WRITE)
    return 0


_NO_ROUTE = Message.of(
    "Is this machine in the network, or is a gateway (ProxyJump) needed from here?"
)


def _unreachable(hop: Hop, failure: int) -> TransportError:
    place = _place(hop)
    no_route = Message.of("There is no route to {place}.", place=place)
    sentence, remedy = {
        errno.ECONNREFUSED: (
            Message.of("{place} refuses connections: nothing listens on that port.", place=place),
            Message.of("Is the port right, and is its SSH server running?"),
        ),
        errno.ETIMEDOUT: (
            Message.of(
                "{place} did not answer within {seconds} s.",
                place=place,
                seconds=f"{hop.connect_timeout_s:g}",
            ),
            Message.of(
                "Is a VPN or a gateway (ProxyJump) needed from here, or does a firewall drop it?"
            ),
        ),
        errno.EHOSTUNREACH: (no_route, _NO_ROUTE),
        errno.ENETUNREACH: (no_route, _NO_ROUTE),
    }.get(
        failure,
        (
            Message.of("{place} cannot be reached.", place=place),
            Message.of("Is this machine online?"),
        ),
    )
    return TransportError(sentence, hint=remedy, detail=errno.errorcode.get(failure))


def _place(hop: Hop) -> str:
    host = f"[{hop.host}]" if ":" in hop.host else hop.host
    alias = f" ({hop.alias})" if hop.alias != hop.host else ""
    return (host if hop.port == 22 else f"{host}:{hop.port}") + alias


# --- ProxyCommand ---


def _by_command(hop: Hop, command: str) -> HopSocket:
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the stream)
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=errors,
            # Ctrl-C in a terminal is not for it.
            start_new_session=True,
        )
    except OSError as exc:
        ours.close()
        errors.close()
        raise TransportError(
            "The ProxyCommand of {alias} cannot be run: {strerror}.",
            alias=hop.alias,
            strerror=exc.strerror or exc,
        ) from exc
    finally:
        theirs.close()
    return HopSocket(ours, process, errors)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with whatever it has started: it leads a group."""
    _signal(process, signal.SIGTERM)
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
