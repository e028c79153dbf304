"""The real Docker in jobs of a real Slurm: registries, sudo, an ordinary user. `test_cells.py` runs
cells."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.cluster.docker import DockerEngine
from tests.cluster.docker_images import shell_only
from tests.cluster.plugin import SlurmCluster
from tests.cluster.registry import Registry, silent_registry
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_HELLO = "#!/bin/sh\necho hello"
_STUBBORN = "#!/bin/sh\ntrap '' TERM INT; echo up; sleep 600"

MakeSite = Callable[..., Site]


@pytest.fixture
def made(
    slurm_cluster: SlurmCluster,
    docker_engine: DockerEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeSite]:
    """Make the test's site. At the end, check that its jobs left nothing."""
    sites: list[Site] = []

    def made(setup: str = "", engine: DockerEngine = docker_engine) -> Site:
        sites.append(Site(slurm_cluster, tmp_path, monkeypatch, setup=engine.setup + setup))
        return sites[-1]

    yield made

    def left() -> list[str]:
        return docker_engine.containers() + [one for site in sites for one in processes_of(site)]

    wait_until(lambda: not left(), _PATIENCE_S)
    for site in sites:
        site.service.close()


def run(site: Site, code: str = "print('ran')", image: str = "demo:1", **changes: Any) -> Job:
    return site.wait(begin(site, code, image, **changes).id)


def begin(site: Site, code: str, image: str = "demo:1", **changes: Any) -> Job:
    changes = {"runtime": "docker", **changes}
    kind = JobKind.PROGRAM if code.startswith("#!") else JobKind.CELL
    return site.service.submit(spec(code, image=image, kind=kind, **changes))


def until_it_says(site: Site, job: Job, words: str) -> None:
    def is_shown() -> bool:
        outputs = site.service.logs(job.id, "", wait_s=1, budget_bytes=None).outputs
        return words in "".join(getattr(output, "text", "") for output in outputs)

    wait_until(is_shown, _PATIENCE_S)


@pytest.fixture(scope="module")
def pushed(
    registry: Registry, docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Push an image that the engine has to pull, since it lacks all of its layers."""
    docker_engine.load(shell_only(tmp_path_factory.mktemp("pushed")), "pushed:1")
    full = registry.push(docker_engine, "pushed:1", "team/small:1")
    docker_engine.run("rmi", "pushed:1")
    return full


@pytest.fixture
def logged_in(registry: Registry, docker_engine: DockerEngine) -> Iterator[None]:
    registry.log_in(docker_engine)
    yield
    registry.log_out(docker_engine)


def failed(job: Job, sentence: str, advice: str) -> None:
    assert job.state is JobState.FAILED
    assert (str(job.why or "")).startswith(sentence)
    assert advice in str(job.advice or "")
    assert "\n" not in str(job.why or "")


def test_missing_login_to_a_registry_is_reported(made: MakeSite, pushed: str) -> None:
    job = run(made(), image=pushed)
    failed(job, "Cannot pull the image: the registry denied access", "docker login")


@pytest.mark.usefixtures("logged_in")
def test_image_is_pulled_and_the_pull_is_shown(
    made: MakeSite, pushed: str, docker_engine: DockerEngine
) -> None:
    site = made()
    job = run(site, _HELLO, pushed)
    assert (job.state, job.why) == (JobState.COMPLETED, "Succeeded.")
    text = site.text(job.id)
    assert text.endswith("hello\n")
    assert "Pulling from team/small" in text
    assert "Pull complete" in text
    assert pushed in docker_engine.run("images", "--format", "{{.Repository}}:{{.Tag}}")
    again = run(site, _HELLO, pushed)
    assert site.text(again.id) == "hello\n"
    docker_engine.run("rmi", pushed)


def test_job_cancelled_during_a_pull_ends(made: MakeSite) -> None:
    site = made()
    with silent_registry() as address:
        job = begin(site, _HELLO, f"{address}/team/small:1")
        until_it_says(site, job, "Unable to find image")
        site.service.cancel(job.id)
        ended = site.wait(job.id)
    assert (ended.state, ended.why) == (JobState.CANCELLED, "Cancelled by you.")


_SUDO = """#!/bin/sh
[ "$1" = -n ] || exit 1
shift
exec env -i PATH="$PATH" DOCKER_HOST="$REAL_DOCKER_HOST" "$@"
"""


def test_docker_runs_through_sudo(
    made: MakeSite, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    """A stand-in replaces sudo, which would use this machine's settings. The stand-in clears the
    environment, too."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sudo").write_text(_SUDO)
    (tools / "sudo").chmod(0o755)
    site = made(f"export PATH='{tools}':$PATH REAL_DOCKER_HOST=$DOCKER_HOST; unset DOCKER_HOST\n")
    job = run(site, "import os; print(os.environ['V'])", runtime="sudo-docker", env={"V": "a,b"})
    assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "a,b\n")
    stubborn = begin(site, _STUBBORN, runtime="sudo-docker")
    until_it_says(site, stubborn, "up")
    site.cluster.run("scancel", "--full", "--signal=KILL", stubborn.slurm_id or "")
    wait_until(lambda: not docker_engine.containers(), _PATIENCE_S)
    assert site.wait(stubborn.id).state.final


def test_container_runs_as_the_user_with_their_groups(docker_engine: DockerEngine) -> None:
    user, group, more = 61234, 61235, 61236
    # The file is below the engine's folder, since only root can read pytest's folders.
    job_dir, shared, home = (docker_engine.folder / name for name in ("job", "shared", "home"))
    for folder in (job_dir, shared, home):
        folder.mkdir()
        os.chown(folder, user, group)
    os.chown(shared, 0, more)
    shared.chmod(0o770)
    box = Box(str(job_dir), docker_engine.image, (Mount(str(shared), "/mnt/shared"),))
    code = 'umask; echo x >/mnt/shared/file; touch "$HOME/file"; id -u; id -G; cat /no/file'
    launch = runtime_named("docker").launch(["/bin/sh", "-c", code], box)
    docker_engine.socket.chmod(0o666)
    docker_engine.folder.chmod(0o755)
    done = subprocess.run(
        launch.argv,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "SLURM_JOB_ID": "1",
            "DOCKER_HOST": docker_engine.env["DOCKER_HOST"],
        },
        user=user,
        group=group,
        extra_groups=[more],
        umask=0o027,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["0027", str(user), f"{group} {more}"], done.stderr
    assert done.returncode == 1
    for path in (shared / "file", home / "file"):
        found = path.stat()
        assert (found.st_uid, found.st_gid) == (user, group)
    assert docker_engine.containers() == []
