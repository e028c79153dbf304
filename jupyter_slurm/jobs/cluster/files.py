"""The calls that list folders, and read, write, rename and remove single files on a cluster.

Programs of the login node run as the user, so the system checks permissions. A path is always an
argument, and never part of shell code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

from jupyter_slurm.errors import FileAccessError, NotFoundError, RequestError
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.slurm.fields import optional_float
from jupyter_slurm.transport import Completed, Transport
from jupyter_slurm.wire import FileContent, FileEntry, FileListing

MOST_BYTES = 40_000_000
"""The size limit of a file. In base64, a file must fit into one request to the agent."""

_TOLD = r"%Y\t%s\t%T@\t%f\0"
_LOOK = ["(", "-writable", "-printf", "w", "-o", "-printf", "-", ")", "-printf", _TOLD]
"""Arguments of GNU find that print an entry. Machines with Slurm have GNU find."""
_SIZE = re.compile(r"[0-9]{1,18}")
_KINDS: dict[str, Literal["file", "folder"]] = {"f": "file", "d": "folder"}

_TAKEN = 17
_FREE = '{ [ -e "$2" ] || [ -L "$2" ]; } && exit 17\n'
_WRITE = r"""
target=$(readlink -fv -- "$1" && echo .) && target=${target%??} || exit
if [ -e "$target" ] && ! [ -w "$target" ]; then echo "Permission denied" >&2; exit 1; fi
if [ -d "$target" ]; then echo "Is a directory" >&2; exit 1; fi
new=$(mktemp -- "${target%/*}/.jupyter-slurm-XXXXXXXX" && echo .) && new=${new%??} || exit
trap 'rm -f -- "$new"' EXIT
cat >"$new" || exit
if ! [ -e "$target" ]; then
  chmod "$(printf %o $((0666 & ~0$(umask))))" "$new" && mv -fT -- "$new" "$target"
elif [ -O "$target" ]; then
  chmod --reference="$target" -- "$new" && mv -fT -- "$new" "$target"
else
  cat <"$new" >"$target"  # keep the owner
fi
"""
"""sh text that replaces the file $1, or the file to which the link $1 points, and keeps the file's
mode. The replacement is atomic if the user owns the file."""


class Files:
    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def list_folder(self, path: str, cluster: str | None = None) -> FileListing:
        machine = self._to(cluster)
        told = _find(machine, path, ["-maxdepth", "1"])
        folder, *entries = told
        if folder.kind != "folder":
            raise RequestError(f"{path} is not a folder.")
        return FileListing(folder=folder, entries=tuple(entries))

    def file_entry(self, path: str, cluster: str | None = None) -> FileEntry:
        return _entry(self._to(cluster), path)

    def read_file(self, path: str, cluster: str | None = None) -> FileContent:
        machine = self._to(cluster)
        entry = _entry(machine, path)
        if entry.kind != "file":
            raise RequestError(f"{path} is not a file.")
        content = None
        if entry.size_bytes <= MOST_BYTES:
            content = machine.read(_absolute(path), 0, MOST_BYTES + 1)
            if content is None:
                raise _missing(path)
        if content is None or len(content) > MOST_BYTES:
            raise _too_large(path, "pull")
        return FileContent(entry=entry, content=content)

    def write_file(self, path: str, content: bytes, cluster: str | None = None) -> FileEntry:
        if len(content) > MOST_BYTES:
            raise _too_large(path, "push")
        machine = self._to(cluster)
        argv = ["/bin/sh", "-c", _WRITE, "sh", str(_absolute(path))]
        _done(
            machine.send(argv, [content]),
            path,
            f"Cannot write {path} on the cluster.",
        )
        return _entry(machine, path)

    def make_folder(self, path: str, cluster: str | None = None) -> FileEntry:
        machine = self._to(cluster)
        _done(
            machine.run(["mkdir", "--", str(_absolute(path))]),
            path,
            f"Cannot create {path} on the cluster.",
        )
        return _entry(machine, path)

    def rename_file(self, path: str, to: str, cluster: str | None = None) -> FileEntry:
        machine = self._to(cluster)
        code = f'{_FREE}mv -nT -- "$1" "$2"'
        argv = ["/bin/sh", "-c", code, "sh", str(_absolute(path)), str(_absolute(to))]
        done = machine.run(argv)
        if done.returncode == _TAKEN:
            raise RequestError(f"{to} already exists.")
        _done(done, path, f"Cannot rename {path} on the cluster.")
        return _entry(machine, to)

    def remove_file(self, path: str, cluster: str | None = None) -> None:
        code = 'if [ -d "$1" ] && ! [ -L "$1" ]; then rmdir -- "$1"; else rm -f -- "$1"; fi'
        argv = ["/bin/sh", "-c", code, "sh", str(_absolute(path))]
        _done(
            self._to(cluster).run(argv),
            path,
            f"Cannot remove {path} on the cluster.",
        )

    def _to(self, cluster: str | None) -> Transport:
        return self._clusters.named(cluster).transport


def _absolute(path: str) -> PurePosixPath:
    """Return the path. Raise RequestError if it is not absolute, or contains `..` or a NUL."""
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise RequestError(f"{path!r} must be an absolute path without `..` or NUL characters.")
    return PurePosixPath(path)


def _entry(machine: Transport, path: str) -> FileEntry:
    return _find(machine, path, ["-maxdepth", "0"])[0]


def _find(machine: Transport, path: str, how: Sequence[str]) -> list[FileEntry]:
    """Return the entries that find lists with the options `how`, the entry of `path` first. Raises
    NotFoundError or FileAccessError."""
    done = machine.run(["find", "-L", str(_absolute(path)), *how, *_LOOK])
    told = [_read(one) for one in done.stdout.split(b"\0")[:-1]]
    entries = [one for one in told if one is not None]
    # Ignore find's errors about single entries of a folder.
    if not entries or (done.returncode != 0 and len(entries) == 1):
        _done(done, path, f"Cannot read {path} on the cluster.")
        raise _missing(path)
    return entries


def _read(told: bytes) -> FileEntry | None:
    """Return the entry; None if the name is not UTF-8 or the text is not find's output."""
    try:
        kind, size, modified, name = told[1:].decode().split("\t", 3)
    except ValueError:  # including invalid UTF-8
        return None
    modified_s = optional_float(modified)
    if modified_s is None or not _SIZE.fullmatch(size):
        return None
    return FileEntry(
        name=name,
        kind=_KINDS.get(kind, "other"),
        size_bytes=int(size),
        modified_s=modified_s,
        writable=told[:1] == b"w",
    )


def _done(done: Completed, path: str, refusal: str) -> None:
    if done.returncode == 0:
        return
    words = done.stderr.decode(errors="replace").strip()
    if "No such file or directory" in words:
        raise _missing(path)
    raise FileAccessError(refusal, detail=words or None)


def _missing(path: str) -> NotFoundError:
    return NotFoundError(f"{path} not found on the cluster.")


def _too_large(path: str, verb: str) -> RequestError:
    return RequestError(
        f"{path} is larger than {MOST_BYTES // 1000000} MB.",
        hint=f"Use `%slurm {verb}` for larger files.",
    )
