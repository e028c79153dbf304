"""Image builds by the real tools through a real Slurm, and cells in the images."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import ImageBuild, ImageOrigin, ImageSpec, Job, JobKind, JobState, Stream
from tests.cluster.apptainer import ApptainerEngine
from tests.cluster.docker import DockerEngine
from tests.cluster.image import ch_image_with
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

MADE = ("mkdir -p /opt", 'echo "it\'s $((6 * 7))" >/opt/made')
"""Commands of a recipe."""
ENDLESS = ("echo begun; while :; do sleep 1; done",)


@dataclass
class Ground:
    site: Site
    runtime: str
    base: str
    """The base image as the tool's own recipe names it."""
    folder: Path
    engine: DockerEngine | None = None
    makes_folders: bool = False

    def recipe(self, *commands: str, taking: str = "") -> str:
        """Return a recipe of the tool that runs the commands. `taking` has lines that copy files
        before the commands run."""
        if self.runtime == "apptainer":
            run = "".join(f"    {one}\n" for one in commands)
            return f"Bootstrap: localimage\nFrom: {self.base}\n\n{taking}\n%post\n{run}"
        return f"FROM {self.base}\n{taking}" + "".join(f"RUN {one}\n" for one in commands)

    def left_in_engine(self) -> list[str]:
        """Return the engine's containers, and our images."""
        if self.engine is None:
            return []
        made = self.engine.run("images", "--quiet", "jupyter-slurm/image")
        return [*self.engine.containers(), *made.split()]

    def image_spec(self, recipe: str | None, name: str = "mine", **changes: Any) -> ImageSpec:
        changes = {"runtime": self.runtime, **changes}
        return ImageSpec(id=spec("").id, name=name, recipe=recipe, **changes)

    def build(self, recipe: str, **changes: Any) -> ImageBuild:
        """Build an image, and return it when it is complete."""
        build = self.site.service.make_image(self.image_spec(recipe, **changes))
        if build.job is not None:
            job = self.site.wait(build.job.id, limit_s=180)
            assert job.state is JobState.COMPLETED, self.site.text(job.id)
        return build

    def failed(self, recipe: str, **changes: Any) -> Job:
        """Return the job of a failed build."""
        build = self.site.service.make_image(self.image_spec(recipe, **changes))
        assert build.job is not None
        job = self.site.wait(build.job.id, limit_s=120)
        assert job.state is JobState.FAILED
        return job

    def said(self, job: Job) -> str:
        return self.site.text(job.id) + self.site.text(job.id, "stderr")

    def cancelled(self, recipe: str, **changes: Any) -> Job:
        """Cancel the job once the recipe has printed `begun`. Return the final job."""
        build = self.site.service.make_image(self.image_spec(recipe, **changes))
        assert build.job is not None
        job_id = build.job.id
        wait_until(lambda: "\nbegun\n" in self.so_far(job_id), 120)
        self.site.service.cancel(job_id)
        return self.site.wait(job_id)

    def so_far(self, job_id: str) -> str:
        outputs = self.site.service.logs(job_id, budget_bytes=None).outputs
        return "".join(one.text for one in outputs if isinstance(one, Stream))

    def output_in(self, command: str, image: str = "mine") -> str:
        """Return the output of a command in the image."""
        asked = spec(
            f"#!/bin/sh\n{command}", kind=JobKind.PROGRAM, image=image, runtime=self.runtime
        )
        job = self.site.wait(self.site.service.submit(asked).id)
        assert job.state is JobState.COMPLETED, (job.why, self.site.text(job.id))
        return self.site.text(job.id)


def charliecloud(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Simulate nodes without SquashFS: a stand-in for the program fails."""
    base, setup = charliecloud_squash(request)
    programs: Path = request.getfixturevalue("tmp_path") / "programs"
    (programs / "mksquashfs").write_text("#!/bin/sh\nexit 1\n")
    (programs / "mksquashfs").chmod(0o700)
    return base, setup


def charliecloud_squash(request: pytest.FixtureRequest) -> tuple[str, str]:
    programs: Path = request.getfixturevalue("tmp_path") / "programs"
    programs.mkdir()
    ch_image_with(programs, "small:1", request.getfixturevalue("shell_image"))
    # Debian's Python follows. Without it, ch-image gets a PATH without the stand-in.
    return "small:1", f"export PATH={shlex.quote(str(programs))}:/usr/bin:/bin:$PATH"


def docker(request: pytest.FixtureRequest) -> tuple[str, str]:
    engine: DockerEngine = request.getfixturevalue("docker_engine")
    engine.load(request.getfixturevalue("shell_image"), "small:1")
    return "small:1", engine.setup


def apptainer(request: pytest.FixtureRequest) -> tuple[str, str]:
    engine: ApptainerEngine = request.getfixturevalue("apptainer_engine")
    env = engine.unprivileged | {"APPTAINER_MKSQUASHFS_ARGS": "-noI -noD -noF -noX"}
    setup = "; ".join(f"export {name}={shlex.quote(value)}" for name, value in env.items())
    return str(request.getfixturevalue("shell_image")), setup


ENGINES = {one.__name__: one for one in (charliecloud, docker, apptainer)}
"""Fixtures that return a base image and the profile's setup."""


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def ground(
    request: pytest.FixtureRequest,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    base, setup = request.param(request)
    runtime = request.param.__name__.partition("_")[0]
    folder = tmp_path / "our images"
    (tmp_path / "node").mkdir()
    setup += f"\nexport TMPDIR={shlex.quote(str(tmp_path / 'node'))}"
    settings = {"image_dir": str(folder), "runtime": runtime, "setup": setup}
    site = Site(slurm_cluster, tmp_path, monkeypatch, **settings)
    engine: DockerEngine | None = None
    if runtime == "docker":
        engine = request.getfixturevalue("docker_engine")
    makes_folders = request.param is charliecloud
    yield Ground(site, runtime, base, folder, engine, makes_folders)
    site.service.close()


@pytest.mark.parametrize(
    "ground",
    [*ENGINES.values(), charliecloud_squash],
    ids=[*ENGINES, "charliecloud squash"],
    indirect=True,
)
def test_image_is_built_once_and_runs_cells(
    ground: Ground,
) -> None:
    first = ground.build(ground.recipe(*MADE))
    assert first.job is not None
    assert "The image mine is ready" in ground.site.text(first.job.id)
    assert ground.output_in("cat /opt/made") == "it's 42\n"
    again = ground.build(ground.recipe(*MADE))
    assert again.job is None
    assert Path(again.image.path).is_dir() is ground.makes_folders
    assert Path(again.image.path).exists()
    assert [path.name for path in ground.folder.glob(".*") if "partial" in path.name] == []
    changed = ground.build(ground.recipe(*MADE, "echo more >>/opt/made"))
    assert changed.job is not None
    assert ground.output_in("cat /opt/made") == "it's 42\nmore\n"
    assert Path(again.image.path).exists()


_PIP = """#!/bin/sh
# A stand-in for a Python with pip, which cannot reach packages here. It records the arguments of
# pip. For a tool's `python3 -IS -c TEXT PROGRAM` it executes PROGRAM.
[ "$1" = -m ] || { shift 3; exec "$@"; }
echo "pip says hello"
echo "$@" >>/opt/pip
"""


@pytest.mark.parametrize(
    "ground", [charliecloud_squash], ids=["charliecloud squash"], indirect=True
)
def test_packages_are_added_to_an_existing_image(ground: Ground, tmp_path: Path) -> None:
    """Charliecloud starts from a packed image."""
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "python3").write_text(_PIP)
    (folder / "python3").chmod(0o755)
    python = ground.recipe("mkdir -p /opt", taking="COPY python3 /usr/bin/\n")
    ground.build(python, name="base", folder=str(folder))
    recipe = "pip install -q 'numpy < 2' tqdm\n!pip install x"
    lines = ground.build(recipe, base="base")
    assert lines.job is not None
    assert lines.image.base == "base"
    assert "pip says hello" in ground.site.text(lines.job.id)
    assert ground.output_in("cat /opt/pip") == (
        "-m pip install --no-cache-dir numpy < 2 tqdm\n-m pip install --no-cache-dir x\n"
    )
    (folder / "python3").write_text(_PIP + "# changed\n")
    ground.build(python, name="base", folder=str(folder))
    again = ground.site.service.make_image(ground.image_spec(recipe, base="base"))
    assert again.job is not None
    ground.site.service.cancel(again.job.id)
    ground.site.wait(again.job.id)


def test_failed_build_reports_the_step_and_removes_its_files(
    ground: Ground, tmp_path: Path
) -> None:
    recipe = ground.recipe("echo 'no such luck' >&2; exit 3")
    before = ground.left_in_engine()
    job = ground.failed(recipe)
    assert "no such luck" in ground.said(job)
    assert "mine was not created" in ground.said(job)
    assert job.why is not None
    assert str(job.why).startswith("Image mine was not built: building failed.")
    assert job.advice
    assert [one.name for one in ground.folder.iterdir()] == [".mine.lock"]
    assert list((tmp_path / "node").iterdir()) == []
    assert ground.left_in_engine() == before
    with pytest.raises(NotFoundError):
        ground.site.service.remove_image("mine")
    ground.failed(recipe)


@pytest.mark.parametrize("ground", [docker], ids=["docker"], indirect=True)
def test_cancelled_build_removes_its_files(ground: Ground, tmp_path: Path) -> None:
    before = ground.left_in_engine()
    assert ground.cancelled(ground.recipe(*ENDLESS)).state is JobState.CANCELLED
    wait_until(lambda: [one.name for one in ground.folder.iterdir()] == [".mine.lock"], 60)
    wait_until(lambda: not list((tmp_path / "node").iterdir()), 60)
    wait_until(lambda: ground.left_in_engine() == before, 60)


@pytest.mark.parametrize("ground", [charliecloud], ids=["charliecloud"], indirect=True)
def test_simultaneous_equal_builds_share_a_job(ground: Ground) -> None:
    with ThreadPoolExecutor(2) as pool:
        asked = [ground.image_spec(ground.recipe("sleep 5")) for _ in range(2)]
        first, second = pool.map(ground.site.service.make_image, asked)
    assert first.job is not None
    assert second.job is not None
    assert first.job.id == second.job.id
    ground.site.service.cancel(first.job.id)
    ground.site.wait(first.job.id)


@pytest.mark.parametrize("ground", [docker], ids=["docker"], indirect=True)
def test_images_are_listed_and_removed(ground: Ground) -> None:
    service = ground.site.service
    ground.build(ground.recipe(*MADE))
    ground.build(ground.recipe(*MADE), again=True)
    listed = {one.name: one for one in service.images()}
    mine = listed["mine"]
    assert mine.origin is ImageOrigin.BUILT
    assert mine.made_s is not None
    assert mine.size_mib is not None
    assert mine.size_mib > 10
    versions = [one for one in ground.folder.iterdir() if one.name.startswith("mine+")]
    assert len(versions) == 2
    assert Path(mine.path) in versions
    nodes = service.remove_image("mine").held_on
    left = [one.name for one in ground.folder.iterdir() if "@" not in one.name]
    assert left == [".mine.lock"]
    with pytest.raises(NotFoundError, match="mine"):
        service.remove_image("mine")
    assert nodes != ()
