"""Images of a real registry that wants a password, pulled by real tools through a real Slurm."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import ImageSpec, Job, JobKind, JobState
from tests.cluster.apptainer import ApptainerEngine, exports
from tests.cluster.docker import DockerEngine, docker_running
from tests.cluster.plugin import SlurmCluster
from tests.cluster.registry import Registry
from tests.jobs.conftest import Site, spec
from tests.ssh.kept import keeping
from tests.ssh.sshd import free_port


@dataclass(frozen=True)
class Ground:
    site: Site
    runtime: str
    registry: str
    """As the tool calls it."""
    logins: Path
    """Where the tool looks for its password; of Charliecloud, what the profile's set-up reads."""

    def pull(self, reference: str) -> Job:
        """Once it has ended."""
        build = self.site.service.make_image(ImageSpec(id=spec("").id, base=reference))
        assert build.job is not None
        return self.site.wait(build.job.id, limit_s=180)

    def build(self, recipe: str) -> Job:
        """Once it has ended."""
        asked = ImageSpec(id=spec("").id, name="mine", recipe=recipe)
        build = self.site.service.make_image(asked)
        assert build.job is not None
        return self.site.wait(build.job.id, limit_s=180)

    def recipe(self, reference: str, command: str) -> str:
        if self.runtime == "apptainer":
            return f"Bootstrap: docker\nFrom: {reference}\n%post\n  {command}\n"
        return f"FROM {reference}\nRUN {command}\n"

    def log_in(self, known: Registry, password: str | None = None) -> None:
        """As the tool's own login does, or its user who has none."""
        password = password or known.password
        self.logins.parent.mkdir(exist_ok=True)
        if self.runtime == "charliecloud":
            names = ("CH_IMAGE_AUTH", "CH_IMAGE_USERNAME", "CH_IMAGE_PASSWORD")
            env = dict(zip(names, ("yes", known.user, password), strict=True))
            self.logins.write_text(exports(env))
        else:
            auth = base64.b64encode(f"{known.user}:{password}".encode()).decode()
            self.logins.write_text(json.dumps({"auths": {self.registry: {"auth": auth}}}))


def docker(request: pytest.FixtureRequest, home: Path) -> tuple[str, Path]:
    engine: DockerEngine = request.getfixturevalue("docker_engine")
    setup = f"export DOCKER_HOST={engine.env['DOCKER_HOST']}"
    return setup, home / ".docker" / "config.json"


def apptainer(request: pytest.FixtureRequest, home: Path) -> tuple[str, Path]:
    """The home where it looks for its files is that of /etc/passwd, which is no test's."""
    engine: ApptainerEngine = request.getfixturevalue("apptainer_engine")
    env = engine.unprivileged | {
        "APPTAINER_MKSQUASHFS_ARGS": "-noI -noD -noF -noX",
        "APPTAINER_CONFIGDIR": f"{home}/.apptainer",
        "APPTAINER_NOHTTPS": "1",
    }
    return exports(env), home / ".apptainer" / "docker-config.json"


def charliecloud(request: pytest.FixtureRequest, home: Path) -> tuple[str, Path]:
    known: Registry = request.getfixturevalue("registry")
    setup = exports({"REQUESTS_CA_BUNDLE": str(known.certificate)})
    login = home / "login"
    return f"{setup}\n[ ! -r {login} ] || . {login}", login


TOOLS = {one.__name__: one for one in (docker, apptainer, charliecloud)}


@pytest.fixture(scope="module")
def pushed(registry: Registry, docker_engine: DockerEngine, shell_image: Path) -> str:
    """What it is called in the registry: no tool has anything of it."""
    docker_engine.load(shell_image, "shell:1")
    name = registry.push(docker_engine, "shell:1", "ours/shell:1")
    docker_engine.run("rmi", "shell:1")
    return name.partition("/")[2]


@pytest.fixture(params=list(TOOLS.values()), ids=list(TOOLS))
def ground(
    request: pytest.FixtureRequest,
    registry: Registry,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "unpacked"))
    (tmp_path / "unpacked").mkdir()
    setup, logins = request.param(request, home)
    runtime = request.param.__name__
    folder = str(tmp_path / "images")
    settings = {"runtime": runtime, "setup": setup, "image_dir": folder}
    address = registry.secure if runtime == "charliecloud" else registry.address
    names = {"absent": f"{address}/ours/nothing:1"}
    site = Site(slurm_cluster, tmp_path, monkeypatch, images=names, **settings)
    yield Ground(site, runtime, address, logins)
    site.service.close()


def not_made(job: Job, reference: str, sentence: str, advice: str) -> None:
    assert job.state is JobState.FAILED
    assert f"The image {reference} was not made: it failed while " in str(job.why or "")
    assert sentence in str(job.why or "")
    assert advice in str(job.advice or "")
    assert "\n" not in str(job.why or "")


LOGIN = {
    "docker": "docker login",
    "apptainer": "apptainer registry login",
    "charliecloud": "CH_IMAGE_PASSWORD",
}
"""What a refusal names."""


def test_an_image_is_pulled_with_the_tools_own_login_and_a_cell_runs_in_it(
    ground: Ground, registry: Registry, pushed: str, docker_engine: DockerEngine
) -> None:
    site, full = ground.site, f"{ground.registry}/{pushed}"
    refused = ground.pull(full)
    not_made(refused, full, "does not let you have it", LOGIN[ground.runtime])
    ground.log_in(registry)
    job = ground.pull(full)
    assert job.state is JobState.COMPLETED, (job.why, site.text(job.id))
    assert registry.password not in job_dir_texts(Path(job.job_dir)) + site.text(job.id)
    if ground.runtime == "docker":
        assert full not in names(docker_engine)
    cell = spec("#!/bin/sh\necho $((6 * 7))", kind=JobKind.PROGRAM, image=full)
    used = site.wait(site.service.submit(cell).id)
    assert used.state is JobState.COMPLETED, (used.why, site.text(used.id))
    assert site.text(used.id) == "42\n"
    again = site.service.make_image(ImageSpec(id=spec("").id, base=full))
    assert again.job is None


def job_dir_texts(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.iterdir() if path.is_file())


def test_a_registry_that_cannot_be_reached(ground: Ground) -> None:
    full = f"localhost:{free_port()}/ours/shell:1"
    not_made(ground.pull(full), full, "the registry cannot be reached from the node: ", "mirror")


def test_an_image_that_the_registry_does_not_have_also_by_the_profiles_name_for_it(
    ground: Ground, registry: Registry
) -> None:
    ground.log_in(registry)
    full = f"{ground.registry}/ours/nothing:1"
    for wanted in (full, "absent"):
        not_made(ground.pull(wanted), full, "there is no such image", "name and tag")


def test_a_build_says_the_same_of_its_base_and_leaves_nothing_on_the_node(
    ground: Ground, registry: Registry, pushed: str, tmp_path: Path
) -> None:
    recipe = ground.recipe(f"{ground.registry}/{pushed}", ": >/here")
    locked = ground.build(recipe)
    not_made(locked, "mine", "does not let you have it", LOGIN[ground.runtime])
    # Apptainer does not show its base before it fetches that.
    is_shown = ground.runtime != "apptainer"
    line = f"It stopped at `FROM {ground.registry}/{pushed}`." if is_shown else ""
    assert str(locked.why).endswith(line)
    assert list((tmp_path / "unpacked").glob("jupyter-slurm*")) == []
    if ground.runtime == "docker":  # it unpacks elsewhere: below
        return
    ground.log_in(registry)
    with cramped(tmp_path / "unpacked"):
        job = ground.build(recipe)
        assert list((tmp_path / "unpacked").iterdir()) == []
    not_made(job, "mine", "there is no room for it on the node: ", "TMPDIR")
    assert str(job.why).endswith(line)


def test_a_login_that_is_wrong(ground: Ground, registry: Registry, pushed: str) -> None:
    ground.log_in(registry, "wrong")
    full = f"{ground.registry}/{pushed}"
    not_made(ground.pull(full), full, "does not let you have it", LOGIN[ground.runtime])


@contextmanager
def cramped(folder: Path, mib: int = 2) -> Iterator[None]:
    """It has room for so much."""
    folder.mkdir(exist_ok=True)
    with keeping() as keeper:
        keeper.at_end("umount", "-l", str(folder))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", folder], check=True)
        yield


@pytest.mark.parametrize(
    ("ground", "place", "said", "advice"),
    [
        *(
            (one, "unpacked", "there is no room for it on the node: ", "TMPDIR")
            for one in (apptainer, charliecloud)
        ),
        *(
            (one, "images", "There is no room for it in the folder of images: ", "image_dir")
            for one in (docker, charliecloud)
        ),
    ],
    indirect=["ground"],
)
def test_no_room_for_an_image_on_the_node_or_in_the_folder_of_images(
    ground: Ground,
    registry: Registry,
    pushed: str,
    tmp_path: Path,
    place: str,
    said: str,
    advice: str,
) -> None:
    ground.log_in(registry)
    full = f"{ground.registry}/{pushed}"
    with cramped(tmp_path / place):
        job = ground.pull(full)
    not_made(job, full, said, advice)


_FILLS = "head -c 90000000 /dev/zero >/large"


@pytest.mark.parametrize(
    "ground", [apptainer, charliecloud], ids=["apptainer", "charliecloud"], indirect=True
)
def test_no_room_for_what_a_recipe_writes_names_the_folder_and_the_line(
    ground: Ground, registry: Registry, pushed: str, tmp_path: Path
) -> None:
    ground.log_in(registry)
    full = f"{ground.registry}/{pushed}"
    run = "" if ground.runtime == "apptainer" else "RUN "
    with cramped(tmp_path / "unpacked", 80):
        job = ground.build(ground.recipe(full, _FILLS))
        left = list((tmp_path / "unpacked").iterdir())
    not_made(job, "mine", "There is no room for it in the node's folder for builds: ", "TMPDIR")
    assert f"It stopped at `{run}head -c 90000000 " in str(job.why)
    assert left == []


_IN_ENGINE = "There is no room for it on the node's disk where the engine keeps its images: "


def test_no_room_for_an_image_in_docker(
    registry: Registry,
    pushed: str,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with docker_running(None, disk_mib=24) as engine:
        registry.log_in(engine)
        site = Site(slurm_cluster, tmp_path, monkeypatch, runtime="docker", setup=engine.setup)
        full = f"{registry.address}/{pushed}"
        ground = Ground(site, "docker", registry.address, tmp_path)
        job = ground.pull(full)
        based = ground.build(f"FROM {full}\nRUN :\n")
        site.service.close()
        assert names(engine) == set()
    not_made(job, full, _IN_ENGINE, "docker image prune")
    not_made(based, "mine", _IN_ENGINE, "docker image prune")
    assert f"It stopped at `FROM {full}`" in str(based.why)


def test_no_room_in_docker_for_what_a_recipe_writes_names_the_disk_and_the_line(
    shell_image: Path, slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with docker_running(None, disk_mib=120) as engine:
        engine.load(shell_image, "shell:1")
        before = names(engine)
        site = Site(slurm_cluster, tmp_path, monkeypatch, runtime="docker", setup=engine.setup)
        ground = Ground(site, "docker", "", tmp_path)
        # It has room for the first, and none for a second copy, which the engine makes of it.
        runs = [f"head -c {size} /dev/zero >/large" for size in (80_000_000, 160_000_000)]
        jobs = {run: ground.build(f"FROM shell:1\nRUN {run}\n") for run in runs}
        site.service.close()
        assert names(engine) == before
    for run, job in jobs.items():
        not_made(job, "mine", _IN_ENGINE, "docker image prune")
        assert "\x1b" not in str(job.why)
        assert str(job.why).endswith(f"It stopped at `RUN {run}`.")


def test_a_cluster_without_a_container_tool_has_no_images(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch, runtime="none")
    try:
        with pytest.raises(RequestError, match="none"):
            site.service.make_image(ImageSpec(id=spec("").id, base="ubuntu:22.04"))
        assert site.service.images() == []
    finally:
        site.service.close()


def names(engine: DockerEngine) -> set[str]:
    return set(engine.run("images", "--all", "--format", "{{.Repository}}:{{.Tag}}").split())
