"""Upload of files that differ, as tar streams and parts.

The cluster needs a POSIX sh, tar, mv, GNU dd and GNU find. An archive is unpacked in its own folder
below `.jupyter-slurm`, on the same file system. Its last member, `place.sh`, moves the files into
place. So an incomplete archive does not change the folder, and a file that changed while it was
read is not placed.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from jupyter_slurm.transport import Completed, FilePart, Transport, check_stop
from jupyter_slurm.transport.files import ustar
from jupyter_slurm.transport.files.difference import Difference
from jupyter_slurm.transport.files.loads import (
    AT_ONCE,
    BIG_BYTES,
    CHANGED,
    MIB,
    Part,
    Progress,
    TransferReport,
    batches,
    key_of,
    parts_of,
    quoted,
    run_all,
    succeeded,
)
from jupyter_slurm.transport.files.manifest import ManifestEntry, shown


@dataclass(frozen=True, slots=True)
class Batch:
    """The content of one archive."""

    gone: Sequence[bytes] = ()
    folders: Mapping[bytes, ManifestEntry] = field(default_factory=dict)
    files: Sequence[tuple[bytes, ManifestEntry]] = ()
    """Files to send, including links."""

    @property
    def is_empty(self) -> bool:
        return not (self.gone or self.folders or self.files)


_YOUNG_NS = 2_000_000_000
"""Age from which a file's header needs only whole seconds, because the file cannot change again
within that second. A younger file gets all digits of its time."""

_MV_BYTES = 64 * 1024
"""Maximum size of the names for one mv, in bytes. Linux allows 2 MiB of arguments."""


class Archive:
    """A batch as a tar stream. The result for each file is known once the whole stream is sent."""

    def __init__(
        self,
        batch: Batch,
        path: Callable[[bytes], bytes],
        progress: Progress,
    ) -> None:
        """Prepare an archive; `path` returns the local file of a remote name."""
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
            ours = entry._replace(mode=entry.mode | 0o700)  # to put files into it
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
        """Yield one member, or nothing for a file that has changed, is gone or cannot be read."""
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
            self.failed[name] = _unreadable(exc)
            return
        try:
            yield from self._content(name, entry, file)
        except OSError as exc:
            self._spoilt.add(name)
            self.failed[name] = _unreadable(exc)
        finally:
            os.close(file)

    def _content(self, name: bytes, entry: ManifestEntry, file: int) -> Iterator[bytes]:
        size = entry.size_bytes
        first = os.read(file, min(size + 1, MIB)) if size else b""
        if size <= len(first) and not (len(first) == size and is_still(os.fstat(file), entry)):
            self.changed.add(name)
            return
        # The header cannot express these times.
        if entry.mtime_ns > self._young_ns or entry.mtime_ns < 0:
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
            if folder not in new:  # otherwise it moves with its folder
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


_NAMES_BYTES = 4 * MIB
_Chunk = TypeVar("_Chunk")

# $1 is the folder, $2 the archive's name, and $3 a file to lock or "". The other arguments are a
# command to run at the end.
_SEND_SH = r"""
export LC_ALL=C
root=$1 state=$1/.jupyter-slurm tmp=$1/.jupyter-slurm/$2 lock=$3 bad=; shift 3
# Try twice: another archive's clean-up may remove the parent folder at this moment.
mkdir -p -- "$tmp" 2>/dev/null || mkdir -p -- "$tmp" || exit 1
cd -- "$tmp" || exit 1
clean_up() { cd /; rm -rf -- "$tmp"; rmdir "$state/parts" "$state" 2>/dev/null; }
trap clean_up EXIT
tar -xpof - >&2 || exit 2
[ -f place.sh ] || { echo "the archive ended too early" >&2; exit 2; }
if [ -n "$lock" ] && command -v flock >/dev/null 2>&1; then exec 9>"$lock" && flock 9; fi
. ./place.sh
cd -- "$tmp" && [ -d files ] && find files ! -type d -exec printf '%s\0' {} +
clean_up
[ -z "$bad" ] || { printf 'bad\0'; exit 0; }
[ $# = 0 ] && exit 0
"$@" >&2 && printf 'ran\0' || exit 3
"""

# $1 is the folder, and the other arguments are keys of large files. The script prints each key with
# the parts that have arrived.
_OPEN_SH = r"""
parts=$1/.jupyter-slurm/parts; shift
for key do
  mkdir -p -- "$parts/$key" || exit 1
  for old in "$parts/${key%-*}"-*; do [ "$old" = "$parts/$key" ] || rm -rf -- "$old"; done
  echo "$key" $(ls "$parts/$key")
done
"""

# $1 is the folder of all parts. On standard input, a line with the file's key and the part's
# number, offset in MiB and size in bytes precedes each part. A line with key and number follows if
# the part is complete.
_PARTS_SH = r"""
export LC_ALL=C
cd -- "$1" || exit 1
while read -r key number at bytes; do
  dd of="$key/data" bs=1048576 seek="$at" count="$bytes" iflag=fullblock,count_bytes \
    conv=notrunc || exit 2
  read -r end && [ "$end" = "$key $number" ] && : >"$key/$number" || {
    echo "not all of it arrived" >&2; exit 3
  }
done
"""


class Upload:
    """One pass over the files that differ. `again` contains the files to retry, with reasons."""

    def __init__(
        self,
        transport: Transport,
        sources: dict[bytes, bytes] | bytes,
        root: str,
        outcome: TransferReport,
        progress: Progress,
        stop: threading.Event | None,
    ) -> None:
        """Prepare an upload. `sources` is the local folder, or the local paths by remote name."""
        self._transport = transport
        self._sources = sources
        self._root = root
        self._outcome = outcome
        self._progress = progress
        self._stop = stop
        self._lock = threading.Lock()
        self.again: dict[bytes, str] = {}

    def send(self, what: Difference, lock: str = "", then: Sequence[str] = ()) -> bool:
        """Send the changes. Return whether `then` ran: it runs only if all changes arrive in one
        archive."""
        large = [one for one in what.files if one[1].size_bytes >= BIG_BYTES]
        small = [one for one in what.files if one[1].size_bytes < BIG_BYTES]
        lots = list(batches([*what.links, *small], _NAMES_BYTES))
        first = Batch(what.gone, what.folders, lots[0] if len(lots) == 1 and not large else [])
        if len(lots) <= 1 and not large:
            return not first.is_empty and self._send_archive(first, lock, then)
        if not first.is_empty:
            self._send_archive(first, lock)
        parts = self._missing_parts(large)
        loads = [partial(self._send_archive, Batch(files=lot), lock) for lot in lots]
        streams = [partial(self._send_parts, parts)] * min(AT_ONCE, len(parts))
        run_all([*loads, *streams], _nothing)
        self._finish(large, lock)
        return False

    def path(self, name: bytes) -> bytes:
        """Return the local path of the file."""
        if isinstance(self._sources, bytes):
            return self._sources + b"/" + name
        return self._sources[name]

    # --- archives ---

    def _send_archive(self, batch: Batch, lock: str, then: Sequence[str] = ()) -> bool:
        check_stop(self._stop)
        archive = Archive(batch, self.path, self._progress)
        name = secrets.token_hex(8)
        argv = ["sh", "-c", _SEND_SH, "push", self._root, name, lock, *then]
        done = self._transport.send(argv, self._unless_stopped(archive.stream()), stop=self._stop)
        if done.returncode:
            succeeded(done, f"Cannot write the files to {self._root}.")
        told = done.stdout.split(b"\0")
        left = {one.removeprefix(b"files/") for one in told if one.startswith(b"files/")}
        if b"bad" in told and not (left or archive.changed or archive.failed):
            left = {*batch.gone, *batch.folders}
        with self._lock:
            self.again |= dict.fromkeys(archive.changed, CHANGED)
            self.again |= dict.fromkeys(left, _last_words(done))
            self._outcome.failed |= archive.failed
            self._outcome.files += len(archive.sent) - len(left & archive.sent)
            self._outcome.size_bytes += archive.size_bytes
        return b"ran" in told

    # --- large files ---

    def _missing_parts(self, files: Sequence[tuple[bytes, ManifestEntry]]) -> deque[Part]:
        missing: deque[Part] = deque()
        if not files:
            return missing
        keys = {key_of(name, entry): (name, entry) for name, entry in files}
        done = self._transport.run(["sh", "-c", _OPEN_SH, "open", self._root, *keys])
        succeeded(done, f"Cannot write the files to {self._root}.")
        for line in done.stdout.decode(errors="replace").splitlines():
            key, *arrived = line.split(" ")
            if key in keys:
                parts, there = parts_of(*keys.pop(key)), set(arrived)
                missing += [part for part in parts if str(part.index) not in there]
        sizes = sum(entry.size_bytes for _, entry in files)
        self._progress.moved(0, sizes - sum(part.size_bytes for part in missing))
        return missing

    def _send_parts(self, parts: deque[Part]) -> None:
        """Send parts until none are left. Parallel calls share the work."""
        folder = f"{self._root}/.jupyter-slurm/parts"
        argv = ["sh", "-c", _PARTS_SH, "parts", folder]
        while (first := self._next(parts)) is not None:
            check_stop(self._stop)
            begun = [first]
            stream = self._unless_stopped(self._stream(begun, parts))
            try:
                done = self._transport.send(argv, stream, stop=self._stop)
            except OSError as exc:  # while reading the last part
                self.again[begun[-1].name] = _unreadable(exc)
                continue
            if not any(part.name in self.again for part in begun):
                names = " and ".join(dict.fromkeys(shown(part.name) for part in begun))
                succeeded(
                    done,
                    f"Cannot write {names} to {self._root}.",
                )

    def _next(self, parts: deque[Part]) -> Part | None:
        """Take the next part. Return None if all are taken."""
        while parts:
            with suppress(IndexError):  # another thread was faster
                part = parts.popleft()
                if part.name not in self.again:
                    return part
        return None

    def _stream(self, begun: list[Part], parts: deque[Part]) -> Iterator[bytes | FilePart]:
        """Yield the last part in `begun` and the following parts, as the input of one remote
        program. Add the following parts to `begun`."""
        part: Part | None = begun[-1]
        while part is not None:
            named = f"{key_of(part.name, part.entry)} {part.index}"
            yield f"{named} {part.offset // MIB} {part.size_bytes}\n".encode()
            yield from self._content(part)
            if part.name in self.again:
                return
            yield f"{named}\n".encode()
            part = self._next(parts)
            if part is not None:
                begun.append(part)

    def _content(self, part: Part) -> Iterator[FilePart]:
        """Yield the content of a part; end early if the file has changed, so that the part is
        discarded."""
        try:
            with open(self.path(part.name), "rb", buffering=0) as file:
                for at in range(part.offset, part.end, MIB):
                    size = min(MIB, part.end - at)
                    yield FilePart(file, at, size)
                    if not is_still(os.fstat(file.fileno()), part.entry):
                        self.again[part.name] = CHANGED
                        return
                    self._progress.moved(0, size)
        except FileNotFoundError:
            self.again[part.name] = CHANGED
        except OSError as exc:
            self.again[part.name] = _unreadable(exc)

    def _unless_stopped(self, source: Iterator[_Chunk]) -> Iterator[_Chunk]:
        for chunk in source:
            check_stop(self._stop)
            yield chunk

    def _finish(self, files: Sequence[tuple[bytes, ManifestEntry]], lock: str) -> None:
        """Move large files into place if all their parts have arrived."""
        ready = [one for one in files if one[0] not in self.again and self._unchanged(*one)]
        if not ready:
            return
        stamps, lines = [b""], [b""]
        for number, (name, entry) in enumerate(ready):
            stamp = b"stamps/%d" % number
            when = entry.mtime_ns
            stamps += [ustar.exact_time(when), ustar.header(stamp, mtime_ns=when)]
            lines.append(
                b'parts="$state/parts/%b"\n'
                b'chmod %o "$parts/data" &&\n'
                b'  touch -r %b "$parts/data" && mv -f -- "$parts/data" "$root"/%b &&\n'
                b'  rm -rf -- "$parts" || { bad=1; printf "%%s\\0" %b; }\n'
                % (
                    key_of(name, entry).encode(),
                    entry.mode,
                    stamp,
                    quoted(name),
                    quoted(name),
                )
            )
        place = b"".join(lines)
        archive = b"".join([*stamps, *member(b"place.sh", place), ustar.END])
        argv = ["sh", "-c", _SEND_SH, "push", self._root, secrets.token_hex(8), lock]
        done = self._transport.send(argv, [archive], stop=self._stop)
        succeeded(done, f"Cannot move the files into place in {self._root}.")
        left = set(done.stdout.split(b"\0")) & {name for name, _ in ready}
        self.again |= dict.fromkeys(left, _last_words(done))
        self._outcome.files += len(ready) - len(left)
        self._outcome.size_bytes += sum(e.size_bytes for name, e in ready if name not in left)
        self._progress.moved(len(ready) - len(left), 0)

    def _unchanged(self, name: bytes, entry: ManifestEntry) -> bool:
        try:
            still = is_still(os.stat(self.path(name)), entry)
        except OSError:
            still = False
        if not still:
            self.again[name] = CHANGED
        return still


def _unreadable(error: OSError) -> str:
    return f"Cannot read it: {error.strerror or error}."


def _last_words(done: Completed) -> str:
    return shown(done.stderr).strip().rpartition("\n")[2] or "Cannot move it into place."


def _nothing() -> None: ...
