"""Download of files that differ, as tar streams and parts. The remote side is not trusted, so only
plain files with requested names are accepted. They are written into `.jupyter-slurm` and renamed
through descriptors of real folders below the target, never through a link. Links are created from
the listing, if they point inside the target.
"""

from __future__ import annotations

import os
import secrets
import shlex
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from jupyter_slurm.errors import FileAccessError, TooMuchError
from jupyter_slurm.formatting import size
from jupyter_slurm.transport import Completed, Transport, check_stop
from jupyter_slurm.transport.files import ustar
from jupyter_slurm.transport.files.ignore import STATE
from jupyter_slurm.transport.files.loads import (
    BATCH_BYTES,
    BIG_BYTES,
    CHANGED,
    MIB,
    Part,
    Progress,
    TransferReport,
    batches,
    key_of,
    parts_of,
    run_all,
    succeeded,
)
from jupyter_slurm.transport.files.manifest import (
    Listing,
    ManifestEntry,
    listing_argv,
    parse_listing,
    same,
    shown,
)

_NAMES_BYTES = 48 * 1024
"""Maximum size of the names in a command, in bytes. Linux allows 128 KiB in one argument, including
quotes."""
_OPEN_FOLDERS = 64
_MOST_BYTES = 1 << 50
"""Maximum size of a file to accept if the disk does not report its free space."""
_MEMBER_BYTES = 8 * 1024
"""Maximum number of bytes that tar adds to a file: its header, and the header of a long name."""

_PART_SH = 'cd -- "$1" && exec dd if="./$2" bs=1048576 skip="$3" count="$4"'


def is_safe_name(name: bytes) -> bool:
    """Return whether a remote name is below the target."""
    return all(part not in (b"", b".", b"..") for part in name.split(b"/")) and b"\0" not in name


class DownloadFolder:
    """The local target folder. Its methods do not follow links below it."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self._folders: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        for folder in self._folders.values():
            os.close(folder)
        self._folders.clear()
        for name in (STATE + b"/parts", STATE):
            with suppress(OSError):  # parts of incomplete files
                os.rmdir(self.root + b"/" + name)

    def state(self, name: bytes = b"") -> bytes:
        """Return the path of our folder `.jupyter-slurm`, or of its subfolder `name`. Create the
        folder if missing."""
        with self._lock:
            self._open(STATE + b"/" + name if name else STATE)
        return self.root + b"/" + STATE + (b"/" + name if name else b"")

    def place(self, arrived: bytes, name: bytes, entry: ManifestEntry) -> None:
        """Move the complete file `arrived` to `name`. Raises OSError."""
        os.chmod(arrived, (entry.mode & 0o777) | 0o600)
        os.utime(arrived, ns=(entry.mtime_ns, entry.mtime_ns))
        with self._lock:
            folder, _, last = name.rpartition(b"/")
            os.rename(arrived, last, dst_dir_fd=self._open(folder))

    def link(self, name: bytes, target: bytes) -> None:
        with self._lock:
            folder, _, last = name.rpartition(b"/")
            parent = self._open(folder)
            new = b".%b" % secrets.token_hex(8).encode()
            os.symlink(target, new, dir_fd=parent)
            try:
                os.rename(new, last, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(new, dir_fd=parent)
                raise

    def folder(self, name: bytes) -> None:
        with self._lock:
            self._open(name)

    def _open(self, name: bytes) -> int:
        """Return a descriptor of a real folder, never of a link. Create the folder if missing."""
        known = self._folders.get(name)
        if known is not None:
            self._folders.move_to_end(name)
            return known
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        if not name:
            opened = os.open(self.root, flags)
        else:
            folder, _, last = name.rpartition(b"/")
            parent = self._open(folder)
            with suppress(FileExistsError):
                os.mkdir(last, dir_fd=parent)
            opened = os.open(last, flags | os.O_NOFOLLOW, dir_fd=parent)
        self._folders[name] = opened
        if len(self._folders) > _OPEN_FOLDERS:
            os.close(self._folders.popitem(last=False)[1])
        return opened


class Download:
    """One pass over the files that differ. `again` contains the files to retry, with reasons."""

    def __init__(
        self,
        transport: Transport,
        root: str,
        target: DownloadFolder,
        local_name: Callable[[bytes], bytes],
        outcome: TransferReport,
        progress: Progress,
        stop: threading.Event | None,
    ) -> None:
        self._transport = transport
        self._root = root
        self._target = target
        self._local_name = local_name
        self._outcome = outcome
        self._progress = progress
        self._stop = stop
        self._lock = threading.Lock()
        self._flowing: dict[int, int] = {}
        """The file position at the last progress report, by file descriptor."""
        self.again: dict[bytes, str] = {}

    def bring(self, files: Sequence[tuple[bytes, ManifestEntry]]) -> None:
        small = [one for one in files if one[1].size_bytes < BIG_BYTES]
        large = [one for one in files if one[1].size_bytes >= BIG_BYTES and self._fits(*one)]
        parts = [part for one in large for part in self._missing_parts(*one)]
        run_all(
            [
                *(partial(self._bring_archive, lot) for lot in batches(small, _NAMES_BYTES)),
                *(partial(self._bring_part, part) for part in parts),
            ],
            self._tell,
        )
        if large:
            self._finish(large)

    def put(self, name: bytes, make: Callable[[], None]) -> bool:
        """Run `make`; return whether the local file system allowed it."""
        try:
            make()
        except OSError as exc:
            why = exc.strerror or str(exc)
            with self._lock:
                self._outcome.failed[name] = f"Cannot write it on this machine: {why}."
            return False
        return True

    # --- archives ---

    def _bring_archive(self, lot: list[tuple[bytes, ManifestEntry]]) -> None:
        check_stop(self._stop)
        asked = dict(lot)
        with tempfile.TemporaryFile(dir=os.fsdecode(self._target.state())) as archive:
            words = shlex.join([os.fsdecode(b"./" + name) for name in asked])
            script = f"cd -- {shlex.quote(self._root)} && LC_ALL=C exec tar -chf - -- {words}"
            done = self._receive(["sh", "-c", script], archive, _most_archived(asked))
            believed = asked if done.returncode == 0 else self._still_same(asked)
            archive.seek(0)
            try:
                arrived = set(self._unpack(archive, believed))
            except ustar.DamagedError as exc:
                succeeded(done, f"Cannot read the files in {self._root}.")
                raise FileAccessError(f"The files of {self._root} arrived damaged: {exc}.") from exc
        words = shown(done.stderr).strip()
        with self._lock:
            self.again |= dict.fromkeys(asked.keys() - believed.keys(), CHANGED)
            for name in believed.keys() - arrived - self._outcome.failed.keys():
                self._outcome.failed[name] = (
                    f"Cannot read it on the cluster: {_line_of(name, words)}"
                )

    def _unpack(self, archive: BinaryIO, asked: dict[bytes, ManifestEntry]) -> Iterator[bytes]:
        """Move requested files into place and yield their names."""
        temporary = self._target.state() + b"/" + secrets.token_hex(8).encode()
        seen: dict[bytes, ustar.Member] = {}
        for found in ustar.members(archive):
            name = found.name.removeprefix(b"./")
            entry = asked.get(name)
            is_again = found.kind == ustar.HARD_LINK  # another name for a file already received
            member = seen.get(found.link.removeprefix(b"./"), found) if is_again else found
            if entry is None or member.kind != ustar.FILE:
                continue
            seen[name] = member
            if entry.mtime_ns // 1_000_000_000 != member.mtime_ns // 1_000_000_000:
                entry = entry._replace(mtime_ns=member.mtime_ns)
            if self.put(name, partial(self._write, archive, member, temporary, name, entry)):
                with self._lock:
                    self._outcome.files += 1
                    self._outcome.size_bytes += member.size_bytes
                self._progress.moved(1, 0)
                yield name

    def _write(
        self,
        archive: BinaryIO,
        member: ustar.Member,
        temporary: bytes,
        name: bytes,
        entry: ManifestEntry,
    ) -> None:
        at, end = member.offset, member.offset + member.size_bytes
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(temporary, flags, 0o600)
        try:
            while at < end:
                chunk = os.pread(archive.fileno(), min(MIB, end - at), at)
                if not chunk:
                    raise ustar.DamagedError(f"it ends in the middle of {shown(name)}")
                at += os.write(file, chunk)
        finally:
            os.close(file)
        self._target.place(temporary, self._local_name(name), entry)

    def _still_same(self, asked: dict[bytes, ManifestEntry]) -> dict[bytes, ManifestEntry]:
        """After tar has failed, return the entries that have not changed since the listing."""
        now = self._list(list(asked))
        return {
            name: entry
            for name, entry in asked.items()
            if name in now.entries and same(now.entries[name], entry)
        }

    def _list(self, names: Sequence[bytes]) -> Listing:
        done = self._transport.run(listing_argv(self._root, names))
        succeeded(done, f"Cannot list {self._root}.")
        try:
            return parse_listing(done.stdout)
        except ValueError as exc:
            raise FileAccessError(f"Cannot list {self._root} on the cluster: {exc}.") from exc

    # --- large files ---

    def _missing_parts(self, name: bytes, entry: ManifestEntry) -> list[Part]:
        key = key_of(name, entry).encode()
        folder = Path(os.fsdecode(self._target.state(b"parts/" + key)))
        for old in folder.parent.glob(f"{key.decode().partition('-')[0]}-*"):
            if old != folder:
                _remove(old)
        arrived = {path.name for path in folder.iterdir()}
        missing = [part for part in parts_of(name, entry) if str(part.index) not in arrived]
        left = sum(part.size_bytes for part in missing)
        self._progress.moved(0, entry.size_bytes - left)
        return missing

    def _fits(self, name: bytes, entry: ManifestEntry) -> bool:
        """Return whether the local disk has room for the file."""
        disk = os.statvfs(self._target.root)
        free_bytes = disk.f_bavail * disk.f_frsize if disk.f_blocks else _MOST_BYTES
        with suppress(OSError):
            begun = self._target.root + b"/%b/parts/%b/data" % (STATE, key_of(name, entry).encode())
            free_bytes += os.stat(begun).st_blocks * 512
        if entry.size_bytes <= free_bytes:
            return True
        self._outcome.failed[name] = (
            f"Its size is {size(entry.size_bytes)}, but this machine has only "
            f"{size(free_bytes)} free."
        )
        return False

    def _parts_folder(self, name: bytes, entry: ManifestEntry) -> bytes:
        return self._target.state(b"parts/" + key_of(name, entry).encode())

    def _bring_part(self, part: Part) -> None:
        check_stop(self._stop)
        folder = self._parts_folder(part.name, part.entry)
        data = os.open(folder + b"/data", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(data, "r+b", buffering=0) as sink:
            sink.seek(part.offset)
            count = -(-part.size_bytes // MIB)
            words = [self._root, os.fsdecode(part.name), str(part.offset // MIB), str(count)]
            done = self._receive(["sh", "-c", _PART_SH, "part", *words], sink, count * MIB)
            arrived = sink.seek(0, os.SEEK_CUR) - part.offset
        if done.returncode == 0 and arrived == part.size_bytes:
            Path(os.fsdecode(folder), str(part.index)).touch()
        else:
            said = shown(done.stderr).strip().rpartition("\n")[2]
            self.again[part.name] = said if done.returncode else CHANGED

    def _finish(self, files: Sequence[tuple[bytes, ManifestEntry]]) -> None:
        """Move large files into place if all parts of one version have arrived."""
        now = self._list([name for name, _ in files]).entries
        for name, entry in files:
            if name in self.again:
                continue
            if name not in now or not same(now[name], entry):
                self.again[name] = CHANGED
                continue
            folder = self._parts_folder(name, entry)
            place = partial(self._target.place, folder + b"/data", self._local_name(name), entry)
            if self.put(name, place):
                _remove(Path(os.fsdecode(folder)))
                self._outcome.files += 1
                self._outcome.size_bytes += entry.size_bytes
                self._progress.moved(1, 0)

    # --- progress ---

    def _receive(self, argv: Sequence[str], sink: BinaryIO, most_bytes: int) -> Completed:
        file = sink.fileno()
        with self._lock:
            self._flowing[file] = os.lseek(file, 0, os.SEEK_CUR)
        try:
            return self._transport.receive(argv, sink, most_bytes=most_bytes, stop=self._stop)
        except TooMuchError as exc:
            raise FileAccessError(
                f"The files in {self._root} are larger than listed, so they were not copied.",
                hint="Copy them once no program is writing to them.",
            ) from exc
        finally:
            self._tell()
            with self._lock:
                del self._flowing[file]

    def _tell(self) -> None:
        with self._lock:
            for file, told in self._flowing.items():
                at = os.lseek(file, 0, os.SEEK_CUR)
                self._progress.moved(0, at - told)
                self._flowing[file] = at


def _most_archived(asked: dict[bytes, ManifestEntry]) -> int:
    """Return the maximum size of the archive. Files may have grown since they were listed."""
    sizes = sum(entry.size_bytes + 2 * len(name) for name, entry in asked.items())
    return 2 * sizes + len(asked) * _MEMBER_BYTES + BATCH_BYTES


def _line_of(name: bytes, words: str) -> str:
    """Return tar's error about the file."""
    about = [line for line in words.splitlines() if shown(name) in line]
    return (about or words.splitlines() or ["no message from tar"])[-1]


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
