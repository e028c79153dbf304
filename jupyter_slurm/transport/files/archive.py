"""A batch of files as a tar stream, with the sh that puts them in place. Sends nothing.

What arrives is below `files/`; the last member, `place.sh`, is written when it is known which files
were read whole. It finds itself in its own folder, `$tmp`, and the target in `$root`.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_slurm.transport.files import ustar
from jupyter_slurm.transport.files.loads import MIB, Progress, quoted
from jupyter_slurm.transport.files.manifest import ManifestEntry


@dataclass(frozen=True, slots=True)
class Batch:
    """The part of it that goes in one archive."""

    gone: Sequence[bytes] = ()
    folders: Mapping[bytes, ManifestEntry] = field(default_factory=dict)
    files: Sequence[tuple[bytes, ManifestEntry]] = ()
    """And links."""

    @property
    def is_empty(self) -> bool:
        return not (self.gone or self.folders or self.files)


_YOUNG_NS = 2_000_000_000
"""A file that is older than this when it is read cannot change any more within the second that its
header names; a younger one gets all digits of its time."""

_MV_BYTES = 64 * 1024
"""The most of names for one mv; a command may have 128 KiB at the least (POSIX says 4 KiB, Linux
gives 2 MiB)."""


class Archive:
    """A batch as a tar stream; what became of each file is known when the stream has ended."""

    def __init__(
        self,
        batch: Batch,
        path: Callable[[bytes], bytes],
        progress: Progress,
    ) -> None:
        """Prepare an archive; `path` gives the file here that a name there stands for."""
        self._batch = batch
        self._path = path
        self._progress = progress
        self._young_ns = time.time_ns() - _YOUNG_NS
        self._spoilt: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.size_bytes = 0
        self.changed: set[bytes] = set()
        self.failed: dict[bytes, str] = {}

    def stream(self) -> Iterator[bytes]:
        chunks = [_header(b"files", ManifestEntry("folder", 0o755, 0, 0))]
        for name, entry in self._batch.folders.items():
            ours = entry._replace(mode=entry.mode | 0o700)  # else nothing could be put in it
            chunks.append(_header(b"files/" + name, ours))
        size = files = content = 0
        for name, entry in self._batch.files:
            for chunk in self._member(name, entry):
                chunks.append(chunk)
                size += len(chunk)
                if size >= MIB:
                    yield b"".join(chunks)
                    self._progress.moved(len(self.sent) - files, self.size_bytes - content)
                    chunks, size, files, content = [], 0, len(self.sent), self.size_bytes
        yield b"".join([*chunks, *member(b"place.sh", self._place_sh()), ustar.END])
        self._progress.moved(len(self.sent) - files, self.size_bytes - content)

    def _member(self, name: bytes, entry: ManifestEntry) -> Iterator[bytes]:
        """Yield one member; nothing for a file that has changed, is gone or cannot be read."""
        if entry.kind == "link":
            self.sent.add(name)
            yield _header(b"files/" + name, entry)
            return
        try:
            file = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            self.changed.add(name)
            return
        except OSError as exc:
            self.failed[name] = f"It cannot be read: {exc.strerror or exc}."
            return
        try:
            yield from self._content(name, entry, file)
        except OSError as exc:
            self._spoilt.add(name)
            self.failed[name] = f"It cannot be read: {exc.strerror or exc}."
        finally:
            os.close(file)

    def _content(self, name: bytes, entry: ManifestEntry, file: int) -> Iterator[bytes]:
        size = entry.size_bytes
        first = os.read(file, min(size + 1, MIB)) if size else b""
        if size <= len(first) and not (len(first) == size and is_still(os.fstat(file), entry)):
            self.changed.add(name)
            return
        if entry.mtime_ns > self._young_ns or entry.mtime_ns < 0:  # a header cannot say that
            yield ustar.exact_time(entry.mtime_ns)
        yield _header(b"files/" + name, entry)
        yield first
        left = size - len(first)
        while left and (chunk := os.read(file, min(left, MIB))):
            left -= len(chunk)
            yield chunk
        yield bytes(left) + ustar.padding(size)
        if left or (size > len(first) and not is_still(os.fstat(file), entry)):
            self.changed.add(name)
            self._spoilt.add(name)
            return
        self.sent.add(name)
        self.size_bytes += size

    def _place_sh(self) -> bytes:
        new = set(self._batch.folders)
        moves: dict[bytes, list[bytes]] = defaultdict(list)
        sent = [name for name, _ in self._batch.files if name in self.sent]
        for name in [*self._batch.folders, *sent]:
            folder, _, last = name.rpartition(b"/")
            if folder not in new:  # else it goes with its folder, in one rename
                moves[folder].append(last)
        lines = [b"rm -f -- %b\n" % quoted(b"files/" + name) for name in self._spoilt]
        for some in _in_lots(self._batch.gone):
            words = b" ".join(quoted(b"./" + one) for one in some)
            lines.append(b'cd -- "$root" && rm -rf -- %b || bad=1\n' % words)
        for folder, names in moves.items():
            below = b"/" + quoted(folder) if folder else b""
            for some in _in_lots(names):
                words = b" ".join(quoted(b"./" + one) for one in some)
                lines.append(
                    b'cd "$tmp"/files%b && mv -f -- %b "$root"%b/ || bad=1\n'
                    % (below, words, below)
                )
        if self.changed or self.failed:
            lines.append(b"bad=1\n")
        return b"".join(lines)


def _in_lots(names: Sequence[bytes]) -> Iterator[list[bytes]]:
    lot: list[bytes] = []
    size = 0
    for name in names:
        if lot and size + len(name) > _MV_BYTES:
            yield lot
            lot, size = [], 0
        lot.append(name)
        size += len(name) + 8
    if lot:
        yield lot


_KINDS = {"file": ustar.FILE, "folder": ustar.FOLDER, "link": ustar.SYMLINK}


def _header(name: bytes, entry: ManifestEntry) -> bytes:
    return ustar.header(
        name,
        size_bytes=entry.size_bytes if entry.kind == "file" else 0,
        mode=entry.mode,
        mtime_ns=entry.mtime_ns,
        kind=_KINDS[entry.kind],
        link=entry.link,
    )


def member(name: bytes, content: bytes) -> tuple[bytes, bytes]:
    return ustar.header(name, size_bytes=len(content)), ustar.padded(content)


def is_still(info: os.stat_result, entry: ManifestEntry) -> bool:
    return info.st_size == entry.size_bytes and info.st_mtime_ns == entry.mtime_ns
