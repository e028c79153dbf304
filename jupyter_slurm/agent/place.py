"""The paths of the agent of this user and host: its socket and its log; this makes neither."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from jupyter_slurm import places

SOCKET_VARIABLE = "JUPYTER_SLURM_AGENT"
"""The socket's path, for processes that would compute another one: a Jupyter server sets it for its
kernels, so that they all meet even where a kernel's folders are not the server's."""


def socket_path() -> Path:
    """Return the path in SOCKET_VARIABLE, if usable from here, else this host's."""
    told = told_path()
    return told if told is not None and _is_here(told) else places.runtime_dir() / "agent.sock"


def told_path() -> Path | None:
    told = os.environ.get(SOCKET_VARIABLE)
    return Path(told) if told else None


def _is_here(path: Path) -> bool:
    """Tell whether an agent at this path is one of this host: its folder exists here, and if the
    folder is named after another host (many hosts see a home), a process listens nevertheless."""
    folder = path.parent
    if not folder.is_dir():
        return False
    return places.is_of_this_host(folder) or _somebody_listens(path)


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
    return True


def log_path() -> Path:
    return places.data_dir() / "agent.log"
