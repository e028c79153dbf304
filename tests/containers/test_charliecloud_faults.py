"""Failures with the real Charliecloud in jobs of a real Slurm: each is explained and leaves nothing
behind. `test_cells.py` tests the successes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import Job, JobKind, JobState
from tests.cluster.docker_images import CLAIMS_TO_BE_OLD, shell_only
from tests.cluster.plugin import SlurmCluster
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0

MakeSite = Callable[..., Site]


@pytest.fixture
def made(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeSite]:
    """Make the test's site. At the end, check that its jobs left nothing."""
    sites: list[Site] = []

    def made(setup: str = "") -> Site:
        sites.append(Site(slurm_cluster, tmp_path, monkeypatch, setup=setup))
        return sites[-1]

    yield made
    wait_until(lambda: not any(map(processes_of, sites)), _PATIENCE_S)
    for site in sites:
        site.service.close()


def begin(site: Site, image: Path, code: str = "print('ran')", **changes: Any) -> Job:
    kind = JobKind.PROGRAM if code.startswith("#!") else JobKind.CELL
    asked = spec(code, image=str(image), kind=kind, runtime="charliecloud", **changes)
    return site.service.submit(asked)


def run(site: Site, image: Path, **changes: Any) -> Job:
    return site.wait(begin(site, image, **changes).id)


def failed(job: Job, sentence: str, advice: str) -> None:
    assert job.state is JobState.FAILED
    assert (str(job.why or "")).startswith(sentence)
    assert advice in str(job.advice or "")
    assert "\n" not in str(job.why or "")


def small(folder: Path) -> Path:
    """Make a folder image with only /bin/sh and the mount points that ch-run needs."""
    shell_only(folder)
    for name in ("dev", "etc", "home", "mnt", "proc", "sys", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    for name in ("hosts", "passwd", "group", "resolv.conf"):
        (folder / "etc" / name).touch()
    return folder


def test_image_without_python_is_reported(made: MakeSite, tmp_path: Path) -> None:
    failed(run(made(), small(tmp_path / "small")), "The image has no Python.", "#!/bin/sh")


@pytest.mark.parametrize("minor", [5, 6])
def test_image_with_an_old_python_is_reported(
    made: MakeSite, demo_image: Path, tmp_path: Path, minor: int
) -> None:
    """A stand-in reports the version of an old Python. 3.6 is accepted."""
    python = tmp_path / "old" / "python3"
    python.parent.mkdir()
    python.write_text(CLAIMS_TO_BE_OLD.format(minor=minor))
    python.chmod(0o755)
    site = made()
    mounts = (f"{python.parent}:/mnt/old",)
    job = run(site, demo_image, mounts=mounts, env={"PATH": "/mnt/old:/usr/bin:/bin"})
    if minor == 6:
        assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "ran\n")
    else:
        failed(
            job,
            "A cell needs Python 3.6 or later. This is Python 3.5.",
            "Use an image with python3",
        )


@pytest.fixture
def without_charliecloud(tmp_path: Path) -> Path:
    """Return a folder of this machine's programs except Charliecloud's."""
    folder = tmp_path / "without"
    folder.mkdir()
    for place in ("/usr/bin", "/usr/sbin"):
        for program in Path(place).iterdir():
            link = folder / program.name
            if not program.name.startswith("ch-") and not link.exists():
                link.symlink_to(program)
    return folder


def test_login_node_without_charliecloud_submits(
    made: MakeSite,
    demo_image: Path,
    without_charliecloud: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = os.environ["PATH"]
    with monkeypatch.context() as login:
        login.setenv("PATH", str(without_charliecloud))
        site = made(f"export PATH={shlex.quote(node)}\n")
        job = run(site, demo_image)
        assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "ran\n")
