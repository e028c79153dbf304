"""The private cluster of `jupyter slurm up`: real daemons, real jobs."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.errors import ConfigError, LocalClusterError
from jupyter_slurm.local_cluster import (
    LocalSpec,
    LocalStatus,
    conf,
    down,
    folder,
    missing_packages,
    processes,
    profile_path,
    software,
    status,
    up,
)
from tests.cluster.plugin import SlurmCluster, jupyter_homes, kept
from tests.ssh.waiting import wait_until

pytestmark = pytest.mark.real

SMALL = LocalSpec(nodes=1, gpus=2, cpus=4, memory_mib=2048)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield private folders for `up`, purged at the end."""
    for name, place in jupyter_homes(tmp_path).items():
        monkeypatch.setenv(name, place)
    with kept(tmp_path, None):
        yield tmp_path


def slurm(where: LocalStatus, *argv: str) -> str:
    """Run a Slurm command on a cluster, and return its output."""
    env = os.environ | {"SLURM_CONF": str(where.conf)}
    place = where.folder / "jobs"
    return subprocess.run(
        argv, env=env, cwd=place, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def wait_for_state(where: LocalStatus, job_id: str, wanted: str) -> None:
    ask = ("squeue", "-h", "-t", "all", "-o", "%T", "-j", job_id)
    wait_until(lambda: slurm(where, *ask) == wanted)


def test_up_starts_a_cluster_that_runs_jobs(home: Path) -> None:
    said: list[str] = []
    made = up(LocalSpec(nodes=2, gpus=8, cpus=4, memory_mib=2048), said.append)
    assert made.running
    assert [(one.program, one.node) for one in made.daemons] == [
        ("munged", None),
        ("slurmctld", None),
        ("slurmd", "n1"),
        ("slurmd", "n2"),
    ]
    assert said
    told = slurm(made, "srun", "-N2", "printenv", "SLURMD_NODENAME")
    assert sorted(told.split()) == ["n1", "n2"]


def test_job_gets_the_requested_gpus(slurm_cluster: SlurmCluster) -> None:
    told = slurm_cluster.run("srun", "--gpus=3", "printenv", "CUDA_VISIBLE_DEVICES").stdout
    assert len(told.strip().split(",")) == 3
    without = slurm_cluster.run("srun", "printenv", "CUDA_VISIBLE_DEVICES", check=False)
    assert without.returncode == 1


def test_up_starts_missing_daemons(home: Path) -> None:
    before = up(SMALL)
    controller = before.daemons[1]
    assert controller.program == "slurmctld"
    assert controller.pid is not None
    killed = psutil.Process(controller.pid)
    killed.kill()
    killed.wait(60)  # on a busy machine the process remains for a moment
    after = up(SMALL)
    assert after.running
    assert after.daemons[1].pid != controller.pid
    assert after.daemons[2].pid == before.daemons[2].pid


def test_up_rejects_a_different_spec_for_a_running_cluster(home: Path) -> None:
    up(SMALL)
    with pytest.raises(LocalClusterError, match="1 node"):
        up(LocalSpec(nodes=2))
    down()
    assert up(LocalSpec(nodes=2)).running


def test_up_changes_the_container_tool_of_a_running_cluster(home: Path) -> None:
    first = up(SMALL)
    second = up(replace(SMALL, runtime="docker"))
    assert [daemon.pid for daemon in second.daemons] == [one.pid for one in first.daemons]
    assert tomllib.loads(profile_path().read_text())["runtime"] == "docker"


def test_queue_survives_down_and_up(home: Path) -> None:
    first = up(SMALL)
    held = slurm(first, "sbatch", "--parsable", "--hold", "--wrap", "true")
    runs = slurm(first, "sbatch", "--parsable", "--wrap", "sleep 1000")
    once = slurm(first, "sbatch", "--parsable", "--no-requeue", "--wrap", "sleep 1000")
    wait_for_state(first, runs, "RUNNING")
    wait_for_state(first, once, "RUNNING")
    down()
    assert (stopped := status()) is not None
    assert stopped.stopped
    second = up(SMALL)
    assert [daemon.port for daemon in second.daemons] == [one.port for one in first.daemons]
    wait_for_state(second, held, "PENDING")
    wait_for_state(second, once, "NODE_FAIL")
    wait_for_state(second, runs, "RUNNING")
    assert "Restarts=1" in slurm(second, "scontrol", "show", "job", runs)


def test_purge_removes_every_process_and_file(home: Path) -> None:
    made = up(SMALL)
    stubborn = "trap '' TERM; (setsid sleep 1000 &); sleep 1000"
    job = slurm(made, "sbatch", "--parsable", "-o", "/dev/null", "--wrap", stubborn)
    marks = {"SLURM_CONF": str(made.conf), "SLURM_JOB_ID": job}
    wait_until(lambda: len(processes.with_environment(marks)) == 3)  # the script and both sleeps
    down(purge=True)
    assert processes.with_environment({"SLURM_CONF": str(made.conf)}) == []
    assert [path for path in home.rglob("*") if not path.is_dir()] == []
    assert not (home / "data" / "jupyter-slurm").exists()
    assert status() is None


def test_down_without_a_cluster_does_nothing(home: Path) -> None:
    down()
    down(purge=True)
    assert status() is None


def test_recycled_pid_is_not_taken_for_a_daemon(home: Path) -> None:
    made = up(SMALL)
    down()
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        record = {"pid": stranger.pid, "start_ticks": 1, "boot_id": processes.boot()}
        (made.folder / "run" / "slurmctld.json").write_text(json.dumps(record))
        assert (known := status()) is not None
        assert known.stopped
        down(purge=True)
        assert stranger.poll() is None
        stranger.kill()


def test_folder_can_have_a_long_and_odd_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = home / ("long " * 20) / "a%n#é,$=\"'"
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(odd))
    made = up(SMALL)
    assert folder().is_relative_to(odd)
    assert slurm(made, "srun", "--gpus=1", "printenv", "CUDA_VISIBLE_DEVICES") == "0"
    link = made.conf.parent
    assert link.is_symlink()
    down(purge=True)
    assert not link.is_symlink()
    assert not folder().exists()


def test_profile_is_applied_on_the_cluster_and_files_are_private(home: Path) -> None:
    made = up(LocalSpec(runtime="apptainer"))
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    for file in (made.folder / "munge.key", made.conf, profile_path()):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = tomllib.loads(profile_path().read_text())
    assert written["origin"] == "jupyter slurm up"
    assert written["runtime"] == "apptainer"
    assert written["job_root"] == str(made.folder / "jobs")
    assert written["images"] == {}
    path = os.pathsep.join([*written["path"], os.defpath])
    env = {"PATH": path} | written["env"]
    squeue = shutil.which("squeue", path=path)
    assert squeue is not None
    assert Path(squeue).is_relative_to(made.folder)
    subprocess.run(["squeue"], env=env, check=True, capture_output=True)


def test_images_added_to_the_profile_are_kept(home: Path) -> None:
    up(SMALL)
    with profile_path().open("a") as file:
        file.write('"pytorch:22.11" = "/images/py torch"\n')
    down()
    up(SMALL)
    assert tomllib.loads(profile_path().read_text())["images"] == {
        "pytorch:22.11": "/images/py torch"
    }


def test_foreign_profile_is_never_changed(home: Path) -> None:
    profile_path().parent.mkdir(parents=True)
    profile_path().write_text('host = "real.example"\n')
    with pytest.raises(LocalClusterError, match="already exists"):
        up(SMALL)
    down(purge=True)
    assert profile_path().read_text() == 'host = "real.example"\n'


def test_failed_daemon_is_explained_and_leaves_nothing_running(home: Path) -> None:
    with pytest.raises(LocalClusterError, match=r"(?s)slurmctld did not start.*NoSuchOption"):
        up(LocalSpec(extra_conf=("NoSuchOption=1",)))
    assert (left := status()) is not None
    assert left.stopped


def test_error_for_missing_slurm_names_the_packages(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    monkeypatch.setattr(software, "_SBIN", ())
    assert missing_packages() == ("slurm-wlm", "munge")
    with pytest.raises(ConfigError, match=r"apt-get install .*slurm-wlm munge"):
        up(SMALL)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "../x"}, "name of a private cluster"),
        ({"nodes": 0}, "nodes=0"),
        ({"gpu_type": "a 100"}, "GPU type"),
        ({"extra_conf": ("a=1\nb=2",)}, "line break"),
    ],
)
def test_impossible_spec_is_rejected(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        LocalSpec(**wrong)  # type: ignore[arg-type]


def test_cgroups_are_disabled_in_every_slurm_version() -> None:
    assert conf.cgroup_conf((24, 5)) == "CgroupPlugin=disabled\n"
    assert conf.cgroup_conf((23, 11)) == "CgroupPlugin=cgroup/v1\n"
    assert conf.cgroup_conf((20, 11)) == ""


@pytest.fixture
def ordinary_home() -> Iterator[Path]:
    """Yield a home for `nobody` if the tests run as root, else for this user."""
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, *ordinary_ids())
        yield Path(name)


def ordinary_ids() -> tuple[int, int]:
    nobody = pwd.getpwnam("nobody")
    return (nobody.pw_uid, nobody.pw_gid) if os.getuid() == 0 else (os.getuid(), os.getgid())


def run_as_ordinary_user(script: str, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as the owner of `ordinary_home`.

    Use the base Python of the virtual environment and copies of the packages, since the checkout
    may be in a private folder such as /root.
    """
    as_root = os.getuid() == 0
    user, group = ordinary_ids()
    packages = home / "packages"
    for name in "jupyter_slurm jupyter_core platformdirs traitlets msgspec psutil".split():
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        shutil.copytree(Path(found.origin).parent, packages / name)
    places = {"PYTHONPATH": str(packages), "HOME": str(home)}
    return subprocess.run(
        [os.path.realpath(sys.executable), "-B", "-c", script],
        env=os.environ | jupyter_homes(home) | places | env,
        cwd=home,
        user=user if as_root else None,
        group=group if as_root else None,
        extra_groups=() if as_root else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


RUN_ONE_JOB = """
from jupyter_slurm.local_cluster import *
import os, subprocess, tomllib
up(LocalSpec())
try:
    profile = tomllib.loads(profile_path().read_text())
    env = os.environ | profile["env"]
    srun = [profile["path"][0] + "/srun", "--gpus=1", "/bin/sh", "-c"]
    subprocess.run([*srun, 'id -u; echo "$CUDA_VISIBLE_DEVICES"'], env=env, cwd="/", check=True)
finally:
    down(purge=True)
"""


APT_GET = """#!/bin/sh
case "$*" in
*--print-uris*) echo "'http://mirror.example/slurm.deb' slurm-wlm_1_all.deb 1 MD5:0" ;;
*download\\ slurm-wlm) cp "$PACKAGES"/*.deb . ;;
esac
"""


def test_missing_slurm_is_unpacked_privately(
    ordinary_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """apt-get is a stand-in without network access. Its package contains this machine's Slurm."""
    tree = tmp_path_factory.mktemp("package") / "tree"
    parts = ["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"]
    listed = subprocess.run(["dpkg", "-L", *parts], check=True, capture_output=True, text=True)
    files = [path for path in map(Path, listed.stdout.split()) if path.is_file()]
    for path in files:
        target = tree / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)
    (tree / "DEBIAN").mkdir()
    fields = "Package: slurm-wlm\nVersion: 1\nArchitecture: all\nMaintainer: n\nDescription: n\n"
    (tree / "DEBIAN" / "control").write_text(fields)
    tools = ordinary_home / "tools"
    tools.mkdir()
    subprocess.run(
        ["dpkg-deb", "-Znone", "--build", str(tree), str(ordinary_home)],
        check=True,
        capture_output=True,
    )
    for tool in ("sh", "cp", "id", "tar", "dpkg-deb"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    (tools / "apt-get").write_text(APT_GET)
    (tools / "apt-get").chmod(0o755)
    script = f"from jupyter_slurm.local_cluster import software; software._SBIN = ()\n{RUN_ONE_JOB}"
    done = run_as_ordinary_user(script, ordinary_home, PATH=str(tools), PACKAGES=str(ordinary_home))
    user, _ = ordinary_ids()
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{user}\n0\n", "")
