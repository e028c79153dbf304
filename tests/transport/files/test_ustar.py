"""Archives that a real tar reads, and what is read of a real tar's."""

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


@pytest.mark.parametrize("name", NAMES)
def test_tar_reads_every_name(tmp_path: Path, name: bytes) -> None:
    text = archive(ustar.header(name, size_bytes=2, mode=0o751), ustar.padded(b"hi"))
    env = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
    subprocess.run(["tar", "-xpf", "-"], input=text, cwd=tmp_path, check=True, env=env)
    path = tmp_path / os.fsdecode(name)
    assert path.read_bytes() == b"hi"
    assert path.stat().st_mode & 0o777 == 0o751


@pytest.mark.parametrize("form", ["gnu", "posix", "ustar"])
@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_tars_is_read(tmp_path: Path, name: bytes, form: str) -> None:
    path = tmp_path / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"content")
    os.utime(path, ns=(5_000_000_000, 5_000_000_000))
    made = subprocess.run(
        [b"tar", b"--format=" + form.encode(), b"-cf", b"-", b"--", b"./" + name],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    if form == "ustar" and made.returncode:
        assert b"too long" in made.stderr  # what this form cannot hold
        return
    (member,) = ustar.members(io.BytesIO(made.stdout))
    assert member.name == b"./" + name
    assert (member.kind, member.size_bytes, member.mtime_ns) == (ustar.FILE, 7, 5_000_000_000)
    assert made.stdout[member.offset :][:7] == b"content"


def test_times_before_1970_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.utime(tmp_path / "a", ns=(-5_000_000_000, -5_000_000_000))
    argv = ["tar", "--format=gnu", "-cf", "-", "a"]
    made = subprocess.run(argv, cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    (member,) = ustar.members(io.BytesIO(made.stdout))
    assert member.mtime_ns == -5_000_000_000


@pytest.mark.parametrize("when_ns", [1_700_000_000_123_456_789, -1_500_000_000, -250_000_000])
def test_exact_times_arrive(tmp_path: Path, when_ns: int) -> None:
    text = archive(ustar.exact_time(when_ns), ustar.header(b"a", mtime_ns=when_ns))
    subprocess.run(["tar", "-xf", "-"], input=text, cwd=tmp_path, check=True)
    assert (tmp_path / "a").stat().st_mtime_ns == when_ns


def test_links_arrive_with_long_targets_too(tmp_path: Path) -> None:
    target = b"t" * 150
    text = archive(ustar.header(b"short", kind=ustar.SYMLINK, link=b"x"))[: -len(ustar.END)]
    text += archive(ustar.header(b"long", kind=ustar.SYMLINK, link=target))
    subprocess.run(["tar", "-xf", "-"], input=text, cwd=tmp_path, check=True)
    assert (tmp_path / "short").readlink() == Path("x")
    assert (tmp_path / "long").readlink() == Path(os.fsdecode(target))


def test_archives_behind_each_other_are_read_as_one() -> None:
    one = archive(ustar.header(b"a", size_bytes=1), ustar.padded(b"1"))
    two = archive(ustar.header(b"b"))
    assert [member.name for member in ustar.members(io.BytesIO(one + two))] == [b"a", b"b"]


def test_a_second_name_of_a_file_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    argv = ["tar", "-cf", "-", "a", "b"]
    made = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=True)
    _, second = ustar.members(io.BytesIO(made.stdout))
    assert (second.kind, second.link, second.size_bytes) == (ustar.HARD_LINK, b"a", 0)


@pytest.mark.parametrize(
    "damage",
    [b"Welcome to the cluster!\n" + bytes(600), ustar.header(b"a")[:300], b"x" * 512],
)
def test_what_is_no_archive_is_refused(damage: bytes) -> None:
    with pytest.raises(ustar.DamagedError):
        list(ustar.members(io.BytesIO(damage)))


def test_a_size_beyond_octal_is_read() -> None:
    block = bytearray(ustar.header(b"a"))
    block[124:136] = b"\x80" + (1 << 40).to_bytes(11, "big")
    block[148:156] = b"%06o\0 " % (sum(block) - sum(block[148:156]) + 8 * 32)
    (member,) = ustar.members(io.BytesIO(bytes(block)))
    assert member.size_bytes == 1 << 40
