"""Recent renames of local notebooks and folders, for their jobs and kernels."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from jupyter_slurm import places
from jupyter_slurm.wire import JobSpec

_MOST = 1000
_PATHS = ("notebook", "file", "cwd", "push", "fetch_to")
"""Spec fields that are local paths."""
_SpecT = TypeVar("_SpecT", bound="JobSpec | None")


class Rename(msgspec.Struct, frozen=True):
    """A rename of a file or folder."""

    time_s: float
    path: str
    to: str

    def followed(self, path: str) -> str:
        """Return the path after the rename."""
        if path == self.path or path.startswith(f"{self.path}/"):
            return self.to + path[len(self.path) :]
        return path

    def spec(self, spec: _SpecT) -> _SpecT:
        """Return the spec after the rename."""
        if spec is None:
            return spec
        paths = {name: getattr(spec, name) for name in _PATHS}
        changes = {name: self.followed(path) for name, path in paths.items() if path is not None}
        return msgspec.structs.replace(spec, **changes)


class Renames:
    """The latest renames, saved on disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "renames.json"
        self._renames: tuple[Rename, ...] = ()
        with suppress(OSError, ValueError):  # missing or damaged
            self._renames = msgspec.json.decode(self._path.read_bytes(), type=tuple[Rename, ...])

    def add(self, path: str, to: str) -> Rename:
        """Save a rename that has just happened."""
        rename = Rename(time.time(), path, to)
        self._renames = (*self._renames, rename)[-_MOST:]
        places.write_private(self._path, msgspec.json.encode(self._renames).decode())
        return rename

    def followed(self, path: str, since_s: float) -> str:
        """Return the current path of the file that had `path` at `since_s`."""
        for rename in self._renames:
            if rename.time_s >= since_s:
                path = rename.followed(path)
        return path
