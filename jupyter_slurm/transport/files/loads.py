"""What sending and bringing files have in common: sizes, loads side by side, progress, outcome.

A load is what one channel carries: a batch of small files as one tar, or a part of a large file.
Knows nothing of which way they go.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from jupyter_slurm.errors import ConnectionLostError, FileAccessError, RequestError
from jupyter_slurm.transport import Completed, Transport
from jupyter_slurm.transport.files.manifest import ManifestEntry

MIB = 1 << 20
BIG_BYTES = 64 * MIB
"""From here on a file goes in parts, each of which is kept when the way there is lost."""
PART_BYTES = 64 * MIB
BATCH_BYTES = 64 * MIB
AT_ONCE = 4
"""sshd gives each channel a window of 2 MiB (OpenSSH), so that one channel carries 2 MiB a round
trip: at 20 ms four are three times as fast, on this very machine as fast as one."""
PASSES = 3
"""How often files are looked at that change while they are read."""

CHANGED = "It changed while it was read."
_TICK_S = 0.25


class Progress(Protocol):
    """Called from several threads."""

    def planned(self, files: int, size_bytes: int, same: int) -> None:
        """Tell what differs, and how many files do not."""

    def moved(self, files: int, size_bytes: int) -> None:
        """Tell how much more was moved than before."""


class Unwatched:
    """A Progress that nobody looks at."""

    def planned(self, files: int, size_bytes: int, same: int) -> None: ...

    def moved(self, files: int, size_bytes: int) -> None: ...


@dataclass(slots=True)
class TransferReport:
    files: int = 0
    size_bytes: int = 0
    same: int = 0
    failed: dict[bytes, str] = field(default_factory=dict)
    """Files that have not arrived, and why: a file is there whole or not at all."""
    left_out: dict[bytes, str] = field(default_factory=dict)
    """Files that are not meant to travel: links that lead outside, sockets."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a large file."""

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
    """Name the folder where a large file's parts gather: `NAME-VERSION`. A file that has changed
    has another, so that parts of two versions never meet."""
    version = f"{entry.size_bytes} {entry.mtime_ns}".encode()
    return f"{_digest(name)}-{_digest(version)}"


def batches(
    files: Iterable[tuple[bytes, ManifestEntry]], names_bytes: int
) -> Iterator[list[tuple[bytes, ManifestEntry]]]:
    """Yield files in lots of up to `BATCH_BYTES` and about `names_bytes` of names."""
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


def carry_out(loads: Sequence[Callable[[], object]], tick: Callable[[], None]) -> None:
    """Run the loads, several at once, and `tick` now and then. The first failure is raised once
    those that run have ended; no further one is begun then."""
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


def check_stop(stop: threading.Event | None) -> None:
    """Raise ConnectionLostError, as the Transport's verbs do, when the transfer was stopped."""
    if stop is not None and stop.is_set():
        raise ConnectionLostError("The transfer was stopped.")


def succeeded(done: Completed, sentence: str) -> Completed:
    """Raise FileAccessError, which says the sentence, with the far side's own words."""
    if done.returncode == 0:
        return done
    words = done.stderr.decode(errors="backslashreplace").strip()
    raise FileAccessError(
        sentence,
        hint="Is the disk full, or over quota? May you write there?",
        detail=words[-2000:] or None,
    )


def absolute(transport: Transport, path: str) -> str:
    """Return a path there, without a last slash: relative ones and `~/…` are from the home."""
    if path.startswith("~") and path != "~" and not path.startswith("~/"):
        raise RequestError(f"{path}: homes of others cannot be named so.", hint="Say /home/NAME/…")
    if "\0" in path:
        raise RequestError("There is a NUL character in a path.")
    below = path.removeprefix("~").lstrip("/") if path.startswith("~") else path
    return str(transport.home() / below)


def shown(name: bytes) -> str:
    """Return a name as text that can be sent and printed, whatever its bytes."""
    return name.decode(errors="backslashreplace")


def quoted(name: bytes) -> bytes:
    """Quote one word for sh."""
    return b"'" + name.replace(b"'", b"'\\''") + b"'"


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=8).hexdigest()
