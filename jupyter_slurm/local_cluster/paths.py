"""The files of a private cluster: paths, folders and the lock."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from jupyter_slurm.errors import LocalClusterError
from jupyter_slurm.local_cluster.spec import check_name
from jupyter_slurm.places import host, make_private

_PLAIN = re.compile(r"[A-Za-z0-9/_.@+-]+")
_LONGEST_BASE = 80  # a socket's path has 107 bytes (unix(7)); slurmd appends its own names


def folder(name: str = "local") -> Path:
    """Return the folder of the private cluster `name` on this machine; it need not exist. The path
    contains the host, because machines may share home folders.
    """
    check_name(name)
    return Path(jupyter_data_dir(), "jupyter-slurm", "local", host(), name)


@dataclass(frozen=True)
class Paths:
    """The files of one cluster. `folder` contains them. `base` is a path to the same folder, valid
    in slurm.conf and short enough for sockets: the folder itself, or a short symbolic link.
    """

    folder: Path
    base: Path

    @classmethod
    def of(cls, folder: Path) -> Paths:
        text = str(folder)
        if _PLAIN.fullmatch(text) and len(text) <= _LONGEST_BASE:
            return cls(folder, folder)
        digest = hashlib.sha256(os.fsencode(text)).hexdigest()[:12]
        return cls(folder, Path("/tmp", f"jslurm-{os.getuid()}-{digest}"))  # noqa: S108

    @property
    def conf(self) -> Path:
        return self.base / "slurm.conf"

    @property
    def record(self) -> Path:
        return self.base / "cluster.json"

    @property
    def bin(self) -> Path:
        return self.base / "bin"

    @property
    def jobs(self) -> Path:
        return self.base / "jobs"

    @property
    def munge_key(self) -> Path:
        return self.base / "munge.key"

    @property
    def munge_socket(self) -> Path:
        return self.base / "munge.sock"

    @property
    def state(self) -> Path:
        return self.base / "state"

    def spool(self, node: str) -> Path:
        return self.base / "spool" / node

    def gpu(self, position: int) -> Path:
        return self.base / "gpu" / f"nvidia{position}"

    @property
    def task_prolog(self) -> Path:
        return self.base / "task_prolog"

    def log(self, daemon: str) -> Path:
        return self.base / "log" / f"{daemon}.log"

    def daemon(self, daemon: str) -> Path:
        """Return the path of the process record of `daemon`."""
        return self.base / "run" / f"{daemon}.json"

    def make(self) -> None:
        """Create the folders (0700) and, if needed, the link."""
        make_private(self.folder)
        self.folder.chmod(0o700)
        self._link()
        for name in ("bin", "gpu", "jobs", "log", "run", "spool", "state"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)

    def _link(self) -> None:
        if self.base == self.folder:
            return
        with suppress(FileExistsError):
            self.base.symlink_to(self.folder)
        if self.base.lstat().st_uid != os.getuid() or self.base.readlink() != self.folder:
            raise LocalClusterError(
                f"{self.base} exists and does not link to {self.folder}.",
                hint="Remove it, or ask its owner to remove it.",
            )

    def unlink(self) -> None:
        """Remove the link created by `make`, if any."""
        if self.base == self.folder:
            return
        with suppress(FileNotFoundError):
            if self.base.is_symlink() and self.base.lstat().st_uid == os.getuid():
                self.base.unlink()


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Create the folder `place` if missing, and lock it against other processes; wait for the
    lock."""
    fd = _lock(place)
    while fd is None:
        fd = _lock(place)
    try:
        yield
    finally:
        os.close(fd)


def _lock(place: Path) -> int | None:
    """Return the open, locked file in `place`; None if a purge removed it."""
    make_private(place)
    path = place / "lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    fcntl.flock(fd, fcntl.LOCK_EX)
    with suppress(FileNotFoundError):
        if os.path.samestat(path.stat(), os.fstat(fd)):
            return fd
    os.close(fd)
    return None


def remove_empty(place: Path, *, parents: int) -> None:
    """Remove `place` and up to `parents` folders above it while they are empty."""
    with suppress(OSError):
        for candidate in (place, *list(place.parents)[:parents]):
            candidate.rmdir()
