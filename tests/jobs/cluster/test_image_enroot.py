"""Image builds by pyxis and by enroot, both stand-ins, in jobs of a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.wire import ImageBuild, ImageSpec, JobKind, JobState
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

_HOSTILE = """
export SLURM_EXPORT_ENV=NONE PYXIS_CONTAINER_IMAGE=other PYTHONPATH=/node CONDA_PREFIX=/node
export TMPDIR=/tmp LD_LIBRARY_PATH=/node
"""
"""Variables of a profile or a user that would affect a step or programs in the image."""


@pytest.fixture(params=["pyxis", "enroot"])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(
    runtime: str,
    slurm_cluster: SlurmCluster,
    enroot_standin: EnrootStandIn,
    small_image: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    enroot_standin.publish("small:1", small_image)
    site = Site(
        slurm_cluster,
        tmp_path,
        monkeypatch,
        runtime=runtime,
        setup=enroot_standin.setup + _HOSTILE,
        job_root=str(tmp_path / "jobs"),
        image_dir=str(tmp_path / "our images"),
    )
    yield site
    wait_until(lambda: not enroot_standin.containers() and not processes_of(site), 60)
    site.service.close()


def make(site: Site, recipe: str) -> ImageBuild:
    asked = ImageSpec(id=spec("").id, name="mine", base="docker.io/small:1", recipe=recipe)
    return site.service.make_image(asked)


def test_environment_of_the_node_does_not_affect_a_build(runtime: str, site: Site) -> None:
    script = "#!/bin/sh\nenv | sed 's/=.*//' | sort | tr '\\n' ' '; echo \"it's made\" >/made\n"
    build = make(site, script)
    assert build.job is not None
    job = site.wait(build.job.id, limit_s=180)
    assert job.state is JobState.COMPLETED, (job.why, site.text(job.id))
    names = set(site.text(job.id).split())
    assert ("SLURM_JOB_ID" in names) is (runtime == "pyxis")
    node = {"PYXIS_CONTAINER_IMAGE", "PYTHONPATH", "CONDA_PREFIX", "LD_LIBRARY_PATH"}
    assert names.isdisjoint(node)
    asked = spec("#!/bin/sh\ncat /made", kind=JobKind.PROGRAM, image="mine")
    job = site.wait(site.service.submit(asked).id)
    assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "it's made\n")


def test_failed_image_script_exports_nothing(site: Site) -> None:
    build = make(site, "#!/bin/sh\necho no such luck >&2\nexit 3\n")
    assert build.job is not None
    job = site.wait(build.job.id, limit_s=60)
    said = site.text(job.id) + site.text(job.id, "stderr")
    assert "no such luck" in said
    assert "exit code 3 while building" in said
    assert "pyxis: exported container" not in said
    assert (str(job.why or "")).startswith("Image mine was not built: building failed.")
    assert "no such luck" in str(job.why)
    assert "No such file" not in str(job.why)
