"""Where the agent of this user and host is found: its socket and its log; nothing is made here."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_slurm import places

SOCKET_VARIABLE = "JUPYTER_SLURM_AGENT"
"""The socket's path, for those who would compute another one: a Jupyter server sets it for its
kernels, so that they all meet even where a kernel's folders are not the server's."""


def socket_path() -> Path:
    given = os.environ.get(SOCKET_VARIABLE)
    return Path(given) if given else places.runtime_dir() / "agent.sock"


def log_path() -> Path:
    return places.data_dir() / "agent.log"
