"""The real Apptainer with a registry, in jobs of a real Slurm. `test_cells.py` runs cells."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import Job, JobKind, JobState
from tests.cluster import docker_images
from tests.cluster.apptainer import ApptainerEngine, exports
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.registry import Registry
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_LOCAL = {"APPTAINER_NOHTTPS": "1"}

MakeSite = Callable[..., Site]


@pytest.fixture
def made(
    slurm_cluster: SlurmCluster,
    apptainer_engine: ApptainerEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeSite]:
    """Make the test's site: nodes with Apptainer, a login node without it. At the end, check that
    its jobs left nothing."""
    sites: list[Site] = []
    places = {"CACHEDIR": tmp_path / "cache", "TMPDIR": tmp_path / "unpacked"}
    for folder in places.values():
        folder.mkdir()
    ours = {f"APPTAINER_{name}": str(folder) for name, folder in places.items()}

    def made(setup: str = "", env: Mapping[str, str] = apptainer_engine.unprivileged) -> Site:
        setup = "\n".join([exports({**env, **ours}), setup])
        sites.append(Site(slurm_cluster, tmp_path, monkeypatch, setup=setup))
        return sites[-1]

    yield made
    wait_until(lambda: not any(map(processes_of, sites)), _PATIENCE_S)
    # Cleanup processes may lack the job's environment.
    wait_until(lambda: list(places["TMPDIR"].iterdir()) == [], _PATIENCE_S)
    for site in sites:
        site.service.close()


def begin(site: Site, image: str | Path, code: str = "print('ran')", **changes: Any) -> Job:
    changes = {"runtime": "apptainer", **changes}
    kind = JobKind.PROGRAM if code.startswith("#!") else JobKind.CELL
    return site.service.submit(spec(code, image=str(image), kind=kind, **changes))


def run(site: Site, image: str | Path, code: str = "print('ran')", **changes: Any) -> Job:
    return site.wait(begin(site, image, code, **changes).id)


def failed(job: Job, sentence: str, advice: str) -> None:
    assert job.state is JobState.FAILED
    assert (str(job.why or "")).startswith(sentence)
    assert advice in str(job.advice or "")
    assert not set("\n\x1b").intersection(str(job.why) or "")


@pytest.fixture
def shell_only(tmp_path: Path) -> Path:
    """Make a folder image with only /bin/sh."""
    folder = docker_images.shell_only(tmp_path / "small")
    for name in ("dev", "etc", "home", "proc", "root", "sys", "tmp", "var/tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("passwd", "group"):
        (folder / "etc" / name).touch()
    return folder


@pytest.fixture
def logged_in(
    registry: Registry, apptainer_engine: ApptainerEngine, tmp_path: Path
) -> dict[str, str]:
    """Return the environment of nodes where Apptainer has the registry's password."""
    env = apptainer_engine.unprivileged | _LOCAL | {"APPTAINER_CONFIGDIR": str(tmp_path / "conf")}
    subprocess.run(
        [
            *("apptainer", "registry", "login", "--username", registry.user),
            *("--password-stdin", f"docker://{registry.address}"),
        ],
        env=env,
        input=registry.password,
        text=True,
        check=True,
        capture_output=True,
        timeout=_PATIENCE_S,
    )
    return env


@pytest.fixture
def pushed(registry: Registry, docker_engine: DockerEngine, shell_only: Path) -> str:
    """Push an image with only a shell to the registry."""
    docker_engine.load(shell_only, "small:1")
    return registry.push(docker_engine, "small:1", "team/small:1")


def test_missing_login_to_a_registry_is_reported(
    made: MakeSite, apptainer_engine: ApptainerEngine, registry: Registry
) -> None:
    site = made(env=apptainer_engine.unprivileged | _LOCAL)
    job = run(site, f"{registry.address}/team/small:1")
    failed(job, "Cannot pull the image: the registry denied access", "registry login")


def test_image_is_pulled_once_and_runs(
    made: MakeSite, logged_in: dict[str, str], pushed: str
) -> None:
    site = made(env=logged_in)
    for _ in range(2):
        job = run(site, pushed, "#!/bin/sh\necho hello")
        assert job.state is JobState.COMPLETED, job.why
        assert site.text(job.id).endswith("hello\n")
    assert "Using cached SIF image" in site.text(job.id)


def test_program_of_a_pulled_image_gets_its_arguments_unchanged(
    made: MakeSite,
    logged_in: dict[str, str],
    registry: Registry,
    docker_engine: DockerEngine,
    shell_only: Path,
) -> None:
    docker_engine.load(shell_only, "small:1")
    entrypoint = '["sh", "-c", "for one; do printf \'<%s>\' \\"$one\\"; done", "sh"]'
    recipe = f'FROM small:1\nENTRYPOINT {entrypoint}\nCMD ["usual $HOME"]\n'
    docker_engine.run("build", "--tag", "own:1", "-", stdin=recipe)
    image = registry.push(docker_engine, "own:1", "team/own:1")
    site = made(env=logged_in)
    hostile = ("a b", "$HOME", "$(x)`y`", "quo'te\"d", "new\nline", "a\\b", "")
    for arguments, told in (((), ("usual $HOME",)), (hostile, hostile)):
        asked = spec(
            "", kind=JobKind.PROGRAM, image=image, runtime="apptainer", arguments=arguments
        )
        job = site.wait(site.service.submit(asked).id)
        assert job.state is JobState.COMPLETED, (job.why, site.text(job.id))
        assert site.text(job.id).endswith("".join(f"<{word}>" for word in told))
