"""Pulls from a real registry with a password, by real tools through a real Slurm."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jupyter_slurm.wire import ImageSpec, Job, JobKind, JobState
from tests.cluster.apptainer import ApptainerEngine, exports
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.registry import Registry
from tests.jobs.conftest import Site, spec


@dataclass(frozen=True)
class Ground:
    site: Site
    runtime: str
    registry: str
    """The registry's address for the tool."""
    logins: Path
    """The tool's file of passwords; for Charliecloud, the file that the profile's setup reads."""

    def pull(self, reference: str) -> Job:
        """Pull an image, and return the job once it has ended."""
        build = self.site.service.make_image(ImageSpec(id=spec("").id, base=reference))
        assert build.job is not None
        return self.site.wait(build.job.id, limit_s=180)

    def log_in(self, known: Registry) -> None:
        """Store the login as the tool's own command would, or for Charliecloud as a user would."""
        self.logins.parent.mkdir(exist_ok=True)
        if self.runtime == "charliecloud":
            names = ("CH_IMAGE_AUTH", "CH_IMAGE_USERNAME", "CH_IMAGE_PASSWORD")
            env = dict(zip(names, ("yes", known.user, known.password), strict=True))
            self.logins.write_text(exports(env))
        else:
            auth = base64.b64encode(f"{known.user}:{known.password}".encode()).decode()
            self.logins.write_text(json.dumps({"auths": {self.registry: {"auth": auth}}}))


def docker(request: pytest.FixtureRequest, home: Path) -> tuple[str, Path]:
    engine: DockerEngine = request.getfixturevalue("docker_engine")
    setup = f"export DOCKER_HOST={engine.env['DOCKER_HOST']}"
    return setup, home / ".docker" / "config.json"


def apptainer(request: pytest.FixtureRequest, home: Path) -> tuple[str, Path]:
    """Apptainer uses the home in /etc/passwd, which a test cannot change."""
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
    """Return the name of an image in the registry that no tool has."""
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
    site = Site(slurm_cluster, tmp_path, monkeypatch, **settings)
    yield Ground(site, runtime, address, logins)
    site.service.close()


def not_made(job: Job, reference: str, sentence: str, advice: str) -> None:
    assert job.state is JobState.FAILED
    assert f"Image {reference} was not built: " in str(job.why or "")
    assert sentence in str(job.why or "")
    assert advice in str(job.advice or "")
    assert "\n" not in str(job.why or "")


LOGIN = {
    "docker": "docker login",
    "apptainer": "apptainer registry login",
    "charliecloud": "CH_IMAGE_PASSWORD",
}
"""The login command that an error names."""


def test_image_is_pulled_with_the_tools_login_and_runs_a_cell(
    ground: Ground, registry: Registry, pushed: str, docker_engine: DockerEngine
) -> None:
    site, full = ground.site, f"{ground.registry}/{pushed}"
    refused = ground.pull(full)
    not_made(refused, full, "denied access", LOGIN[ground.runtime])
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


def names(engine: DockerEngine) -> set[str]:
    return set(engine.run("images", "--all", "--format", "{{.Repository}}:{{.Tag}}").split())
