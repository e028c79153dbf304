"""Shared parts of upload and download: sizes, parallel loads, progress, and the report.

A load is the content of one channel: a batch of small files as one tar, or a part of a large file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from jupyter_slurm.errors import FileAccessError, RequestError
from jupyter_slurm.transport import Completed, Transport
from jupyter_slurm.transport.files.manifest import ManifestEntry

MIB = 1 << 20
BIG_BYTES = 64 * MIB
"""The size from which a file is sent in parts. Complete parts survive a lost connection."""
PART_BYTES = 64 * MIB
BATCH_BYTES = 64 * MIB
AT_ONCE = 4
"""The number of parallel channels. sshd gives each channel a window of 2 MiB (OpenSSH), so a
channel transfers 2 MiB per round trip. With a round trip of 20 ms, four channels are three times as
fast as one. On the same machine, they are equally fast."""
PASSES = 3
"""Maximum number of passes. Another pass retries files that changed while they were read."""

CHANGED = "It changed while it was read."
_TICK_S = 0.25


class Progress(Protocol):
    """The receiver of progress reports. Several threads call it."""

    def planned(self, files: int, size_bytes: int, same: int) -> None:
        """Report the number and size of the files that differ, and the number of equal files."""

    def moved(self, files: int, size_bytes: int) -> None:
        """Report the files and bytes transferred since the last call."""


class Unwatched:
    """A Progress that discards all reports."""

    def planned(self, files: int, size_bytes: int, same: int) -> None: ...

    def moved(self, files: int, size_bytes: int) -> None: ...


@dataclass(slots=True)
class TransferReport:
    files: int = 0
    size_bytes: int = 0
    same: int = 0
    failed: dict[bytes, str] = field(default_factory=dict)
    """Files that did not arrive, with reasons. The receiver never has an incomplete file."""
    left_out: dict[bytes, str] = field(default_factory=dict)
    """Files that cannot be transferred, e.g. sockets or links that point outside the folder, with
    reasons."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a large file."""

    name: bytes
    entry: ManifestEntry
    index: int

    @property
    def offset(self) -> int:
        return self.index * PART_BYTES

    @property
    def size_bytes(self) -> int:
        return min(PART_BYTES, self.entry.size_bytes - self.offset)

    @property
    def end(self) -> int:
        return self.offset + self.size_bytes


def parts_of(name: bytes, entry: ManifestEntry) -> list[Part]:
    count = -(-entry.size_bytes // PART_BYTES)
    return [Part(name, entry, index) for index in range(count)]


def key_of(name: bytes, entry: ManifestEntry) -> str:
    """Return the name of the folder for a large file's parts, `NAME-VERSION`. A changed file has
    another version, so parts of two versions never mix."""
    version = f"{entry.size_bytes} {entry.mtime_ns}".encode()
    return f"{_digest(name)}-{_digest(version)}"


def batches(
    files: Iterable[tuple[bytes, ManifestEntry]], names_bytes: int
) -> Iterator[list[tuple[bytes, ManifestEntry]]]:
    """Yield files in batches of up to `BATCH_BYTES` and about `names_bytes` of names."""
    lot: list[tuple[bytes, ManifestEntry]] = []
    size = names = 0
    for name, entry in files:
        if lot and (size + entry.size_bytes > BATCH_BYTES or names + len(name) > names_bytes):
            yield lot
            lot, size, names = [], 0, 0
        lot.append((name, entry))
        size += entry.size_bytes
        names += len(name)
    if lot:
        yield lot


def run_all(loads: Sequence[Callable[[], object]], tick: Callable[[], None]) -> None:
    """Run the loads in parallel, and call `tick` regularly. After a failure, do not start more
    loads, and raise the error when the running loads have ended."""
    if not loads:
        return
    with ThreadPoolExecutor(min(AT_ONCE, len(loads)), thread_name_prefix="files") as pool:
        waiting: set[Future[object]] = {pool.submit(load) for load in loads}
        try:
            while waiting:
                done, waiting = wait(waiting, _TICK_S, FIRST_EXCEPTION)
                tick()
                for one in done:
                    one.result()
        finally:
            for one in waiting:
                one.cancel()


def succeeded(done: Completed, sentence: str) -> Completed:
    """Return `done`. If the program failed, raise FileAccessError with `sentence` and the program's
    own message."""
    if done.returncode == 0:
        return done
    words = done.stderr.decode(errors="backslashreplace").strip()
    raise FileAccessError(
        sentence,
        hint="Check the disk space, your quota and the permissions.",
        detail=words[-2000:] or None,
    )


def absolute(transport: Transport, path: str) -> str:
    """Return the absolute remote path, without a trailing slash. Relative paths and `~/…` start at
    the home folder. Raises RequestError."""
    if path.startswith("~") and path != "~" and not path.startswith("~/"):
        raise RequestError(f"{path}: `~USER` is not supported.", hint="Write /home/NAME/…")
    if "\0" in path:
        raise RequestError("A path contains a NUL character.")
    below = path.removeprefix("~").lstrip("/") if path.startswith("~") else path
    return str(transport.home() / below)


def quoted(name: bytes) -> bytes:
    """Quote one word for sh."""
    return b"'" + name.replace(b"'", b"'\\''") + b"'"


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=8).hexdigest()
