"""Push and pull: synchronize folders and files over any Transport.

One round trip lists the remote side. Then the files that differ in size or time are sent
(`upload.py`, `download.py`). The receiver keeps files that the sender lacks. This package is
independent of jobs and clusters.
"""

from __future__ import annotations

import os
import posixpath
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from jupyter_slurm.errors import FileAccessError, NotFoundError, RequestError, TooMuchError
from jupyter_slurm.transport import Completed, TimedOutError, Transport, check_stop, limits
from jupyter_slurm.transport.files.difference import Difference, difference, surplus
from jupyter_slurm.transport.files.download import Download, DownloadFolder, is_safe_name
from jupyter_slurm.transport.files.ignore import STATE, Exclusion, Patterns
from jupyter_slurm.transport.files.loads import (
    PASSES,
    Progress,
    TransferReport,
    Unwatched,
    absolute,
    succeeded,
)
from jupyter_slurm.transport.files.manifest import (
    Listing,
    ManifestEntry,
    TooManyError,
    entry_of,
    listing_argv,
    parse_listing,
    scan,
)
from jupyter_slurm.transport.files.upload import Upload

__all__ = ["Progress", "TransferReport", "mirror", "pull", "push"]

_TIMEOUT_S = 600.0
_NAMED = 200
"""Maximum number of names to list one by one. For more names, list the whole folder, which may have
a million files."""
_NAMED_BYTES = 48 * 1024
_LISTED_BYTES = 200
"""Maximum size of a file's entry in a listing, in bytes. Most entries take half of this size."""

# $1 is a file to lock, and $2 the folder to touch, or to create if missing. The other arguments are
# the command that lists the folder.
_USED_SH = """
lock=$1 top=$2; shift 2
umask 077
mkdir -p -m 700 -- "${lock%/*}" || exit 1
if command -v flock >/dev/null 2>&1; then exec 9>"$lock" && flock 9; fi
mkdir -p -m 700 -- "$top" && touch -- "$top" || exit 1
exec 9>&-
exec "$@"
"""
_LOCKED_SH = """
lock=$1; shift
if [ -n "$lock" ] && command -v flock >/dev/null 2>&1; then exec 9>"$lock" && flock 9; fi
"$@"
"""


def push(
    transport: Transport,
    local: Path,
    remote: str,
    *,
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> TransferReport:
    """Make the folder or file `remote` like `local`. A file pushed to a folder goes into it.
    `exclude` contains patterns in addition to .gitignore. Raises NotFoundError, FileAccessError,
    RequestError, or ConnectionLostError (also when stopped). Files that have arrived stay, and the
    next push continues.
    """
    watcher = progress or Unwatched()
    outcome = TransferReport()
    again: dict[bytes, str] = {}
    for _ in range(PASSES):
        check_stop(stop)
        outcome.failed.clear()
        sides = _sides_of_push(transport, local, remote, exclude)
        what = difference(sides.wanted, sides.there, outcome)
        _plan(watcher, what, outcome)
        upload = Upload(transport, sides.sources, sides.root, outcome, watcher, stop)
        upload.send(what)
        again = upload.again
        if not again:
            break
    outcome.failed |= again
    return outcome


def mirror(
    transport: Transport,
    local: Path,
    remote: str,
    *,
    lock: str,
    then: Sequence[str],
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> TransferReport:
    """Push a folder as `push` does and delete all other files in `remote`. If all changes
    succeeded, also run `then` in `remote`, in the same round trip if possible. `lock` is a remote
    file. The push holds the file's lock (flock(1), if available) while it moves files into place
    and runs `then`, and while it touches `remote` before listing it. So a process that holds the
    lock can safely remove a folder with an old modification time."""
    watcher = progress or Unwatched()
    outcome = TransferReport()
    again: dict[bytes, str] = {}
    done = False
    path, here = absolute(transport, remote), os.fsencode(local)
    used = ["sh", "-c", _USED_SH, "use", lock, path]
    for _ in range(PASSES):
        check_stop(stop)
        outcome.failed.clear()
        wanted = scan(here, Exclusion(exclude))
        there = _list(transport, path, before=used, known=len(wanted.entries)).entries
        gone = surplus(wanted.entries, there)
        what = difference(wanted, there, outcome)
        what.gone.extend(gone)
        _plan(watcher, what, outcome)
        upload = Upload(transport, here, path, outcome, watcher, stop)
        done = upload.send(what, lock, () if outcome.failed else then)
        again = upload.again
        if not again:
            break
    outcome.failed |= again
    if not done and not outcome.failed:
        ran = _run(transport, ["sh", "-c", _LOCKED_SH, "then", lock, *then])
        succeeded(ran, f"Cannot copy the files in {remote}.")
    return outcome


def pull(
    transport: Transport,
    remote: str,
    local: Path,
    *,
    exclude: Sequence[str] = (),
    include: Sequence[str] = (),
    since: str = "",
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> TransferReport:
    """Make the folder or file `local` like `remote`. A file pulled to a folder goes into it.

    With `include`, pull only files that match one of the patterns. With `since`, pull only files
    that changed after the remote file `since` was written. Do not apply .gitignore, because it
    often excludes results. Raises the errors of `push`.
    """
    watcher = progress or Unwatched()
    outcome = TransferReport()
    again: dict[bytes, str] = {}
    try:
        for _ in range(PASSES):
            check_stop(stop)
            outcome.failed.clear()
            sides = _sides_of_pull(transport, remote, local, since)
            entries = _chosen(sides.there, exclude, include, outcome)
            again = _bring(transport, sides, entries, outcome, watcher, stop)
            if not again:
                break
    except OSError as exc:
        raise FileAccessError(
            f"Cannot write the files to {local}: {exc.strerror or exc}.",
            hint="Check the disk space, your quota and the permissions.",
        ) from exc
    outcome.failed |= again
    return outcome


@dataclass(frozen=True, slots=True)
class _Sides:
    root: str
    """The remote folder."""
    there: dict[bytes, ManifestEntry]
    wanted: Listing = field(default_factory=lambda: Listing("folder"))
    sources: dict[bytes, bytes] | bytes = b""
    """The local folder, or the local path of a single file."""


# --- push -------------------------------------------------------------------------------------


def _sides_of_push(
    transport: Transport, local: Path, remote: str, exclude: Sequence[str]
) -> _Sides:
    path = absolute(transport, remote)
    here = os.fsencode(local.expanduser())
    if os.path.isdir(here):
        wanted = scan(here, Exclusion(exclude))
        names = _few([name for name in wanted.entries if b"/" not in name])
        there = _list(transport, path, names, known=len(wanted.entries))
        if there.top not in (None, "folder"):
            raise RequestError(f"{remote} is a file on the cluster, but {local} is a folder.")
        return _Sides(path, there.entries, wanted, here)
    if not os.path.exists(here):
        raise NotFoundError(f"Found no {local} on this machine.")
    name = here.rpartition(b"/")[2]
    there = _list(transport, path, [name])
    entries = there.entries
    if there.top != "folder" and not remote.endswith("/"):
        path, last = posixpath.split(path)
        name = os.fsencode(last)
        entries = {name: there.entries[b""]} if there.top else {}
    info = os.stat(here)
    wanted = Listing("file", {name: entry_of(info, here)})
    return _Sides(path, entries, wanted, {name: os.path.realpath(here)})


def _few(names: Sequence[bytes]) -> Sequence[bytes]:
    """Return the names if they are few enough to list one by one; otherwise (), which means all."""
    return names if len(names) <= _NAMED and sum(map(len, names)) <= _NAMED_BYTES else ()


def _plan(progress: Progress, what: Difference, outcome: TransferReport) -> None:
    size_bytes = sum(entry.size_bytes for _, entry in what.files)
    count = len(what.files) + len(what.links)
    progress.planned(outcome.files + count, outcome.size_bytes + size_bytes, outcome.same)


# --- pull -------------------------------------------------------------------------------------


def _sides_of_pull(transport: Transport, remote: str, local: Path, since: str) -> _Sides:
    """Return the remote listing and the local target. `sources` is the local folder, or the local
    path of a single file."""
    path = absolute(transport, remote)
    listing = _list(transport, path, (), since)
    here = os.fsencode(local.expanduser())
    is_folder = os.path.isdir(here)
    if listing.top is None:
        raise NotFoundError(f"Found no {remote} on the cluster.")
    if listing.top == "folder":
        if not is_folder and os.path.exists(here):
            raise RequestError(f"{local} is a file, but {remote} is a folder.")
        return _Sides(path, listing.entries, listing, here)
    path, last = posixpath.split(path)
    name = os.fsencode(last)
    target = here + b"/" + name if is_folder else here
    return _Sides(path, {name: listing.entries[b""]}, listing, {name: os.path.normpath(target)})


def _chosen(
    there: dict[bytes, ManifestEntry],
    exclude: Sequence[str],
    include: Sequence[str],
    outcome: TransferReport,
) -> dict[bytes, ManifestEntry]:
    """Return the requested entries that have safe names."""
    exclusion = Exclusion(exclude)
    patterns = Patterns(include) if include else None
    behind: set[bytes] = set()
    chosen: dict[bytes, ManifestEntry] = {}
    for name, entry in there.items():
        is_folder = entry.kind == "folder"
        if not is_safe_name(name) or name.partition(b"/")[0] == STATE:
            outcome.failed[name] = "Its name points outside the folder or into .jupyter-slurm."
        elif name.rpartition(b"/")[0] in behind or exclusion.leaves_out(name, folder=is_folder):
            behind.add(name)
        elif patterns is None or (not is_folder and patterns.match(name, folder=False)):
            chosen[name] = entry
    return chosen


def _bring(
    transport: Transport,
    sides: _Sides,
    entries: dict[bytes, ManifestEntry],
    outcome: TransferReport,
    progress: Progress,
    stop: threading.Event | None,
) -> dict[bytes, str]:
    """Make one pass of a pull; return the files to retry, with reasons."""
    if isinstance(sides.sources, bytes):
        root, names = sides.sources, {}
    else:
        [(name, path)] = sides.sources.items()
        root, names = path.rpartition(b"/")[0] or b"/", {name: path.rpartition(b"/")[2]}
    here = {
        name: found
        for name in entries
        if (found := _look(root + b"/" + names.get(name, name))) is not None
    }
    what = difference(Listing("folder", entries, sides.wanted.unread), here, outcome)
    _plan(progress, what, outcome)
    if not (what.files or what.links or what.folders):
        return {}
    os.makedirs(root, exist_ok=True)
    target = DownloadFolder(root)
    download = Download(
        transport, sides.root, target, lambda name: names.get(name, name), outcome, progress, stop
    )
    try:
        for name in what.folders:
            download.put(name, partial(target.folder, name))
        for name, entry in what.links:
            if download.put(name, partial(target.link, name, entry.link)):
                outcome.files += 1
                progress.moved(1, 0)
        download.bring(what.files)
    finally:
        target.close()
    return download.again


def _look(path: bytes) -> ManifestEntry | None:
    try:
        return entry_of(os.lstat(path), path)
    except OSError:
        return None


# --- the remote side --------------------------------------------------------------------------


def _list(
    transport: Transport,
    path: str,
    names: Sequence[bytes] = (),
    since: str = "",
    before: Sequence[str] = (),
    known: int = 0,
) -> Listing:
    """List `path`. `before` is a command that gets the listing's command line as arguments. `known`
    is the number of local files, which raises the limit on the number of files. Raises
    FileAccessError."""
    most_files = limits.FILES + known
    try:
        most_bytes = limits.OUTPUT_BYTES + known * _LISTED_BYTES
        done = _run(transport, [*before, *listing_argv(path, names, since)], most_bytes)
        succeeded(done, f"Cannot read {path} on the cluster.")
        return parse_listing(done.stdout, done.stderr, most_files=most_files)
    except (TooManyError, TooMuchError) as exc:
        raise FileAccessError(
            f"{path} has more than {most_files:,} files, or their names are too long. Nothing "
            "was copied.",
            hint="Copy its subfolders one by one, or pack them on the cluster with `tar -cf`.",
            detail=str(exc) or None,
        ) from exc
    except ValueError as exc:
        words = done.stderr.decode(errors="backslashreplace")
        raise FileAccessError(f"Cannot list {path} on the cluster: {exc}.", detail=words) from exc


def _run(
    transport: Transport, argv: Sequence[str], most_bytes: int = limits.OUTPUT_BYTES
) -> Completed:
    try:
        return transport.run(argv, timeout_s=_TIMEOUT_S, most_bytes=most_bytes)
    except TimedOutError as exc:
        raise FileAccessError(f"The cluster's file system does not respond: {exc}.") from exc
