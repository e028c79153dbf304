"""A folder of files as the standard input of a shell, and the script that moves them into place.

The files are unpacked into a folder beside their targets and renamed, so each is complete or
absent.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from jupyter_slurm.errors import FileAccessError
from jupyter_slurm.transport.files.ustar import END, FOLDER, header, padding
from jupyter_slurm.transport.shell.quoting import quote, quote_path, raw, words

_CHUNK_BYTES = 1 << 20
_LARGEST_BYTES = 8**11 - 1
"""The largest file size that a ustar header can express."""

NOT_PLACED = "not-placed"
NOT_PRIVATE = "not-private"
_NOT_PRIVATE_EXIT = b"77"


_WORK = b"""
if ( %(place)b ) >&4 2>&4 4>&-; then {
( cd %(target)b; for _v; do eval "[ \\"\\${${_v%%%%=*}+x}\\" ]" || export "$_v"; done;
exec %(argv)b ) </dev/null 2>&4 3<&- 4>&-;
_f $? %(program)b;
} & else
_p=$?;
cat <&3 >/dev/null;
if [ $_p = %(not_private_exit)b ]; then _m %(not_private)b; else
( cd %(partial)b && head -c 65536 /dev/zero >full ) 2>&4 4>&-;
rm -rf %(partial)b;
_m %(not_placed)b;
fi; fi
""".strip().replace(b"\n", b" ")
"""A script that places the files atomically, and then runs the program in the background. The shell
kills the program when the shell's input is closed. `cat` reads the rest of the archive, so that the
shell does not read it as lines. `head` writes a file to show why files cannot be written, because
GNU tar does not distinguish a full disk from other errors."""

_PRIVATE = b"""
_private() { case $(LC_ALL=C ls -ldn %(target)b) in
drwx------* | drwx--S---*) [ -O %(target)b ] && [ ! -L %(target)b ];; *) false;; esac; };
{ _private || { [ -O %(target)b ] && [ ! -L %(target)b ] && chmod 700 %(target)b && _private; } ||
{ LC_ALL=C ls -ldn %(target)b; exit %(not_private_exit)b; }; }
""".strip().replace(b"\n", b" ")
"""A script that makes the folder private or exits. Under an ACL, the group's permissions are the
ACL's mask. If the mask is empty, the users named in the ACL do not have access. `mkdir -m` ignores
the umask, and the ACL does not add permissions."""

_OLD = b"""
set -- .partial-*; [ ! -e "$1" ] || find "$@" -prune -mtime +0 -exec rm -rf {} \\; 2>/dev/null || :
""".strip()
"""A script that removes leftovers of killed shells after a day. Younger files may belong to an
upload in progress."""


class FolderUpload:
    """Files to upload. `work` is the script for `Helper.feed`, and `size_bytes` the size of
    `stream()`. The status NOT_PLACED means that the files could not be written; stderr has the
    reason. NOT_PRIVATE means that the folder is open to other users."""

    def __init__(
        self,
        folder: PurePosixPath,
        files: Mapping[str, bytes | Path],
        argv: Sequence[str],
    ) -> None:
        """Prepare a stream of the folder's files. Raise FileAccessError if a local file cannot be
        sent."""
        now_ns = time.time_ns()
        self.uploads: list[Path] = []
        self._members: list[tuple[bytes, bytes | Path, int]] = []
        placed: list[bytes] = []
        moved: list[bytes] = []
        for parent in sorted({name.rpartition("/")[0] for name in files} - {""}):
            head = header(raw(parent) + b"/", mode=0o700, mtime_ns=now_ns, kind=FOLDER)
            self._members.append((head, b"", 0))
        for name, content in files.items():
            size = _size(content)
            if size is None:
                moved.append(raw(name))
                continue
            if isinstance(content, Path):
                self.uploads.append(content)
            mode = 0o700 if size >= 2 and _first_bytes(content) == b"#!" else 0o600
            head = header(raw(name), size_bytes=size, mode=mode, mtime_ns=now_ns)
            self._members.append((head, content, size))
            placed.append(raw(name))
        self.size_bytes = len(END) + sum(
            len(head) + size + len(padding(size)) for head, _, size in self._members
        )
        self.work = _work(folder, placed, moved, argv)

    def stream(self) -> Iterator[bytes]:
        """Yield the archive. Raise FileAccessError if a local file has become shorter or
        unreadable."""
        for head, content, size in self._members:
            yield head
            yield from [content] if isinstance(content, bytes) else _chunks(content, size)
            yield padding(size)
        yield END


def _size(content: bytes | Path) -> int | None:
    if isinstance(content, bytes):
        return len(content)
    try:
        size = content.stat().st_size
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise FileAccessError(f"Cannot read {content}: {exc.strerror or exc}.") from exc
    if size > _LARGEST_BYTES:
        raise FileAccessError(f"{content} is larger than 8 GiB, the limit for a job's files.")
    return size


def _first_bytes(content: bytes | Path) -> bytes:
    return content[:2] if isinstance(content, bytes) else b"".join(_chunks(content, 2))


def _chunks(path: Path, size: int) -> Iterator[bytes]:
    left = size
    try:
        with path.open("rb") as file:
            while chunk := file.read(min(_CHUNK_BYTES, left)):
                left -= len(chunk)
                yield chunk
    except OSError as exc:
        raise FileAccessError(f"Cannot read {path}: {exc.strerror or exc}.") from exc
    if left:
        raise FileAccessError(f"{path} was truncated while it was sent.")


def _work(
    folder: PurePosixPath,
    placed: Sequence[bytes],
    moved: Sequence[bytes],
    argv: Sequence[str],
) -> bytes:
    target = quote_path(folder)
    partial = target + b"/.partial-" + secrets.token_hex(4).encode()
    above = b" ".join(quote_path(one) for one in (folder.parent.parent, folder.parent))
    private = _PRIVATE % {b"target": target, b"not_private_exit": _NOT_PRIVATE_EXIT}
    steps = [b"umask 077", b"mkdir -p -m 700 " + above + b" " + target, private]
    steps += [b"mkdir -m 700 " + partial, b"cd " + partial, b"tar -xmf - <&3"]
    steps += [*_renames(placed), b"cd ..", b"rm -rf " + partial]
    steps += [*map(_check, moved), b"{ %b; }" % _OLD]
    return _WORK % {
        b"place": b" && ".join(steps),
        b"target": target,
        b"partial": partial,
        b"argv": words(argv),
        b"program": quote(argv[0]),
        b"not_placed": NOT_PLACED.encode(),
        b"not_private": NOT_PRIVATE.encode(),
        b"not_private_exit": _NOT_PRIVATE_EXIT,
    }


def _renames(names: Iterable[bytes]) -> Iterator[bytes]:
    folders: dict[bytes, list[bytes]] = {}
    for name in names:
        folders.setdefault(name.rpartition(b"/")[0], []).append(_here(name))
    for folder, inside in folders.items():
        target = b"../" + folder if folder else b".."
        if folder:
            yield b"mkdir -p -m 700 " + quote(target)
        yield b"mv -f %b %b" % (b" ".join(inside), quote(target))


def _here(name: bytes) -> bytes:
    return quote(b"./" + name)


def _check(name: bytes) -> bytes:
    words = quote(name + b" is missing on both machines")
    return b"{ [ -e %b ] || { echo %b; false; }; }" % (_here(name), words)
