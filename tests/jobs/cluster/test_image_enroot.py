"""Images made by pyxis and by enroot alone, in jobs of a real Slurm: both are stand-ins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import ImageBuild, ImageSpec, JobKind, JobState, Stream
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

_HOSTILE = """
export SLURM_EXPORT_ENV=NONE PYXIS_CONTAINER_IMAGE=other PYTHONPATH=/node CONDA_PREFIX=/node
export TMPDIR=/tmp LD_LIBRARY_PATH=/node
"""
"""Of a profile or a user: what a step would heed, or programs in the image."""


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


def make(site: Site, recipe: str | None, **changes: Any) -> ImageBuild:
    changes = {"base": "docker.io/small:1", **changes}
    name = "mine" if recipe else ""
    asked = ImageSpec(id=spec("").id, name=name, recipe=recipe, **changes)
    return site.service.make_image(asked)


def made(site: Site, recipe: str | None, **changes: Any) -> str:
    """What it says, being made."""
    build = make(site, recipe, **changes)
    assert build.job is not None
    job = site.wait(build.job.id, limit_s=180)
    assert job.state is JobState.COMPLETED, (job.why, site.text(job.id))
    return site.text(job.id)


def test_an_image_is_made_whatever_the_nodes_environment_asks_for(runtime: str, site: Site) -> None:
    script = "#!/bin/sh\nenv | sed 's/=.*//' | sort | tr '\\n' ' '; echo \"it's made\" >/made\n"
    said = made(site, script)
    names = set(said.split())
    assert ("SLURM_JOB_ID" in names) is (runtime == "pyxis")
    node = {"PYXIS_CONTAINER_IMAGE", "PYTHONPATH", "CONDA_PREFIX", "LD_LIBRARY_PATH"}
    assert names.isdisjoint(node)
    asked = spec("#!/bin/sh\ncat /made", kind=JobKind.PROGRAM, image="mine")
    job = site.wait(site.service.submit(asked).id)
    assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "it's made\n")


def test_a_script_begins_in_the_folder_that_was_named_for_it(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "beside it"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "ü b").write_text("taken along\n")
    (folder / "left out").touch()
    (folder / ".dockerignore").write_text("left*\n")
    recipe = "#!/bin/sh\nset -e\nls -A\nmkdir -p /srv\ncp 'code/ü b' /srv/\n"
    said = made(site, recipe, push=str(folder))
    assert "code\n" in said
    assert "left out" not in said
    assert make(site, recipe, push=str(folder)).job is None
    (folder / "code" / "ü b").write_text("taken along again\n")
    made(site, recipe, push=str(folder))
    asked = spec("#!/bin/sh\ncat '/srv/ü b'", kind=JobKind.PROGRAM, image="mine")
    job = site.wait(site.service.submit(asked).id)
    assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "taken along again\n")


def test_an_image_is_pulled(site: Site, tmp_path: Path) -> None:
    made(site, None)
    assert len(list((tmp_path / "our images").glob("*.sqsh"))) == 1
    assert make(site, None).job is None


def test_an_image_that_nobody_has(site: Site) -> None:
    asked = ImageSpec(id=spec("").id, name="", base="nowhere:1")
    build = site.service.make_image(asked)
    assert build.job is not None
    job = site.wait(build.job.id, limit_s=60)
    said = r"was not made: it failed while pulling \S*nowhere:1\. The image could not be pulled: "
    assert re.search(said, str(job.why) or "")


def test_one_whose_script_fails_is_not_exported(site: Site) -> None:
    build = make(site, "#!/bin/sh\necho no such luck >&2\nexit 3\n")
    assert build.job is not None
    job = site.wait(build.job.id, limit_s=60)
    said = site.text(job.id) + site.text(job.id, "stderr")
    assert "no such luck" in said
    assert "exit code 3 while building" in said
    assert "pyxis: exported container" not in said
    assert (str(job.why or "")).startswith("The image mine was not made: it failed while building.")
    assert "No such file" not in str(job.why or "")


def test_one_that_is_cancelled_leaves_nothing(site: Site, tmp_path: Path) -> None:
    build = make(site, "#!/bin/sh\necho begun\nwhile :; do sleep 1; done\n")
    assert build.job is not None
    job_id = build.job.id

    def begun() -> bool:
        outputs = site.service.logs(job_id, wait_s=1, budget_bytes=None).outputs
        return "begun" in "".join(one.text for one in outputs if isinstance(one, Stream))

    wait_until(begun, 60)
    site.service.cancel(job_id)
    assert site.wait(job_id).state is JobState.CANCELLED
    folder = tmp_path / "our images"
    wait_until(lambda: [one.name for one in folder.iterdir()] == [".mine.lock"], 60)
