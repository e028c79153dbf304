"""What is in a folder, here and there, and whether two files are the same. Sends no file.

The far side is listed by one `find`, which the caller runs; GNU's prints all that is needed. Where
find knows no -printf (busybox), `stat -c` does, without fractions of a second.
Names are bytes, relative to the folder, without `./`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from jupyter_slurm.errors import FileAccessError
from jupyter_slurm.transport import limits
from jupyter_slurm.transport.files.ignore import STATE, Exclusion

Kind = Literal["file", "folder", "link", "other"]

_SECOND = 1_000_000_000
_MOST_NUMBER = 1 << 63
_LISTED_BYTES = 1 << 20
"""So much of a listing is taken apart at a time; a path has 4 KiB at most, and so has a link."""
_COARSE_NS = (100, 1_000, 1_000_000, _SECOND)
"""The units to which file systems and archives round times down: NTFS, NFS servers, tar."""


class TooManyError(ValueError):
    """More is listed than is taken."""


class ManifestEntry(NamedTuple):
    kind: Kind
    mode: int
    """Permission bits, without set-uid and the like."""
    size_bytes: int
    mtime_ns: int
    link: bytes = b""
    """A link's target."""


@dataclass(frozen=True, slots=True)
class Listing:
    top: Kind | None
    """The kind of the path itself; None: nothing is there."""
    entries: dict[bytes, ManifestEntry] = field(default_factory=dict)
    """Folders before what is in them. A top that is not a folder is the one entry, named b""."""
    unread: dict[bytes, str] = field(default_factory=dict)
    """Paths that could not be looked at, and why."""


def same(one: ManifestEntry, other: ManifestEntry) -> bool:
    """Tell whether nothing need be sent. Of the mode only the owner's `x` counts: the rest is often
    the file system's own business."""
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
    """Tell whether the times are equal, or one is the other, rounded down as `_COARSE_NS` says."""
    if one_ns == other_ns:
        return True
    low, high = sorted((one_ns, other_ns))
    return any(low == high - high % step for step in _COARSE_NS)


def scan(root: bytes, exclusion: Exclusion) -> Listing:
    """List the folder `root` of this machine. Links stay links."""
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
                raise FileAccessError(f"{_shown(root)} cannot be read: {exc.strerror}.") from exc
            found.unread[folder] = exc.strerror or str(exc)
    return found


def entry_of(info: os.stat_result, path: bytes) -> ManifestEntry:
    kind = _KINDS.get(stat.S_IFMT(info.st_mode), "other")
    link = os.readlink(path) if kind == "link" else b""  # noqa: PTH115 (bytes)
    return ManifestEntry(kind, info.st_mode & 0o777, info.st_size, info.st_mtime_ns, link)


_KINDS: dict[int, Kind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
}

# $1 the path, $2 a file or "": only what has changed after it; the rest: only these names in it.
# `//` ends a name in the second form: find prints no name with two slashes.
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
if find . -maxdepth 0 -printf '' 2>/dev/null; then
  echo printf
  if [ -n "$since" ]; then
    find $follow "$@" -path './STATE' -prune -o \( -type d -o -cnewer "$since" \) -printf FORMAT
  else
    find $follow "$@" -path './STATE' -prune -o -printf FORMAT
  fi
else
  echo stat
  only=
  [ -n "$since" ] && only=-newer
  find $follow "$@" -path './STATE' -prune -o \( -type d -o ${only:+"$only" "$since"} -type f \) \
    -exec stat -c '%f %s %Y %n//' {} +
  find $follow "$@" -path './STATE' -prune -o ${only:+"$only" "$since"} -type l -exec sh -c '
    for link do printf "a1ff 0 0 %s//%s//\n" "$link" "$(readlink "$link")"; done' sh {} +
fi
exit 0
""".replace("STATE", STATE.decode()).replace("FORMAT", r"'%y\0%m\0%s\0%T@\0%p\0%l\0'")


def listing_argv(path: str, names: Sequence[bytes] = (), since: str = "") -> list[str]:
    """Return what lists the absolute `path` there; with `names`, only these and what is in them."""
    only = [os.fsdecode(b"./" + name) for name in names]
    return ["sh", "-c", _LIST_SH, "list", path, since, *only]


def parse_listing(stdout: bytes, stderr: bytes = b"", *, most_files: int = limits.FILES) -> Listing:
    """Parse what `listing_argv` printed. ValueError: it is not that; TooManyError."""
    top, form, rest = [*stdout.split(b"\n", 2), b"", b""][:3]
    if top == b"none":
        return Listing(None)
    readers: dict[
        bytes, tuple[Callable[[bytes], Iterator[tuple[bytes, ManifestEntry]]], bytes, int]
    ] = {
        b"printf": (_from_printf, b"\0", 6),
        b"stat": (_from_stat, b"//\n", 1),
    }
    if top not in (b"folder", b"file") or form not in readers:
        raise ValueError("find did not list the folder")
    read, end, ends = readers[form]
    if rest.count(end) // ends > most_files:  # each takes ten times as much memory as text
        raise TooManyError
    entries = dict(read(rest))
    entries.pop(b"", None)
    if top == b"file":
        only = next(iter(entries.values()), None)
        if only is None:
            raise ValueError("find did not list the file")
        return Listing(only.kind, {b"": only})
    return Listing("folder", entries, _complaints(stderr))


_LETTERS: dict[bytes, Kind] = {b"f": "file", b"d": "folder", b"l": "link"}


def _from_printf(text: bytes) -> Iterator[tuple[bytes, ManifestEntry]]:
    at = 0
    while at < len(text):
        end = min(at + _LISTED_BYTES, len(text))
        words = text[at:end].split(b"\0")
        whole = len(words) // 6 * 6
        if not whole and end == len(text):
            return  # what was cut off
        if not whole:
            raise ValueError("find printed a name that can be none")
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
    """Parse a number. ValueError: it is not one, or no file has so many bytes or nanoseconds."""
    number = int(text, base)
    if abs(number) >= _MOST_NUMBER:
        raise ValueError("find printed a number that can be none")
    return number


def _time_ns(text: bytes) -> int:
    """Parse `1700000000.1234567890`; GNU find prints ten digits. Before 1970 the seconds alone are
    negative: `-2.5000000000` is one and a half before."""
    seconds, _, digits = text.partition(b".")
    return _number(seconds) * _SECOND + _number(digits[:9].ljust(9, b"0"))


def _from_stat(text: bytes) -> Iterator[tuple[bytes, ManifestEntry]]:
    for record in text.split(b"//\n"):
        if not record:
            continue
        mode, size, seconds, rest = record.split(b" ", 3)
        path, _, link = rest.partition(b"//")
        bits = _number(mode, 16) & 0xFFFF
        kind = _KINDS.get(stat.S_IFMT(bits), "other")
        mtime_ns = _number(seconds) * _SECOND
        yield path[2:], ManifestEntry(kind, bits & 0o777, _number(size), mtime_ns, link)


def _complaints(stderr: bytes) -> dict[bytes, str]:
    """Parse `find: './x': Permission denied`; what has vanished meanwhile is left out."""
    lines = [line for line in stderr.splitlines() if line.startswith((b"find: ", b"stat: "))]
    return {
        name.removeprefix(b"find: ").strip(b"'\"").removeprefix(b"./"): _shown(why)
        for name, _, why in (line.rpartition(b": ") for line in lines)
        if why != b"No such file or directory"
    }


def _shown(text: bytes) -> str:
    return text.decode(errors="backslashreplace")
