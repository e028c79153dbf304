"""Paths of the socket and the log of this user's agent on this host."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from jupyter_slurm import places

SOCKET_VARIABLE = "JUPYTER_SLURM_AGENT"
"""The environment variable with the socket's path. A Jupyter server sets it for its kernels,
because a kernel may have another runtime folder."""


def socket_path() -> Path:
    """Return the path in SOCKET_VARIABLE if its agent is on this host, otherwise the default."""
    announced = announced_path()
    return (
        announced
        if announced is not None and _is_here(announced)
        else places.runtime_dir() / "agent.sock"
    )


def announced_path() -> Path | None:
    path = os.environ.get(SOCKET_VARIABLE)
    return Path(path) if path else None


def _is_here(path: Path) -> bool:
    """Return whether the agent at this path is on this host. Hosts may share a home, so a folder
    named after another host counts only if a process is listening at this path."""
    folder = path.parent
    if not folder.is_dir():
        return False
    return places.is_of_this_host(folder) or is_listening(path)


def is_listening(path: Path) -> bool:
    """Return whether a process listens at this socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
    return True


def log_path() -> Path:
    return places.data_dir() / "agent.log"
