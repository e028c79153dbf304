"""Files over SSH. `test_files.py` contains more tests, on this machine."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.transport.files import mirror, pull, push
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.transport import SshTransport
from tests.ssh.sshd import Sshd

MIB = 1 << 20
HOSTILE = [
    b"plain.py",
    b'it\'s "quoted" $HOME `id` \\ !x',
    b"new\nline",
    b"-rf",
    "ünï→日本".encode(),
    b"\xff\xfe",
    b"y" * 255,
    b"/".join([b"deep" * 20] * 4) + b"/z",
]


def connected(sshd: Sshd) -> Iterator[SshTransport]:
    connection = SshConnection([sshd.hop()], name="far")
    transport = SshTransport(connection)
    yield transport
    transport.close()
    connection.close()


@pytest.fixture
def far(sshd: Sshd) -> Iterator[SshTransport]:
    yield from connected(sshd)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for name in HOSTILE:
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("run.sh")
    (folder / "medium").write_bytes(random.Random(1).randbytes(5 * MIB + 1))
    return folder


def tree(folder: Path) -> dict[bytes, object]:
    found: dict[bytes, object] = {}
    for path in folder.rglob("*"):
        info = path.lstat()
        kind = stat.S_IFMT(info.st_mode)
        content = b"" if path.is_dir() else path.read_bytes()
        found[os.fsencode(path.relative_to(folder))] = (kind, info.st_mode & 0o100, content)
    return found


@pytest.mark.usefixtures("small_parts")
def test_folder_is_unchanged_after_push_and_pull(
    far: SshTransport, source: Path, tmp_path: Path
) -> None:
    target = f"{far.home()}/pushed it's -x"
    outcome = push(far, source, target)
    assert (outcome.failed, outcome.files) == ({}, len(HOSTILE) + 3)
    assert push(far, source, target).files == 0
    back = pull(far, target, tmp_path / "back")
    assert (back.failed, back.files) == ({}, len(HOSTILE) + 3)
    assert tree(tmp_path / "back") == tree(source)
    assert pull(far, target, tmp_path / "back").files == 0


def test_mirror_runs_its_command_on_the_cluster(far: SshTransport, source: Path) -> None:
    target = f"{far.home()}/mirror"
    script = ["sh", "-c", 'cp -a "$1" "$2"', "copy", target, f"{target}.copy"]
    outcome = mirror(far, source, target, lock=f"{target}.lock", then=script)
    assert not outcome.failed
    assert far.run(["diff", "-r", target, f"{target}.copy"]).returncode == 0
