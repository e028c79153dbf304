"""Where our files lie on this machine: folders and their rights, and nothing else.

Data and runtime folders have the host's name in them, since homes are often shared between hosts
and an agent is one per host. Everything is made 0700, and refused when it belongs to somebody else.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
from pathlib import Path

from jupyter_core import paths

from jupyter_slurm.errors import ConfigError

_RUNTIME_PREFIX = "jupyter-slurm-"
_SOCKET_PATH_BYTES = 100
"""sun_path holds 108 bytes on Linux, 104 on macOS, the closing NUL included (unix(7))."""


def make_private(path: Path) -> None:
    """Make `path` and the missing folders above it, all of them 0700. `parents=True` would leave
    the ones above to the umask, and whoever may write there can put another folder in the place of
    ours."""
    if not path.parent.exists():
        make_private(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def private_dir(path: Path) -> Path:
    """Make `path` (0700) where needed and return it. Raise ConfigError when it cannot be made or
    belongs to another user."""
    try:
        make_private(path)
        info = path.stat()
    except OSError as exc:
        raise ConfigError(
            f"The folder {path} cannot be made: {exc.strerror}.",
            hint="Remove what is in its place, or make room for it; or point JUPYTER_DATA_DIR and "
            "JUPYTER_RUNTIME_DIR elsewhere.",
        ) from exc
    if info.st_uid != os.getuid():
        raise ConfigError(
            f"{path} belongs to another user (uid {info.st_uid}).",
            hint="Remove it, or point JUPYTER_DATA_DIR and JUPYTER_RUNTIME_DIR elsewhere.",
        )
    if stat.S_IMODE(info.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file (0600) so that a reader sees the old content or the new, never half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)


def host() -> str:
    return socket.gethostname().split(".")[0] or "localhost"


def data_dir() -> Path:
    """Return the folder for what must outlive the agent: job records, keys, the log."""
    return private_dir(_data_of_all_hosts() / host())


def kernel_values_dir() -> Path:
    """Return the folder for the values of remote kernels' `--env`. It lies beside the kernelspecs,
    which all hosts that share a home have."""
    return private_dir(_data_of_all_hosts() / "kernel-env")


def _data_of_all_hosts() -> Path:
    return private_dir(Path(paths.jupyter_data_dir()) / "jupyter-slurm")


def spool_dir() -> Path:
    """Return the folder for variables on their way into a job; it is on the same file system as the
    records."""
    return private_dir(data_dir() / "spool")


def runtime_dir() -> Path:
    """Return the folder for the agent's socket and lock. It is short: a socket's path must fit
    `sun_path`.

    Not in XDG_RUNTIME_DIR, which one session of a user has and another has not: that would make
    two agents on one store.
    """
    return private_dir(_runtime_path())


def _runtime_path() -> Path:
    path = Path(paths.jupyter_runtime_dir()) / f"{_RUNTIME_PREFIX}{host()}"
    if len(os.fsencode(path / "agent.sock")) > _SOCKET_PATH_BYTES:
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        path = Path(tempfile.gettempdir()) / f"jslurm-{os.getuid()}-{digest}"
    return path


def lab_page(job_id: str) -> Path:
    """Return the path of the page that leads into a lab. The page holds the lab's token."""
    return private_dir(runtime_dir() / "labs") / f"{job_id}.html"


def lab_pages() -> list[Path]:
    """Return the existing pages; make no folder for them."""
    return list((_runtime_path() / "labs").glob("*.html"))


def is_of_this_host(folder: Path) -> bool:
    """Tell whether `folder`, which may be a `runtime_dir`, is not another host's."""
    name = folder.name
    return not name.startswith(_RUNTIME_PREFIX) or name == f"{_RUNTIME_PREFIX}{host()}"


def config_dirs() -> list[Path]:
    """Return the folders that may hold `clusters.toml` and `clusters.d/*.toml`: the system's first,
    the user's last (a later file wins)."""
    user = paths.jupyter_config_dir()
    # In a virtual environment Jupyter itself puts the environment's folder before the user's.
    others = [folder for folder in reversed(paths.jupyter_config_path()) if folder != user]
    return [Path(folder) / "jupyter-slurm" for folder in (*others, user)]


def user_config_dir() -> Path:
    """Return the folder where `clusters add` and `up` write."""
    return private_dir(Path(paths.jupyter_config_dir()) / "jupyter-slurm")
