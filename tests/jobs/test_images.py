"""Images made by the real tools through a real Slurm, and cells that run in them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import ImageBuild, ImageSpec, JobKind, JobState
from tests.cluster.apptainer import ApptainerEngine
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec

_MADE = '#!/bin/sh\nset -e\nmkdir -p /opt\necho "it\'s $((6 * 7))" >/opt/made\n'


@dataclass
class Ground:
    site: Site
    runtime: str
    base: str
    folder: Path

    def asked(self, recipe: str | None, name: str = "mine", **changes: Any) -> ImageSpec:
        changes = {"base": self.base, "runtime": self.runtime, **changes}
        return ImageSpec(id=spec("").id, name=name, recipe=recipe, **changes)

    def build(self, recipe: str, **changes: Any) -> ImageBuild:
        """Once it is there."""
        build = self.site.service.make_image(self.asked(recipe, **changes))
        if build.job is not None:
            job = self.site.wait(build.job.id, limit_s=180)
            assert job.state is JobState.COMPLETED, self.site.text(job.id)
        return build

    def told(self, command: str, image: str = "mine") -> str:
        """What a program in the image prints."""
        asked = spec(
            f"#!/bin/sh\n{command}", kind=JobKind.PROGRAM, image=image, runtime=self.runtime
        )
        job = self.site.wait(self.site.service.submit(asked).id)
        assert job.state is JobState.COMPLETED, (job.why, self.site.text(job.id, "stderr"))
        return self.site.text(job.id)


def charliecloud(request: pytest.FixtureRequest) -> tuple[str, str]:
    return str(request.getfixturevalue("demo_image")), ""


def docker(request: pytest.FixtureRequest) -> tuple[str, str]:
    engine: DockerEngine = request.getfixturevalue("docker_engine")
    return engine.image, f"export DOCKER_HOST={engine.env['DOCKER_HOST']}"


def apptainer(request: pytest.FixtureRequest) -> tuple[str, str]:
    engine: ApptainerEngine = request.getfixturevalue("apptainer_engine")
    env = engine.unprivileged | {"APPTAINER_MKSQUASHFS_ARGS": "-noI -noD -noF -noX"}
    return str(engine.sif), "; ".join(f"export {k}={shlex.quote(v)}" for k, v in env.items())


ENGINES = {one.__name__: one for one in (charliecloud, docker, apptainer)}
"""Each gives an image to start from, and what the profile's set-up says."""


@pytest.fixture(params=ENGINES)
def ground(
    request: pytest.FixtureRequest,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    base, setup = ENGINES[request.param](request)
    folder = tmp_path / "our images"
    settings = {"image_dir": str(folder), "runtime": request.param, "setup": setup}
    site = Site(slurm_cluster, tmp_path, monkeypatch, **settings)
    yield Ground(site, request.param, base, folder)
    site.service.close()


def test_a_script_makes_an_image_that_a_cell_runs_in_and_that_is_not_made_twice(
    ground: Ground,
) -> None:
    first = ground.build(_MADE)
    assert first.job is not None
    assert "The image mine is there" in ground.site.text(first.job.id)
    assert ground.told("cat /opt/made") == "it's 42\n"
    again = ground.build(_MADE)
    assert again.job is None
    assert Path(again.image.path).exists()
    assert [path.name for path in ground.folder.glob(".*") if "partial" in path.name] == []
    changed = ground.build(_MADE + "echo more >>/opt/made\n")
    assert changed.job is not None
    assert ground.told("cat /opt/made") == "it's 42\nmore\n"
    assert Path(again.image.path).exists()
