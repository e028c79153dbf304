"""The file calls of an Api in memory, without real files: a fake for front ends."""

from __future__ import annotations

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import FileContent, FileEntry, FileListing


class FileSide:
    def list_folder(self, path: str, cluster: str | None = None) -> FileListing:
        raise _missing(path)

    def file_entry(self, path: str, cluster: str | None = None) -> FileEntry:
        raise _missing(path)

    def read_file(self, path: str, cluster: str | None = None) -> FileContent:
        raise _missing(path)

    def write_file(self, path: str, content: bytes, cluster: str | None = None) -> FileEntry:
        raise _missing(path)

    def make_folder(self, path: str, cluster: str | None = None) -> FileEntry:
        raise _missing(path)

    def rename_file(self, path: str, to: str, cluster: str | None = None) -> FileEntry:
        raise _missing(path)

    def remove_file(self, path: str, cluster: str | None = None) -> None:
        raise _missing(path)


def _missing(path: str) -> NotFoundError:
    return NotFoundError(f"{path} not found.")
