"""Files on a cluster, as its login node sees them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class FileEntry(Struct, frozen=True, kw_only=True):
    """One, links followed."""

    name: str
    kind: Literal["file", "folder", "other"]
    """other: a link that leads nowhere, a socket, a device."""
    size_bytes: int
    modified_s: float
    writable: bool
    """By this user."""


class FileListing(Struct, frozen=True, kw_only=True):
    """A folder and what is in it, but for names that are no UTF-8."""

    folder: FileEntry
    entries: tuple[FileEntry, ...]


class FileContent(Struct, frozen=True, kw_only=True):
    entry: FileEntry
    content: bytes
