"""The lock that ensures one agent per user: a flock(2) on `agent.lock` beside the socket. The
operating system releases the lock when the process dies. The file stays and contains the process
ID.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

from jupyter_slurm.agent.place import is_listening
from jupyter_slurm.errors import AgentError

_BACKLOG = 1024  # the system caps it at net.core.somaxconn
_RETRY_S = 0.05


class InstanceLock:
    """A held lock, returned by `take`."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        """The path of the socket."""
        self.lock_fd = lock_fd
        """The descriptor of the lock. It is never closed, because threads may write to the store
        until the process ends."""
        self._socket_id: tuple[int, int] | None = None

    def listen(self) -> socket.socket:
        """Return the listening socket (0600) after removing a dead agent's socket. Raise AgentError
        if the path is too long, if another file exists there, or if the socket cannot be created.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if self.path.is_socket():
                self.path.unlink()
            listener.setblocking(False)
            listener.bind(os.fspath(self.path))
            self.path.chmod(0o600)
            listener.listen(_BACKLOG)
        except OSError as exc:
            listener.close()
            raise AgentError(
                f"The agent cannot listen at {self.path}: {exc}.",
                hint="Set JUPYTER_RUNTIME_DIR to your own folder on a local disk.",
            ) from exc
        self._socket_id = _identity(self.path)
        return listener

    def still_ours(self) -> bool:
        """Return False if the socket or the lock was removed or replaced, so that clients cannot
        find this agent."""
        return self._socket_is_ours() and _identity(_lock_path(self.path)) == _fd_identity(
            self.lock_fd
        )

    def leave(self) -> None:
        """Remove the socket unless another agent has replaced it; keep the lock."""
        if self._socket_is_ours():
            self.path.unlink(missing_ok=True)
        self._socket_id = None

    def _socket_is_ours(self) -> bool:
        return self._socket_id is not None and _identity(self.path) == self._socket_id


def take(path: Path, wait_s: float) -> InstanceLock | None:
    """Take the lock of the socket `path`. Return None if another agent serves it. Wait up to
    `wait_s` for an agent that is exiting. Raise AgentError if that agent does not exit, or if the
    lock file cannot be opened or locked."""
    give_up_s = time.monotonic() + wait_s
    while True:
        fd = _opened(_lock_path(path))
        if _locked(fd, path):
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())
            return InstanceLock(path, fd)
        os.close(fd)
        if is_listening(path):
            return None
        if time.monotonic() > give_up_s:
            pid = _lock_path(path).read_text().strip()
            raise AgentError(
                f"Another agent (pid {pid}) holds {_lock_path(path)} and does not answer.",
                hint=f"End it with `kill {pid}`.",
            )
        time.sleep(_RETRY_S)


def _opened(lock: Path) -> int:
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise AgentError(
            f"The agent cannot open its lock {lock}: {exc.strerror}.",
            hint="Remove the file at that path, or free disk space.",
        ) from exc


def _locked(fd: int, path: Path) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        os.close(fd)
        raise AgentError(
            f"Cannot lock {_lock_path(path)}: {exc.strerror}.",
            hint="Set JUPYTER_RUNTIME_DIR to a folder on a local disk.",
        ) from exc
    # The file may have been removed since it was opened.
    return _identity(_lock_path(path)) == _fd_identity(fd)


def _lock_path(path: Path) -> Path:
    return path.with_name("agent.lock")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        info = path.lstat()
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _fd_identity(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino
