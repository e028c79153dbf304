"""The user at the other end of a Unix socket, and the owner of a socket file."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from pathlib import Path

from jupyter_slurm.errors import AgentError

_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1  # macOS: sys/un.h; Python does not define them


def peer_uid(connection: socket.socket) -> int:
    """Return the uid of the process at the other end. Raise OSError if it is unknown."""
    if sys.platform == "darwin":
        # struct xucred: u_int cr_version; uid_t cr_uid; … (sys/ucred.h)
        credentials = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, struct.calcsize("2I"))
        return int(struct.unpack("2I", credentials)[1])
    # struct ucred: pid_t pid; uid_t uid; gid_t gid (unix(7), SO_PEERCRED)
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return int(struct.unpack("3i", credentials)[1])


def check_socket_file(path: Path) -> None:
    """Raise AgentError if another user may have created or replaced the socket, FileNotFoundError
    if it does not exist."""
    folder = path.parent.stat()
    if folder.st_uid != os.getuid() or stat.S_IMODE(folder.st_mode) & 0o077:
        raise AgentError(
            f"The agent's folder {path.parent} is not private to you (uid {folder.st_uid}, mode "
            f"{stat.S_IMODE(folder.st_mode):04o}).",
            hint=f"If it is yours, run `chmod 700 '{path.parent}'`. Otherwise unset "
            "JUPYTER_SLURM_AGENT and set JUPYTER_RUNTIME_DIR to your own folder.",
        )
    info = path.lstat()
    if info.st_uid != os.getuid() or not stat.S_ISSOCK(info.st_mode):
        raise AgentError(
            f"{path} is not a socket that you own (uid {info.st_uid}).",
            hint="Remove it.",
        )
