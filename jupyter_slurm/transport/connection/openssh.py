"""Connections that OpenSSH itself has open: a master (`ControlMaster`) lends its login.

Over a master's socket the SSH connection protocol is spoken in clear (PROTOCOL.mux, "proxy" mode,
OpenSSH 7.4 on): no key exchange and no login, which the master has done, with whatever OpenSSH can
and this package cannot (security keys, GSSAPI, PKCS#11).
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path

from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.transport.ssh_transport import SharedTransport

_HELLO, _VERSION = 1, 4
_C_PROXY, _S_PROXY = 0x1000000F, 0x8000000F
_REQUEST = 1
_LENGTH = struct.Struct(">I")
_PAIR = struct.Struct(">II")
_TIMEOUT_S = 5.0
_LONGEST_BYTES = 1 << 16


class _MasterTransport(SharedTransport):
    """Without the beginning of an SSH connection, which the master has seen to."""

    def start_plain(self) -> None:
        # The line that names the program.
        self.packetizer.write_all = _nothing  # type: ignore[method-assign]
        super().start_plain()

    def _expect_packet(self, *_: int) -> None:
        """Do nothing: there is no exchange of keys to wait for."""


def _nothing(out: object) -> None:
    """Send nothing."""


class _NoMasterError(Exception):
    """Nobody there, or not a master that can do this."""


def attach(hop: Hop) -> SharedTransport | None:
    """Connect through the open master of this hop; None: there is none, or it refuses."""
    if hop.control_path is None or not _is_ours(Path(hop.control_path)):
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(_TIMEOUT_S)
    try:
        sock.connect(hop.control_path)
        _ask_for_proxy(sock)
    except (OSError, _NoMasterError):
        sock.close()
        return None
    transport = _MasterTransport(sock)
    transport.start_plain()
    return transport


def _is_ours(path: Path) -> bool:
    """Tell whether the socket is this user's: its owner sees everything that goes through it."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()


def _ask_for_proxy(sock: socket.socket) -> None:
    sock.sendall(_message(_PAIR.pack(_HELLO, _VERSION)))
    if _PAIR.unpack_from(_reply(sock)) != (_HELLO, _VERSION):
        raise _NoMasterError
    sock.sendall(_message(_PAIR.pack(_C_PROXY, _REQUEST)))
    if _PAIR.unpack_from(_reply(sock)) != (_S_PROXY, _REQUEST):
        raise _NoMasterError


def _message(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def _reply(sock: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size))
    if not _PAIR.size <= length <= _LONGEST_BYTES:
        raise _NoMasterError
    return _exactly(sock, length)


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise _NoMasterError
        data += more
    return data
