"""Mounts of a profile, in jobs of a real Slurm, with Docker and with the stand-in for pyxis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import JobKind, JobState
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.jobs.conftest import Site

_LOOK = "#!/bin/sh\ncat /workspace/here /scratch/there; echo wrote >/workspace/new"


@pytest.mark.parametrize("runtime", ["docker", "pyxis"])
def test_profile_mounts_are_resolved_on_the_node(
    slurm_cluster: SlurmCluster,
    enroot_standin: EnrootStandIn,
    docker_engine: DockerEngine,
    shell_image: Path,
    small_image: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runtime: str,
) -> None:
    scratch, other, here = (tmp_path / name for name in ("it is scratch", "other", "here"))
    for folder, text in ((scratch, "profile"), (other, "job"), (here, "here")):
        folder.mkdir()
        (folder / "there").write_text(f"{text}\n")
        (folder / "here").write_text(f"{text}\n")
    setup = docker_engine.setup if runtime == "docker" else enroot_standin.setup
    settings: dict[str, Any] = {"job_root": str(tmp_path / "jobs"), "runtime": runtime}
    site = Site(
        slurm_cluster,
        tmp_path,
        monkeypatch,
        setup=f"{setup}\nexport SCRATCH='{scratch}'",
        mounts=[".:/workspace", "$SCRATCH:/scratch"],
        **settings,
    )
    docker_engine.load(shell_image, "small:1")
    image = "small:1" if runtime == "docker" else small_image
    asked: dict[str, Any] = {"kind": JobKind.PROGRAM, "image": str(image), "cwd": str(here)}
    job = site.run(_LOOK, **asked)
    assert job.state is JobState.COMPLETED, site.text(job.id)
    assert site.text(job.id) == "here\nprofile\n"
    assert (here / "new").read_text() == "wrote\n"
    job = site.run(_LOOK, **asked, mounts=(f"{other}:/scratch",))
    assert site.text(job.id) == "here\njob\n"
    site.edit_profile(setup=setup, mounts=["$OF_NOBODY:/scratch"], **settings)
    job = site.run(_LOOK, **asked)
    assert job.state is JobState.FAILED
    assert "$OF_NOBODY is not set on this node" in site.text(job.id)
    site.service.close()
