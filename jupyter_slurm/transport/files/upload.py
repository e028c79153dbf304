"""Files from here to there: what differs, as tar streams and parts, each file put in place whole.

On the far side a POSIX sh, tar, mv, dd, `head -c` and find are all there is. What arrives is
unpacked in a folder of its own in `.jupyter-slurm`, beside the files that it replaces; the last
member of each archive, `place.sh`, moves it where it belongs. So an archive that breaks off changes
nothing, and a file that changed while it was read is not placed.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from jupyter_slurm.transport import Completed, Transport
from jupyter_slurm.transport.files import ustar
from jupyter_slurm.transport.files.archive import Archive, Batch, is_still, member
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
    carry_out,
    check_stop,
    key_of,
    parts_of,
    quoted,
    shown,
    succeeded,
)
from jupyter_slurm.transport.files.manifest import ManifestEntry

_NAMES_BYTES = 4 * MIB

# $1 the folder, $2 the archive's name, $3 a file to lock or "", the rest: what to run at last.
_SEND_SH = r"""
export LC_ALL=C
root=$1 state=$1/.jupyter-slurm tmp=$1/.jupyter-slurm/$2 lock=$3 bad=; shift 3
# Twice: another archive, which ends, may just take the folder above away.
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

# $1 the folder, the rest: keys of large files. Says each key with the parts that have arrived.
_OPEN_SH = r"""
parts=$1/.jupyter-slurm/parts; shift
for key do
  mkdir -p -- "$parts/$key" || exit 1
  for old in "$parts/${key%-*}"-*; do [ "$old" = "$parts/$key" ] || rm -rf -- "$old"; done
  echo "$key" $(ls "$parts/$key")
done
"""

# $1 the folder of all parts. To each part belongs a line before it: the file's key, the part's
# number, where to write, in MiB, and how many bytes follow. The line after it, key and number
# again, comes only if all of them did.
_PARTS_SH = r"""
export LC_ALL=C
cd -- "$1" || exit 1
while read -r key number at bytes; do
  head -c "$bytes" | dd of="$key/data" ibs=65536 obs=1048576 seek="$at" conv=notrunc || exit 2
  read -r end && [ "$end" = "$key $number" ] && : >"$key/$number" || {
    echo "not all of it arrived" >&2; exit 3
  }
done
"""


class Upload:
    """One pass: what differs is sent. `again` is what has to be looked at anew, and why."""

    def __init__(
        self,
        transport: Transport,
        sources: dict[bytes, bytes] | bytes,
        root: str,
        outcome: TransferReport,
        progress: Progress,
        stop: threading.Event | None,
    ) -> None:
        """Prepare an upload. `sources`: the folder here, or name there -> path here."""
        self._transport = transport
        self._sources = sources
        self._root = root
        self._outcome = outcome
        self._progress = progress
        self._stop = stop
        self._lock = threading.Lock()
        self.again: dict[bytes, str] = {}

    def send(self, what: Difference, lock: str = "", then: Sequence[str] = ()) -> bool:
        """Send it; return whether `then` was run there: only if all arrived in one archive."""
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
        carry_out([*loads, *streams], _nothing)
        self._finish(large, lock)
        return False

    def path(self, name: bytes) -> bytes:
        """Return the path of the file here."""
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
            succeeded(done, f"The files cannot be written to {self._root}.")
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
        succeeded(done, f"The files cannot be written to {self._root}.")
        for line in done.stdout.decode(errors="replace").splitlines():
            key, *arrived = line.split(" ")
            if key in keys:
                parts, there = parts_of(*keys.pop(key)), set(arrived)
                missing += [part for part in parts if str(part.index) not in there]
        sizes = sum(entry.size_bytes for _, entry in files)
        self._progress.moved(0, sizes - sum(part.size_bytes for part in missing))
        return missing

    def _send_parts(self, parts: deque[Part]) -> None:
        """Send parts until there are none; others take from them, too."""
        folder = f"{self._root}/.jupyter-slurm/parts"
        argv = ["sh", "-c", _PARTS_SH, "parts", folder]
        while (first := self._next(parts)) is not None:
            check_stop(self._stop)
            begun = [first]
            stream = self._unless_stopped(self._stream(begun, parts))
            done = self._transport.send(argv, stream, stop=self._stop)
            if not any(part.name in self.again for part in begun):
                names = " and ".join(dict.fromkeys(shown(part.name) for part in begun))
                succeeded(
                    done,
                    f"{names} cannot be written to {self._root}.",
                )

    def _next(self, parts: deque[Part]) -> Part | None:
        """Take the next part; None: there is no other."""
        while parts:
            with suppress(IndexError):  # somebody else was quicker
                part = parts.popleft()
                if part.name not in self.again:
                    return part
        return None

    def _stream(self, begun: list[Part], parts: deque[Part]) -> Iterator[bytes]:
        """Yield the part in `begun` and those after it, for one program on the host."""
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

    def _content(self, part: Part) -> Iterator[bytes]:
        """Yield what is in a part; end early when the file is no longer what it was: the far side
        then keeps nothing of it."""
        try:
            file = os.open(self.path(part.name), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.again[part.name] = CHANGED
            return
        try:
            at = part.offset
            while at < part.end:
                chunk = os.pread(file, min(MIB, part.end - at), at)
                if not chunk or not is_still(os.fstat(file), part.entry):
                    self.again[part.name] = CHANGED
                    return
                at += len(chunk)
                yield chunk
                self._progress.moved(0, len(chunk))
        finally:
            os.close(file)

    def _unless_stopped(self, source: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in source:
            check_stop(self._stop)
            yield chunk

    def _finish(self, files: Sequence[tuple[bytes, ManifestEntry]], lock: str) -> None:
        """Put the large files in place, whose parts have all arrived."""
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
        succeeded(done, f"The files cannot be put in place in {self._root}.")
        left = set(done.stdout.split(b"\0")) & {name for name, _ in ready}
        self.again |= dict.fromkeys(left, _last_words(done))
        self._outcome.files += len(ready) - len(left)
        self._outcome.size_bytes += sum(e.size_bytes for name, e in ready if name not in left)
        self._progress.moved(len(ready) - len(left), 0)

    def _unchanged(self, name: bytes, entry: ManifestEntry) -> bool:
        try:
            still = is_still(os.stat(self.path(name)), entry)  # noqa: PTH116 (bytes)
        except OSError:
            still = False
        if not still:
            self.again[name] = CHANGED
        return still


def _last_words(done: Completed) -> str:
    return shown(done.stderr).strip().rpartition("\n")[2] or "It cannot be put in place."


def _nothing() -> None: ...
