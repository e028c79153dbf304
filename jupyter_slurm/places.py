"""Our folders on this machine, and their permissions.

Names of data and runtime folders include the host, because hosts often share home folders and each
host has its own agent. Folders are created with mode 0700, and rejected if another user owns them.
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
"""Maximum length of the path of a socket. sun_path holds 108 bytes on Linux and 104 on macOS,
including the closing NUL (unix(7))."""


def make_private(path: Path) -> None:
    """Create `path` and its missing parents, all with mode 0700. `parents=True` would create the
    parents with the umask's mode, and a user who may write to them could replace our folder."""
    if not path.parent.exists():
        make_private(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def private_dir(path: Path) -> Path:
    """Create `path` (0700) if needed and return it. Raise ConfigError if it cannot be created or
    another user owns it."""
    try:
        make_private(path)
        info = path.stat()
    except OSError as exc:
        raise ConfigError(
            f"Cannot create the folder {path}: {exc.strerror}.",
            hint="Remove a file in its place, free disk space, or set JUPYTER_DATA_DIR and "
            "JUPYTER_RUNTIME_DIR to other folders.",
        ) from exc
    if info.st_uid != os.getuid():
        raise ConfigError(
            f"{path} belongs to another user (uid {info.st_uid}).",
            hint="Remove it, or set JUPYTER_DATA_DIR and JUPYTER_RUNTIME_DIR to other folders.",
        )
    if stat.S_IMODE(info.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file (0600) atomically."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)


def host() -> str:
    return socket.gethostname().split(".")[0] or "localhost"


def data_dir() -> Path:
    """Return the folder for files that outlive the agent: job records, keys and the log."""
    return private_dir(_data_of_all_hosts() / host())


def kernel_values_dir() -> Path:
    """Return the folder for the values of remote kernels' `--env`. As with kernelspecs, all hosts
    that share a home use the same folder."""
    return private_dir(_data_of_all_hosts() / "kernel-env")


def _data_of_all_hosts() -> Path:
    return private_dir(Path(paths.jupyter_data_dir()) / "jupyter-slurm")


def spool_dir() -> Path:
    """Return the folder for variables to send to a job, on the file system of the records."""
    return private_dir(data_dir() / "spool")


def runtime_dir() -> Path:
    """Return the folder for the agent's socket and lock. The path is short enough for `sun_path`.

    It is not in XDG_RUNTIME_DIR, because some of the user's login sessions may lack that variable.
    Two agents could then use the same store.
    """
    return private_dir(_runtime_path())


def _runtime_path() -> Path:
    path = Path(paths.jupyter_runtime_dir()) / f"{_RUNTIME_PREFIX}{host()}"
    if len(os.fsencode(path / "agent.sock")) > _SOCKET_PATH_BYTES:
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        path = Path(tempfile.gettempdir()) / f"jslurm-{os.getuid()}-{digest}"
    return path


def lab_page(job_id: str) -> Path:
    """Return the path of the page that opens a lab. The page contains the lab's token."""
    return private_dir(runtime_dir() / "labs") / f"{job_id}.html"


def lab_pages() -> list[Path]:
    """Return the existing pages that open labs. Do not create their folder."""
    return list((_runtime_path() / "labs").glob("*.html"))


def is_of_this_host(folder: Path) -> bool:
    """Return False if `folder` is the `runtime_dir` of another host."""
    name = folder.name
    return not name.startswith(_RUNTIME_PREFIX) or name == f"{_RUNTIME_PREFIX}{host()}"


def config_dirs() -> list[Path]:
    """Return the folders for `clusters.toml` and `clusters.d/*.toml`, from the system's to the
    user's. Later files take precedence."""
    user = paths.jupyter_config_dir()
    # Move the user's folder to the end: in a virtual environment Jupyter puts the environment's
    # folder first.
    others = [folder for folder in reversed(paths.jupyter_config_path()) if folder != user]
    return [Path(folder) / "jupyter-slurm" for folder in (*others, user)]


def user_config_dir() -> Path:
    """Return the folder for the files of `clusters add` and `up`."""
    return private_dir(Path(paths.jupyter_config_dir()) / "jupyter-slurm")
