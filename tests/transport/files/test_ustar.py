"""Archives written for a real tar, and archives written by a real tar."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.transport.files import ustar

NAMES = [
    b"plain",
    b"two words",
    b'it\'s "quoted" $HOME',
    b"new\nline",
    b"-dash",
    "ünï/cødé".encode(),
    b"\xff\xfe no text",
    b"d/" + b"n" * 99,
    b"p" * 120 + b"/" + b"q" * 200,
    b"\xe9" * 130,
]


def archive(*members: bytes) -> bytes:
    return b"".join(members) + ustar.END


@pytest.mark.parametrize("form", ["gnu", "posix", "ustar"])
@pytest.mark.parametrize("name", NAMES)
def test_names_in_every_tar_format_are_read(tmp_path: Path, name: bytes, form: str) -> None:
    path = tmp_path / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"content")
    os.utime(path, ns=(5_000_000_000, 5_000_000_000))
    made = subprocess.run(
        [b"tar", b"--format=" + form.encode(), b"-cf", b"-", b"--", b"./" + name],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    if form == "ustar" and made.returncode:
        assert b"too long" in made.stderr  # this format cannot store the name
        return
    (member,) = ustar.members(io.BytesIO(made.stdout))
    assert member.name == b"./" + name
    assert (member.kind, member.size_bytes, member.mtime_ns) == (ustar.FILE, 7, 5_000_000_000)
    assert made.stdout[member.offset :][:7] == b"content"


@pytest.mark.parametrize(
    "damage",
    [b"Welcome to the cluster!\n" + bytes(600), ustar.header(b"a")[:300], b"x" * 512],
)
def test_invalid_archive_is_rejected(damage: bytes) -> None:
    with pytest.raises(ustar.DamagedError):
        list(ustar.members(io.BytesIO(damage)))
