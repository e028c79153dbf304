"""A cell in the real Podman without root, as an ordinary user of a cluster behind a gateway. The
jobs of the other tests belong to the user who runs the tests. This is mostly root, and Podman
before 4.4 rejects `--userns=keep-id` for root."""

from __future__ import annotations

import subprocess
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.ssh.accounts import change_passwd
from tests.ssh.laptop import Laptop
from tests.ssh.site import Site

_IMAGE = "localhost/small:1"
_CELL = """%%slurm --image {image} --in data --out total,who
import os
with open(os.path.expanduser("~/from-podman"), "w") as file:
    file.write("x")
who = (os.getuid(), os.path.exists("/run/.containerenv"))
total = sum(data)
print("hello from", os.uname().nodename)"""


@pytest.fixture
def image(ssh_site: Site, lean_image: Path, tmp_path: Path) -> Iterator[str]:
    """Give the user a range of IDs, and an image with Python in their Podman."""
    account = ssh_site.person.account
    ranges = ("--add-subuids", "300000-365535", "--add-subgids", "300000-365535")
    change_passwd(["usermod", *ranges, account.name])
    archive = account.home / "small.tar"
    subprocess.run(["tar", "-C", lean_image, "-cf", archive, "."], check=True)
    archive.chmod(0o644)
    ssh_site.run("podman", "--cgroup-manager=cgroupfs", "import", str(archive), _IMAGE)
    archive.unlink()
    yield _IMAGE
    ssh_site.run("podman", "rmi", "--force", _IMAGE)
    # ends the process that holds the namespace of the user's Podman
    ssh_site.run("podman", "system", "migrate")


def test_cell_runs_in_rootless_podman(laptop: Laptop, image: str) -> None:
    account = laptop.site.person.account
    # The default, crun, does not start containers on a machine with both versions of cgroups.
    conf = account.write(".config/containers/containers.conf", '[engine]\nruntime = "runc"\n')
    laptop.home.write_profile(runtime="podman")
    laptop.log_in()
    cell = _CELL.format(image=image)
    book = laptop.notebook("book", "%load_ext jupyter_slurm\ndata = [1, 2, 3]", cell, "total, who")
    laptop.execute(book)
    shown = nbformat.read(book, as_version=4).cells[2].outputs[0].data["text/plain"]
    assert literal_eval(shown) == (6, (account.uid, True))
    made = account.home / "from-podman"
    assert made.stat().st_uid == account.uid
    made.unlink()
    conf.unlink()
    assert laptop.site.run("podman", "ps", "--all", "--quiet").stdout == ""
