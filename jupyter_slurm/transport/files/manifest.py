"""Listings of a folder, local and remote, and the comparison of two files. This module does not
send files; the caller runs one GNU `find` on the cluster. Names are bytes, relative to the folder,
without `./`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from jupyter_slurm.errors import FileAccessError
from jupyter_slurm.transport import limits
from jupyter_slurm.transport.files.ignore import STATE, Exclusion

Kind = Literal["file", "folder", "link", "other"]

_SECOND = 1_000_000_000
_MOST_NUMBER = 1 << 63
_LISTED_BYTES = 1 << 20
"""Bytes of a listing to parse at a time; paths and links have at most 4 KiB each."""
_COARSE_NS = (100, 1_000, 1_000_000, _SECOND)
"""The units, in nanoseconds, to which NTFS, NFS servers and tar round down times."""


class TooManyError(ValueError):
    """The listing has too many entries."""


class ManifestEntry(NamedTuple):
    kind: Kind
    mode: int
    """Permission bits, without the set-uid, set-gid and sticky bits."""
    size_bytes: int
    mtime_ns: int
    link: bytes = b""
    """A link's target."""


@dataclass(frozen=True, slots=True)
class Listing:
    top: Kind | None
    """The kind of the path itself; None if it does not exist."""
    entries: dict[bytes, ManifestEntry] = field(default_factory=dict)
    """The entries, with folders before their content. If the path is not a folder, the only entry
    is the path itself, named b""."""
    unread: dict[bytes, str] = field(default_factory=dict)
    """The reasons why paths could not be examined, by path."""


def same(one: ManifestEntry, other: ManifestEntry) -> bool:
    """Return whether the entries are equal. Of the mode, only the owner's `x` bit counts, because
    file systems change the other bits."""
    if one.kind != other.kind:
        return False
    if one.kind == "file":
        return (
            one.size_bytes == other.size_bytes
            and not (one.mode ^ other.mode) & stat.S_IXUSR
            and same_time(one.mtime_ns, other.mtime_ns)
        )
    return one.link == other.link


def same_time(one_ns: int, other_ns: int) -> bool:
    """Return whether the times are equal, if necessary after rounding one of them down to a unit of
    `_COARSE_NS`."""
    if one_ns == other_ns:
        return True
    low, high = sorted((one_ns, other_ns))
    return any(low == high - high % step for step in _COARSE_NS)


def scan(root: bytes, exclusion: Exclusion) -> Listing:
    """List the local folder `root` without following links. Raise FileAccessError if it cannot be
    read."""
    found = Listing("folder")
    folders = [b""]
    while folders:
        folder = folders.pop()
        path = root + b"/" + folder if folder else root
        exclusion.enter(folder, path)
        try:
            with os.scandir(path) as inside:
                for one in inside:
                    name = folder + b"/" + one.name if folder else one.name
                    is_folder = one.is_dir(follow_symlinks=False)
                    if name == STATE or exclusion.leaves_out(name, folder=is_folder):
                        continue
                    found.entries[name] = entry_of(one.stat(follow_symlinks=False), one.path)
                    if is_folder:
                        folders.append(name)
        except OSError as exc:
            if not folder:
                raise FileAccessError(f"Cannot read {shown(root)}: {exc.strerror}.") from exc
            found.unread[folder] = exc.strerror or str(exc)
    return found


def entry_of(info: os.stat_result, path: bytes) -> ManifestEntry:
    kind = _KINDS.get(stat.S_IFMT(info.st_mode), "other")
    link = os.readlink(path) if kind == "link" else b""
    return ManifestEntry(kind, info.st_mode & 0o777, info.st_size, info.st_mtime_ns, link)


_KINDS: dict[int, Kind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
}

# $1 is the path. $2 is "" or a file: list only entries that changed after it. The other arguments,
# if any, are the only names to list.
_LIST_SH = r"""
export LC_ALL=C
top=$1 since=$2 follow=-P; shift 2
if [ -d "$top" ]; then
  cd -- "$top" || exit
  echo folder
  [ $# = 0 ] && set -- .
elif [ -e "$top" ] || [ -L "$top" ]; then
  echo file
  cd -- "${top%/*}/" || exit
  set -- "./${top##*/}"
  follow=-H
else
  echo none; exit 0
fi
find . -maxdepth 0 -printf '' || exit
if [ -n "$since" ]; then
  find $follow "$@" -path './STATE' -prune -o \( -type d -o -cnewer "$since" \) -printf FORMAT
else
  find $follow "$@" -path './STATE' -prune -o -printf FORMAT
fi
exit 0
""".replace("STATE", STATE.decode()).replace("FORMAT", r"'%y\0%m\0%s\0%T@\0%p\0%l\0'")


def listing_argv(path: str, names: Sequence[bytes] = (), since: str = "") -> list[str]:
    """Return the command that lists the absolute `path`, or only `names` in it and their
    content."""
    only = [os.fsdecode(b"./" + name) for name in names]
    return ["sh", "-c", _LIST_SH, "list", path, since, *only]


def parse_listing(stdout: bytes, stderr: bytes = b"", *, most_files: int = limits.FILES) -> Listing:
    """Parse the output of `listing_argv`. Raises TooManyError, or ValueError if the output is
    invalid."""
    top, _, rest = stdout.partition(b"\n")
    if top == b"none":
        return Listing(None)
    if top not in (b"folder", b"file"):
        raise ValueError("find did not list the folder")
    if rest.count(b"\0") // 6 > most_files:  # a parsed entry takes ten times the memory of its text
        raise TooManyError
    entries = dict(_entries(rest))
    entries.pop(b"", None)
    if top == b"file":
        only = next(iter(entries.values()), None)
        if only is None:
            raise ValueError("find did not list the file")
        return Listing(only.kind, {b"": only})
    return Listing("folder", entries, _complaints(stderr))


_LETTERS: dict[bytes, Kind] = {b"f": "file", b"d": "folder", b"l": "link"}


def _entries(text: bytes) -> Iterator[tuple[bytes, ManifestEntry]]:
    at = 0
    while at < len(text):
        end = min(at + _LISTED_BYTES, len(text))
        words = text[at:end].split(b"\0")
        whole = len(words) // 6 * 6
        if not whole and end == len(text):
            return  # an incomplete last entry
        if not whole:
            raise ValueError("find printed an impossible name")
        at += sum(map(len, words[:whole])) + whole
        for letter, mode, size, time, path, link in zip(
            words[0:whole:6],
            words[1:whole:6],
            words[2:whole:6],
            words[3:whole:6],
            words[4:whole:6],
            words[5:whole:6],
            strict=True,
        ):
            yield (
                path[2:],
                ManifestEntry(
                    _LETTERS.get(letter, "other"),
                    _number(mode, 8) & 0o777,
                    _number(size),
                    _time_ns(time),
                    link,
                ),
            )


def _number(text: bytes, base: int = 10) -> int:
    """Parse a number. Raise ValueError if it is invalid, or impossible for a size or time."""
    number = int(text, base)
    if abs(number) >= _MOST_NUMBER:
        raise ValueError("find printed an impossible number")
    return number


def _time_ns(text: bytes) -> int:
    """Parse `1700000000.1234567890`; GNU find prints ten digits after the point. Before 1970 only
    the seconds are negative: `-2.5000000000` is 1.5 s before 1970."""
    seconds, _, digits = text.partition(b".")
    return _number(seconds) * _SECOND + _number(digits[:9].ljust(9, b"0"))


def _complaints(stderr: bytes) -> dict[bytes, str]:
    """Parse lines such as `find: './x': Permission denied` into reasons by path. Skip files that
    have vanished."""
    lines = [line for line in stderr.splitlines() if line.startswith(b"find: ")]
    return {
        name.removeprefix(b"find: ").strip(b"'\"").removeprefix(b"./"): shown(why)
        for name, _, why in (line.rpartition(b": ") for line in lines)
        if why != b"No such file or directory"
    }


def shown(text: bytes) -> str:
    """Return a name or message as printable text."""
    return text.decode(errors="backslashreplace")
