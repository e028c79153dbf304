"""Another user with access to the parent of jobs' folders must not read or change a job."""

# ruff: noqa: F811 - fixtures are imported, and then named as arguments

from __future__ import annotations

import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.errors import SubmitError
from jupyter_slurm.jobs import layout
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec, way  # noqa: F401 - a fixture
from tests.ssh.sshd import Sshd

EVE = 60_123
"""The ID of another user, who has no account."""
PROJECT = 60_124
"""A group of that user."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

LOOK = """
import json, os, sys
seen, opened, made = [], [], []
for root in sys.argv[1:]:
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            seen.append(os.path.join(folder, name))
        try:
            with open(os.path.join(folder, "eve"), "w"):
                made.append(folder)
        except OSError:
            pass
        for name in files:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    opened.append([name, file.read(16).decode("latin-1")])
            except OSError:
                pass
print(json.dumps([seen, opened, made]))
"""


def eve_sees(*roots: Path) -> tuple[list[str], list[list[str]], list[str]]:
    """Return three lists of paths below the folders: those that Eve can list, open and write to."""
    words = [sys.executable, "-IS", "-c", LOOK, *map(str, roots)]
    done = subprocess.run(
        words, user=EVE, group=EVE, extra_groups=[PROJECT], capture_output=True, check=True
    )
    seen, opened, made = json.loads(done.stdout)
    return seen, opened, made


def open_by_default_acl(folder: Path) -> None:
    """Do `setfacl -m u:EVE:rwx -m d:u:EVE:rwx,d:o::rwx` with the kernel's attribute (acl(5),
    linux/posix_acl_xattr.h): new files are open to Eve, regardless of the umask."""
    everyone = 0xFFFFFFFF
    entries = [
        (0x01, 7, everyone),  # the owner
        (0x02, 7, EVE),  # a user by name
        (0x04, 7, everyone),  # the group
        (0x10, 7, everyone),  # the mask
        (0x20, 7, everyone),  # all others
    ]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
    os.setxattr(folder, "system.posix_acl_default", acl)
    os.setxattr(folder, "system.posix_acl_access", acl)


def open_by_group(folder: Path) -> None:
    """Make the folder a project folder, whose content belongs to the group."""
    os.chown(folder, -1, PROJECT)
    folder.chmod(0o2775)


@pytest.fixture
def umask_of_a_project() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder that all users can enter. They cannot enter pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="key-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shared(place: Path) -> Path:
    """Return the job root of a project: a group's folder that is also open to another user."""
    folder = place / "project"
    folder.mkdir()
    open_by_group(folder)
    open_by_default_acl(folder)
    return folder


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    shared: Path,
    tmp_path: Path,
    umask_of_a_project: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Yield a site whose job root is the shared folder, or a missing subfolder of it."""
    settings = {"job_root": str(shared / "ada's" / "jobs")}
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=way, **settings)
    yield site
    site.service.close()


@needs_root
def test_key_and_files_of_a_job_are_private_in_a_shared_folder(site: Site, shared: Path) -> None:
    job = site.run("print('secret'); x = 1", names_out=("x",))
    folder = Path(job.job_dir)
    seen, opened, made = eve_sees(folder, shared)
    assert [path for path in seen if path.startswith(f"{folder}/")] == []
    assert opened == []
    assert [path for path in made if path.startswith(str(folder))] == []
    assert stat.S_IMODE((folder / layout.KEY).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) & 0o777 == 0o700


@needs_root
@pytest.mark.parametrize("planted", ["folder", "link"])
def test_job_folder_of_another_user_is_rejected(
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    planted: str,
) -> None:
    """An attacker who knows a job's ID can create its folder or a link first."""
    root = place / "jobs"
    root.mkdir()
    root.chmod(0o777)
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=way, job_root=str(root))
    try:
        asked = spec("x = 1")
        hers = place / "hers" if planted == "link" else root / asked.id
        hers.mkdir(mode=0o777)
        hers.chmod(0o777)
        os.chown(hers, EVE, EVE)
        if planted == "link":
            (root / asked.id).symlink_to(hers)
        with pytest.raises(SubmitError, match="open to other users"):
            site.service.submit(asked)
        assert list(hers.iterdir()) == []
    finally:
        site.service.close()
