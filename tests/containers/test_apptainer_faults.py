"""What can go wrong with Apptainer, on the real one through a real Slurm: each ends with the right
sentence and leaves nothing. `test_cells.py` has what goes well."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.cluster.apptainer import ApptainerEngine, exports
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.registry import Registry
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_AARCH64 = (183).to_bytes(2, "little")
_STUBBORN = "#!/bin/sh\ntrap '' TERM INT; echo up; sleep 600"
_LOCAL = {"APPTAINER_NOHTTPS": "1"}

MakeSite = Callable[..., Site]


@pytest.fixture
def made(
    slurm_cluster: SlurmCluster,
    apptainer_engine: ApptainerEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeSite]:
    """Makes the test's site, whose nodes have Apptainer and whose login node has not; at its end
    nothing may be left of its jobs."""
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
    # What clears it up need not have the job's environment.
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


def until_it_runs(site: Site, job: Job) -> None:
    wait_until(
        lambda: site.service.logs(job.id, "", wait_s=1, budget_bytes=None).outputs != (),
        _PATIENCE_S,
    )


@pytest.fixture
def shell_only(tmp_path: Path) -> Path:
    """A folder image that has /bin/sh and no more."""
    folder = tmp_path / "small"
    linked = subprocess.run(["ldd", "/bin/dash"], stdout=subprocess.PIPE, text=True, check=True)
    for path in re.findall(r"(/\S+) \(", linked.stdout):
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path[1:])
    (folder / "bin").mkdir()
    shutil.copy("/bin/dash", folder / "bin" / "sh")
    for name in ("dev", "etc", "home", "proc", "root", "sys", "tmp", "var/tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("passwd", "group"):
        (folder / "etc" / name).touch()
    return folder


def make_foreign(image: Path) -> None:
    with (image / "bin" / "sh").open("r+b") as program:
        program.seek(18)  # e_machine of ELF
        program.write(_AARCH64)


def nodes_tool(folder: Path, engine: ApptainerEngine, script: str) -> dict[str, str]:
    """The environment of nodes whose `apptainer` is run by sh text, with `$REAL` its path."""
    folder.mkdir()
    program = folder / "apptainer"
    program.write_text(f"#!/bin/sh\nexport REAL={engine.bin}/apptainer\n{script}\n")
    program.chmod(0o755)
    env = engine.unprivileged
    return env | {"PATH": f"{folder}:{env['PATH']}"}


# --- the image ---


def test_an_image_that_is_nowhere_is_said_so_at_once(made: MakeSite, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"There is no file .*gone.sif on this cluster"):
        begin(made(), tmp_path / "gone.sif")


def test_an_image_that_the_node_does_not_see(
    made: MakeSite, apptainer_engine: ApptainerEngine, tmp_path: Path
) -> None:
    image = tmp_path / "a.sif"
    image.symlink_to(apptainer_engine.sif)
    job = run(made(setup=f"rm -f '{image}'"), image)
    failed(job, "The image is not on the node: ", "file system")
    assert str(image) in str(job.why or "")
    assert job.exit_code == 255


def test_an_image_of_which_a_part_has_arrived(
    made: MakeSite, apptainer_engine: ApptainerEngine, tmp_path: Path
) -> None:
    image = tmp_path / "a.sif"
    with apptainer_engine.sif.open("rb") as whole:
        image.write_bytes(whole.read(100_000))
    job = run(made(), image)
    failed(job, "The image could not be unpacked: it is not an image, or only part of one", "again")


def test_a_file_that_is_no_image(made: MakeSite, tmp_path: Path) -> None:
    image = tmp_path / "a.sif"
    image.write_text("no image")
    failed(run(made(), image), "The image could not be unpacked: it is not an image", "again")


def test_an_image_for_another_processor(made: MakeSite, shell_only: Path) -> None:
    make_foreign(shell_only)
    failed(run(made(), shell_only), "The image is for another kind of processor: ", "uname -m")


def test_a_packed_image_for_another_processor(
    made: MakeSite, apptainer_engine: ApptainerEngine, shell_only: Path, tmp_path: Path
) -> None:
    make_foreign(shell_only)
    image = tmp_path / "arm.sif"
    apptainer_engine.run("build", "--arch=arm64", image, shell_only)
    failed(run(made(), image), "The image is for another kind of processor: ", "uname -m")


def test_an_image_without_python(made: MakeSite, shell_only: Path) -> None:
    site = made()
    failed(run(site, shell_only), "The image has no Python.", "#!/bin/sh")
    job = run(site, shell_only, "#!/bin/sh\necho hello")
    assert (job.state, site.text(job.id)) == (JobState.COMPLETED, "hello\n")


def test_an_image_whose_python_is_too_old(made: MakeSite, shell_only: Path) -> None:
    """A stand-in for Python 3.5, which no longer can be had: it says what the runner's first lines
    make such a one say."""
    python = shell_only / "bin" / "python3"
    said = "jupyter-slurm: this is Python 3.5, and a cell needs 3.6 or later"
    python.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    python.chmod(0o755)
    failed(run(made(), shell_only), "A cell needs Python 3.6 or later, and this is", "another")


def test_an_image_without_a_shell(made: MakeSite, shell_only: Path) -> None:
    (shell_only / "bin" / "sh").unlink()
    failed(run(made(), shell_only), "The container could not be started: the image has no", "sh")


# --- the node ---


def test_a_node_without_the_tool(made: MakeSite, apptainer_engine: ApptainerEngine) -> None:
    job = run(made(env={"PATH": "/usr/bin:/bin"}), apptainer_engine.sif)
    failed(job, "The node has no Apptainer of that name: ", "--module")


def test_a_node_where_users_may_have_no_namespaces(
    made: MakeSite, apptainer_engine: ApptainerEngine, tmp_path: Path
) -> None:
    script = """exec unshare --map-root-user sh -c '
      echo 0 >/proc/sys/user/max_user_namespaces; exec "$REAL" "$@"' sh "$@" """
    env = nodes_tool(tmp_path / "bin", apptainer_engine, script)
    job = run(made(env=env), apptainer_engine.folder)
    failed(job, "The container could not be started: users may not make containers", "set-uid")


def test_a_node_where_users_may_not_open_dev_fuse(
    made: MakeSite, apptainer_engine: ApptainerEngine, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("Only root can take /dev/fuse away.")
    script = """exec unshare --mount sh -c '
      mount --bind /dev/fuse /dev/fuse && mount -o remount,bind,nodev /dev/fuse &&
      exec "$REAL" "$@"' sh "$@" """
    env = nodes_tool(tmp_path / "bin", apptainer_engine, script)
    site = made(env=env)
    failed(
        run(site, apptainer_engine.sif),
        "The container could not be started: users may not mount image files",
        "that is a folder",
    )
    assert run(site, apptainer_engine.folder).state is JobState.COMPLETED


def test_a_folder_to_mount_that_the_node_does_not_have(
    made: MakeSite, apptainer_engine: ApptainerEngine
) -> None:
    job = run(made(), apptainer_engine.sif, mounts=("/no/such:/mnt/x",))
    failed(job, "The container could not be started: something to be mounted", "--mount")


# --- the registry ---


def test_a_registry_that_cannot_be_reached(
    made: MakeSite, apptainer_engine: ApptainerEngine
) -> None:
    site = made(env=apptainer_engine.unprivileged | _LOCAL)
    job = run(site, f"localhost:{free_port()}/team/small:1")
    failed(job, "The image could not be pulled: the registry cannot be reached", "mirror")
    assert "connection refused" in str(job.why or "")


@pytest.fixture
def logged_in(
    registry: Registry, apptainer_engine: ApptainerEngine, tmp_path: Path
) -> dict[str, str]:
    """The environment of nodes where Apptainer knows the registry's password."""
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
    """An image with a shell and no more, in the registry."""
    docker_engine.load(shell_only, "small:1")
    return registry.push(docker_engine, "small:1", "team/small:1")


def test_a_registry_that_wants_a_login(
    made: MakeSite, apptainer_engine: ApptainerEngine, registry: Registry
) -> None:
    site = made(env=apptainer_engine.unprivileged | _LOCAL)
    job = run(site, f"{registry.address}/team/small:1")
    failed(job, "The image could not be pulled: the registry does not let you", "registry login")


def test_an_image_that_the_registry_does_not_have(
    made: MakeSite, logged_in: dict[str, str], registry: Registry
) -> None:
    job = run(made(env=logged_in), f"{registry.address}/team/nothing:1")
    failed(job, "The image could not be pulled: there is no such image: ", "name and tag")


def test_an_image_is_pulled_once_and_runs(
    made: MakeSite, logged_in: dict[str, str], pushed: str
) -> None:
    site = made(env=logged_in)
    for _ in range(2):
        job = run(site, pushed, "#!/bin/sh\necho hello")
        assert job.state is JobState.COMPLETED, job.why
        assert site.text(job.id).endswith("hello\n")
    assert "Using cached SIF image" in site.text(job.id)


def test_the_program_that_a_pulled_image_names_gets_its_arguments_unchanged(
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


def test_a_node_without_room_for_an_image(
    made: MakeSite,
    apptainer_engine: ApptainerEngine,
    logged_in: dict[str, str],
    pushed: str,
    tmp_path: Path,
) -> None:
    script = """exec unshare --mount sh -c '
      mount -t tmpfs -o size=64k none "$APPTAINER_TMPDIR" && exec "$REAL" "$@"' sh "$@" """
    env = nodes_tool(tmp_path / "bin", apptainer_engine, script)
    job = run(made(env=logged_in | env), pushed, "#!/bin/sh\necho hello")
    failed(job, "The image could not be unpacked: there is no room", "APPTAINER_TMPDIR")


# --- the end ---


def test_a_program_that_says_fatal_itself_is_not_taken_for_the_tool(
    made: MakeSite, apptainer_engine: ApptainerEngine
) -> None:
    job = run(made(), apptainer_engine.sif, "#!/bin/sh\necho 'FATAL:  no database' >&2; exit 3")
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)
    assert "container" not in str(job.why or "")


@pytest.mark.parametrize("image", ["sif", "folder"])
def test_a_program_that_ignores_the_order_to_end_is_ended(
    made: MakeSite, apptainer_engine: ApptainerEngine, image: str
) -> None:
    site = made()
    job = begin(site, getattr(apptainer_engine, image), _STUBBORN)
    until_it_runs(site, job)
    site.service.cancel(job.id)
    assert site.wait(job.id).state is JobState.CANCELLED
    wait_until(lambda: not processes_of(site), _PATIENCE_S)


def test_two_jobs_of_one_user_on_one_node(
    made: MakeSite, apptainer_engine: ApptainerEngine, tmp_path: Path
) -> None:
    """One ends, and the other goes on as if it had been alone."""
    site = made()
    wait = f"import os, time\nprint('up')\nwhile not os.path.exists({str(tmp_path / 'go')!r}):\n"
    code = f"{wait}    time.sleep(0.05)\nimport colorsys\nprint('done')"
    mounts = (f"{tmp_path}:{tmp_path}",)
    first = begin(site, apptainer_engine.sif, code, options={"nodelist": "n1"}, mounts=mounts)
    second = begin(site, apptainer_engine.sif, _STUBBORN, options={"nodelist": "n1"})
    for job in (first, second):
        until_it_runs(site, job)
    site.service.cancel(second.id)
    assert site.wait(second.id).state is JobState.CANCELLED
    (tmp_path / "go").touch()
    assert site.wait(first.id).state is JobState.COMPLETED
    assert site.text(first.id) == "up\ndone\n"
