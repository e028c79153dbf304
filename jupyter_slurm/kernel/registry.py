"""Records of kernels and their jobs on disk, for finding a kernel again.

The connection file identifies a kernel, since it survives restarts of the kernel. After a restart
of Jupyter, the notebook and the kernelspec's options identify it. The process that runs a kernel
holds its lock, so two processes never use the same job. Files have mode 0600, in a folder with mode
0700.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import ConfigError

_FOLDER = "kernels"
_EXPECTED = "expected"
"""The subfolder with the kernel_info of the latest kernel of each kernelspec."""
_KEPT_S = 30 * 86_400.0
"""Seconds to keep the record of an unused kernel."""
_LOCK_S = 10.0
"""Seconds to wait for the previous process to end."""


class Kernel(msgspec.Struct, kw_only=True):
    """The record of a kernel on disk."""

    job_id: str
    words: tuple[str, ...]
    """The options of the kernelspec."""
    notebook: str | None = None
    submitted: bool = False
    """True once the agent has accepted the job. Before that, the job has only an ID."""
    restart: bool = False
    """True if a new ipykernel is requested in the same job."""
    released: bool = False
    """True if the user has ended the kernel or wants a new one. If its job has ended, the kernel
    may then submit another job."""
    left: bool = False
    """True if a client ended the kernel's process and may now start another process
    (`KernelRecord.leave`)."""
    info: dict[str, Any] | None = None
    """The remote kernel's kernel_info."""


class KernelRecord:
    """The record of one kernel, locked until `close` or the process's end.

    `expected` is the kernel_info of the latest kernel with the same options; None for the first
    kernel with these options. Clients request kernel_info only once, before the job runs.
    """

    def __init__(self, name: str, folder: Path, lock: int, words: tuple[str, ...]) -> None:
        self._path = folder / f"{name}.json"
        self._lock_path = folder / f"{name}.lock"
        self._lock = lock
        self._changing = threading.RLock()
        """The lock for changes. The kernel's loop and its job's thread both change the record."""
        self._expected_path = folder / _EXPECTED / f"{_digest(words)}.json"
        self.kernel = _read(self._path)
        self.expected = _read_info(self._expected_path)

    def keep(self, kernel: Kernel) -> None:
        """Write the record to disk. Do not use fsync(2), because the loop that answers clients
        would wait for a busy disk."""
        with self._changing:
            self.kernel = kernel
            places.write_private(self._path, msgspec.json.encode(kernel).decode())

    def change(self, **changes: Any) -> None:
        """Change the record if it has a kernel."""
        with self._changing:
            if self.kernel is None:
                return
            self.keep(msgspec.structs.replace(self.kernel, **changes))

    def learn(self, info: dict[str, Any]) -> None:
        """Store the remote kernel's kernel_info, also for later kernels with the same options."""
        self.change(info=info)
        if info != self.expected:
            self.expected = info
            places.private_dir(self._expected_path.parent)
            places.write_private(self._expected_path, msgspec.json.encode(info).decode())

    def forget(self) -> None:
        with self._changing:
            self.kernel = None
            self._path.unlink(missing_ok=True)
            self._lock_path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Leave the kernel to the next process with the same options. Clients that do not name a
        notebook restart a kernel by ending its process and starting another process with another
        connection file."""
        self.change(left=True, released=True)
        self.close()

    @property
    def is_left(self) -> bool:
        """Return False if another process has taken over the kernel."""
        return self._path.exists()

    def take_back(self) -> bool:
        """Take the kernel back. Return False if another process has it."""
        lock = _locked(self._lock_path, 0.0)
        if lock is None:
            return False
        self._lock, self.kernel = lock, _read(self._path)
        if self.kernel is None:
            self.forget()
        return self.kernel is not None

    def close(self) -> None:
        os.close(self._lock)


def _as_recorded(kernel: Kernel) -> str | None:
    return kernel.notebook


def opened(
    connection_file: Path,
    words: tuple[str, ...],
    notebook: str | None,
    notebook_of: Callable[[Kernel], str | None] = _as_recorded,
) -> KernelRecord:
    """Lock and return the record of the kernel with this connection file. If the record is empty,
    take over the kernel of the same notebook from an earlier Jupyter. Without a notebook, take over
    a kernel that a process has left (`KernelRecord.leave`). `notebook_of` returns the current path
    of a kernel's notebook. Raise ConfigError if another process has the kernel."""
    folder = places.private_dir(places.data_dir() / _FOLDER)
    _remove_old(folder)
    name = connection_file.stem
    lock = _locked(folder / f"{name}.lock", _LOCK_S)
    if lock is None:
        raise ConfigError(f"Another process already runs the kernel {name}.")
    record = KernelRecord(name, folder, lock, words)
    if record.kernel is None:
        for left in _left_behind(folder, words, notebook, notebook_of):
            assert left.kernel is not None
            record.keep(msgspec.structs.replace(left.kernel, left=False))
            left.forget()
            left.close()
            break
    return record


def _left_behind(
    folder: Path,
    words: tuple[str, ...],
    notebook: str | None,
    notebook_of: Callable[[Kernel], str | None],
) -> Iterator[KernelRecord]:
    """Yield this notebook's kernels that do not run and that the user did not end, the newest
    first. Without a notebook, yield the kernels that a process has left (`KernelRecord.leave`)."""
    found = sorted(folder.glob("*.json"), key=lambda path: -path.stat().st_mtime)
    for path in found:
        kernel = _read(path)
        if kernel is None or kernel.words != words or notebook_of(kernel) != notebook:
            continue
        if not kernel.left if notebook is None else kernel.released:
            continue
        lock = _locked(path.with_suffix(".lock"), 0.0)
        if lock is not None:
            yield KernelRecord(path.stem, folder, lock, words)


def _locked(path: Path, patience_s: float) -> int | None:
    deadline_s = time.monotonic() + patience_s
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            if time.monotonic() > deadline_s:
                return None
            time.sleep(0.05)
            continue
        # An earlier holder may have removed the file, and a lock on a removed file does not exclude
        # other processes.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        os.close(lock)


def _read(path: Path) -> Kernel | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kernel)
    except (OSError, msgspec.MsgspecError):
        return None


def _read_info(path: Path) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return None


def _digest(words: tuple[str, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode(words)).hexdigest()[:16]


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_S and path.suffix == ".json":
                lock = _locked(path.with_suffix(".lock"), 0.0)
                if lock is not None:
                    path.unlink(missing_ok=True)
                    path.with_suffix(".lock").unlink(missing_ok=True)
                    os.close(lock)
