"""What can go wrong with Docker, on a real engine through a real Slurm: each ends with the right
sentence and leaves nothing. `test_cells.py` has what goes well."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.errors import VariableError
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.cluster.docker import DockerEngine, docker_running
from tests.cluster.docker_images import AARCH64, old_python, shell_only
from tests.cluster.plugin import SlurmCluster
from tests.cluster.registry import Registry, silent_registry
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.sshd import free_port
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
    """Makes the test's site; at its end nothing may be left of its jobs."""
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
def small(docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> str:
    docker_engine.load(shell_only(tmp_path_factory.mktemp("small")), "small:1")
    return "small:1"


@pytest.fixture(scope="module")
def pushed(
    registry: Registry, docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """An image that the engine has to pull: it has nothing of it."""
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


# --- pull ---


@pytest.mark.usefixtures("logged_in")
def test_an_image_that_is_not_there(made: MakeSite, registry: Registry) -> None:
    job = run(made(), image=f"{registry.address}/team/nothing:1")
    failed(job, "The image could not be pulled: there is no such image: ", "name and tag")
    assert "manifest unknown" in str(job.why or "")
    assert job.exit_code == 125


def test_a_registry_that_cannot_be_reached(made: MakeSite) -> None:
    job = run(made(), image=f"localhost:{free_port()}/team/small:1")
    failed(job, "The image could not be pulled: the registry cannot be reached", "mirror")
    assert "connection refused" in str(job.why or "")


def test_a_registry_that_wants_a_login(made: MakeSite, pushed: str) -> None:
    job = run(made(), image=pushed)
    failed(job, "The image could not be pulled: the registry does not let you", "docker login")


@pytest.mark.usefixtures("logged_in")
def test_an_image_is_pulled_under_its_own_name_and_the_pull_is_seen(
    made: MakeSite, pushed: str, docker_engine: DockerEngine
) -> None:
    site = made()
    job = run(site, _HELLO, pushed)
    assert (job.state, job.why) == (JobState.COMPLETED, "It has ended well.")
    text = site.text(job.id)
    assert text.endswith("hello\n")
    assert "Pulling from team/small" in text
    assert "Pull complete" in text
    assert pushed in docker_engine.run("images", "--format", "{{.Repository}}:{{.Tag}}")
    again = run(site, _HELLO, pushed)
    assert site.text(again.id) == "hello\n"
    docker_engine.run("rmi", pushed)


def test_a_job_that_is_cancelled_while_it_pulls_ends(made: MakeSite) -> None:
    site = made()
    with silent_registry() as address:
        job = begin(site, _HELLO, f"{address}/team/small:1")
        until_it_says(site, job, "Unable to find image")
        site.service.cancel(job.id)
        ended = site.wait(job.id)
    assert (ended.state, ended.why) == (JobState.CANCELLED, "Cancelled by you.")


@pytest.mark.usefixtures("logged_in")
def test_no_room_for_an_image(
    made: MakeSite, registry: Registry, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    root = shell_only(tmp_path / "large")
    (root / "noise").write_bytes(os.urandom(32 << 20))
    docker_engine.load(root, "large:1")
    full = registry.push(docker_engine, "large:1", "team/large:1")
    docker_engine.run("rmi", "large:1")
    with docker_running(None, disk_mib=24) as cramped:
        registry.log_in(cramped)
        job = run(made(engine=cramped), image=full)
        failed(job, "The image could not be unpacked: there is no room for it", "image prune")
        assert "no space left on device" in str(job.why or "")
        assert cramped.containers() == []


# --- start ---


def test_an_image_for_another_processor(
    made: MakeSite, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    root = shell_only(tmp_path / "far", AARCH64)
    docker_engine.load(root, "far:1", "--platform", "linux/arm64")
    job = run(made(), image="far:1")
    failed(job, "The image is for another kind of processor: ", "uname -m")


def test_an_image_without_python(made: MakeSite, small: str) -> None:
    failed(run(made(), image=small), "The image has no Python.", "python3 (3.6 or later)")


def test_an_image_without_a_shell(
    made: MakeSite, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    (tmp_path / "empty" / "etc").mkdir(parents=True)
    docker_engine.load(tmp_path / "empty", "empty:1")
    failed(run(made(), image="empty:1"), "The container could not be started: the image", "/bin/sh")


def test_an_image_with_python_3_5(
    made: MakeSite, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    job = run(made(), image=old_python(docker_engine, tmp_path, 5))
    failed(job, "A cell needs Python 3.6 or later, and this is Python 3.5.", "another image")


def test_an_image_with_python_3_6_runs_cells_but_cannot_read_functions_of_ours(
    made: MakeSite, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    site = made()
    image = old_python(docker_engine, tmp_path, 6)
    job = run(site, image=image)
    assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "ran\n")
    # What holds functions of this notebook says which Python wrote them.
    asked = spec("f()", image=image, runtime="docker", inputs_python=sys.version_info[:2])
    with pytest.raises(VariableError, match=r"the cell runs in Python 3\.6") as caught:
        site.service.submit(asked)
    assert "run it in Python" in str(caught.value.hint)


def test_a_folder_that_is_not_there_to_be_mounted(made: MakeSite) -> None:
    job = run(made(), mounts=("/nowhere/at all:/mnt/x",))
    failed(job, "The container could not be started: something cannot be mounted", "--mount")
    assert "/nowhere/at all" in str(job.why or "")


def test_a_daemon_that_is_down(made: MakeSite) -> None:
    job = run(made("export DOCKER_HOST=unix:///nowhere/socket\n"))
    failed(job, "The container engine does not answer: ", "--exclude")
    assert "/nowhere/socket" in str(job.why or "")


@pytest.fixture
def without_docker(tmp_path: Path) -> Path:
    """A folder of all programs of this machine but Docker's."""
    folder = tmp_path / "without"
    folder.mkdir()
    for place in ("/usr/bin", "/usr/sbin"):
        for program in Path(place).iterdir():
            link = folder / program.name
            if program.name not in {"docker", "podman"} and not link.exists():
                link.symlink_to(program)
    return folder


def test_a_node_without_docker(made: MakeSite, without_docker: Path) -> None:
    job = run(made(f"export PATH='{without_docker}'\n"))
    failed(job, "The node has no such container tool: ", "--runtime")
    assert "docker" in str(job.why or "")


def test_a_login_node_without_docker(
    made: MakeSite, without_docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = os.environ["PATH"]
    with monkeypatch.context() as login:
        login.setenv("PATH", str(without_docker))
        site = made(f"export PATH={shlex.quote(node)}\n")
        job = run(site)
        assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "ran\n")


# --- end ---


def test_a_container_that_ignores_the_order_to_end(made: MakeSite) -> None:
    site = made()
    job = begin(site, _STUBBORN)
    until_it_says(site, job, "up")
    site.service.cancel(job.id)
    assert site.wait(job.id, limit_s=120).state is JobState.CANCELLED


_SLOW = """#!/bin/sh
case $1 in run)
  shift
  ( {setsid} sh -c 'sleep 2; {docker} create "$@"; : >{folder}/made' sh "$@" & ) >/dev/null 2>&1
  : >{folder}/asked
  exec sleep 600 ;;
esac
exec {docker} "$@"
"""


@pytest.mark.parametrize("outlived", [True, False], ids=["outlived", "under proctrack/cgroup"])
def test_a_container_that_the_engine_makes_after_the_job_was_killed(
    outlived: bool, made: MakeSite, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    """By a stand-in for the client: the real engine is too quick for it to be hit for sure. And one
    for setsid is what cgroups come to: nobody outlives the job who would look after it."""
    folder = tmp_path / "slow"
    folder.mkdir()
    words = {"docker": shutil.which("docker"), "setsid": shutil.which("setsid")}
    (folder / "docker").write_text(_SLOW.format(folder=shlex.quote(str(folder)), **words))
    (folder / "docker").chmod(0o755)
    if not outlived:
        (folder / "setsid").symlink_to("/bin/true")
    site = made(f"export PATH={shlex.quote(str(folder))}:$PATH\n")
    job = begin(site, _HELLO)
    wait_until((folder / "asked").exists, _PATIENCE_S)
    # Slurm says TERM first, and kills KillWait later.
    site.cluster.run("scancel", "--full", "--signal=KILL", job.slurm_id or "")
    wait_until((folder / "made").exists, _PATIENCE_S)
    wait_until(lambda: not docker_engine.containers(), _PATIENCE_S)
    assert site.wait(job.id).state.final


def test_a_program_that_fails_is_not_dockers_failure(made: MakeSite) -> None:
    code = "#!/bin/sh\necho 'docker: Error response from daemon: no space left.' >&2; exit 125"
    job = run(made(), code)
    assert (job.state, job.exit_code) == (JobState.FAILED, 125)
    assert "room" not in str(job.why or "")


def test_two_jobs_on_one_node_at_once(made: MakeSite, tmp_path: Path) -> None:
    site = made()
    place = tmp_path / "meeting"
    place.mkdir()
    code = (
        "import os, time\nopen('/mnt/m/{me}', 'w').close()\n"
        "while not os.path.exists('/mnt/m/{you}'): time.sleep(0.05)\nprint('met')"
    )
    asked: dict[str, Any] = {"mounts": (f"{place}:/mnt/m",), "options": {"nodelist": "n1"}}
    jobs = [
        begin(site, code.format(me=me, you=you), **asked) for me, you in (("a", "b"), ("b", "a"))
    ]
    for job in jobs:
        assert site.wait(job.id, limit_s=120).state is JobState.COMPLETED
        assert site.text(job.id) == "met\n"


# --- by way of sudo ---

_SUDO = """#!/bin/sh
[ "$1" = -n ] || exit 1
shift
exec env -i PATH="$PATH" DOCKER_HOST="$REAL_DOCKER_HOST" "$@"
"""


def test_by_way_of_sudo(made: MakeSite, docker_engine: DockerEngine, tmp_path: Path) -> None:
    """A stand-in for sudo, which keeps no environment either: the real one's settings are this
    machine's."""
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


# --- as somebody who is not root ---


def test_an_ordinary_user_and_their_groups(docker_engine: DockerEngine) -> None:
    user, group, more = 61234, 61235, 61236
    # Below the engine's folder, since nobody but root may look into pytest's own.
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
