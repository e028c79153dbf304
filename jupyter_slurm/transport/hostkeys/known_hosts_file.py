"""Files of known host keys (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): read, and one line added.

Knows lines and names, not whether a key is to be trusted: that is `hostkeys.py`. A file is never
rewritten, so that its comments, markers and what is not understood here stay as they are.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hmac
import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from jupyter_slurm.places import make_private
from jupyter_slurm.transport.ssh_config.config_words import matches_any

Marker = Literal["", "cert-authority", "revoked"]

_MARKERS: Final[dict[bytes, Marker]] = {
    b"@cert-authority": "cert-authority",
    b"@revoked": "revoked",
}
_HASHED = b"|1|"
_NOT_TO_BE_WRITTEN = frozenset("@?*#|'\"\\,! \t\r\n")


class KnownHostsEntry(NamedTuple):
    """One line: a key that holds for `names`."""

    path: Path
    line: int
    marker: Marker
    names: bytes
    """As written: patterns with commas between, or one hash."""
    key_type: str
    blob: bytes

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"

    def names_host(self, name: str) -> bool:
        """Tell whether it holds for `name`: a host in lower case, or `[host]:port`."""
        if self.names.startswith(b"|"):
            return _is_hash_of(self.names, name)
        patterns = os.fsdecode(self.names).lower().split(",")
        return matches_any(name, patterns)


def read(paths: Iterable[Path]) -> tuple[KnownHostsEntry, ...]:
    """Read every line that can be understood, file by file. A file that is not there or may not be
    read has none, and a bad line is passed over, as OpenSSH does."""
    return tuple(entry for path in paths for entry in _entries(path))


def _entries(path: Path) -> Iterator[KnownHostsEntry]:
    try:
        text = path.read_bytes()
    except OSError:
        return
    for number, line in enumerate(text.split(b"\n"), 1):
        entry = _entry(path, number, line.split())
        if entry is not None:
            yield entry


def _entry(path: Path, number: int, fields: list[bytes]) -> KnownHostsEntry | None:
    if not fields or fields[0].startswith(b"#"):
        return None
    marker: Marker = ""
    if fields[0].startswith(b"@"):
        if fields[0] not in _MARKERS:
            return None
        marker = _MARKERS[fields.pop(0)]
    if len(fields) < 3:
        return None
    names, key_type, encoded = fields[:3]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return None
    # The blob says its type again; a line of which the two differ is damaged.
    if _strings(blob)[:1] != [key_type]:
        return None
    return KnownHostsEntry(path, number, marker, names, key_type.decode("ascii", "replace"), blob)


def _strings(blob: bytes) -> list[bytes]:
    """Return the strings of which a public key is made (RFC 4253, 6.6); [] when it was cut off."""
    strings, at = [], 0
    while at < len(blob):
        if at + 4 > len(blob):
            return []
        (length,) = struct.unpack_from(">I", blob, at)
        at += 4 + length
        strings.append(blob[at - length : at])
    return strings if at == len(blob) else []


def _is_hash_of(hashed: bytes, name: str) -> bool:
    try:
        _, _, salt, digest = hashed.split(b"|")
        key, expected = (base64.b64decode(part, validate=True) for part in (salt, digest))
    except ValueError:  # binascii.Error is one
        return False
    return hashed.startswith(_HASHED) and hmac.compare_digest(_digest(key, name), expected)


def _digest(salt: bytes, name: str) -> bytes:
    return hmac.digest(salt, os.fsencode(name), "sha1")


def can_be_written(name: str) -> bool:
    """Tell whether `name` would stand for itself alone in a file, and not for a pattern."""
    return bool(name) and not _NOT_TO_BE_WRITTEN & set(name)


def append(path: Path, name: str, key_type: str, blob: bytes, *, hashed: bool) -> None:
    """Add one line for `name`, unless it is there; make the file 0600 in a folder 0700. OSError.

    `ssh` and `ssh-keygen -R` take no lock: they append by one write, or put a new file in the old
    one's place. So the line is one write to the end of what `path` names at that moment, and the
    lock is for others of our kind.
    """
    make_private(path.parent)
    with _locked(path) as file:
        known = any(
            entry.blob == blob and not entry.marker and entry.names_host(name)
            for entry in _entries(path)
        )
        if known:
            return
        names = os.fsencode(name)
        if hashed:
            salt = secrets.token_bytes(20)
            parts = (base64.b64encode(part) for part in (salt, _digest(salt, name)))
            names = _HASHED + b"|".join(parts)
        line = b" ".join((names, key_type.encode(), base64.b64encode(blob))) + b"\n"
        os.write(file.fileno(), (b"" if _ends_with_newline(file) else b"\n") + line)


def _locked(path: Path) -> BinaryIO:
    """Open `path` to append and lock it, even if it was replaced during the wait."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # some network file systems have no locks; the write is one all the same
            return file
        try:
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return file
        except FileNotFoundError:
            pass
        file.close()


def _ends_with_newline(file: BinaryIO) -> bool:
    size = os.fstat(file.fileno()).st_size
    return size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n"
