"""Searches for secrets by another user of this machine, who is in the user's group. The umask is
002."""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from jupyter_slurm import places
from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.cli import main
from jupyter_slurm.client import AgentClient
from jupyter_slurm.commands.arguments import read_arguments, with_values
from jupyter_slurm.commands.submitting import KERNEL_ADD
from jupyter_slurm.errors import RequestError
from jupyter_slurm.kernel import spec
from jupyter_slurm.local_cluster import paths as local_paths
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.wire import Cluster, JobKind, JobState, RemoteKernel
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.specs import job_spec
from tests.ssh.waiting import wait_until

SECRET = "hf-4f2a91"
CLUSTERS = (Cluster(name="here", host=None, runtime="none", origin="", default=True),)
LOOKS = """\
import os, sys
group, top, secret = int(sys.argv[1]), sys.argv[2], sys.argv[3].encode()
os.setgroups([group]); os.setgid(65534); os.setuid(65534)
for folder, folders, files in os.walk(top):
    if os.access(folder, os.W_OK):
        print("writes", folder)
    for file in files:
        path = os.path.join(folder, file)
        try:
            with open(path, "rb") as opened:
                if secret in opened.read():
                    print("reads", path)
        except OSError:
            pass
"""
"""A program that runs as the user `nobody` in the user's group. It lists writable paths, and files
that contain the secret."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the home of a user with a group-writable umask, in a folder that everyone can enter."""
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.getuid():
            above.chmod(above.stat().st_mode | 0o711)
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setenv("HOME", str(home))
    for name in ("DATA", "CONFIG", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(home / ".local" / name.lower()))
    usual = os.umask(0o002)
    yield home
    os.umask(usual)


def found(top: Path) -> list[str]:
    """Return the files that another user of the group can access. Without root, judge by the file
    modes."""
    if os.getuid() == 0:
        looks = [sys.executable, "-c", LOOKS, str(os.getgid()), str(top), SECRET]
        done = subprocess.run(looks, capture_output=True, text=True, check=True, cwd="/")
        return done.stdout.splitlines()
    every = [path for path in (top, *top.rglob("*")) if not path.is_symlink()]
    return [f"writes {one}" for one in every if one.stat().st_mode & 0o022] + [
        f"reads {one}"
        for one in every
        if one.is_file() and one.stat().st_mode & 0o044 and SECRET.encode() in one.read_bytes()
    ]


def added(*words: str) -> RemoteKernel:
    return spec.add(spec.meant(read_arguments(KERNEL_ADD, words), CLUSTERS))


def argv_of(home: Path, name: str) -> list[str]:
    told = json.loads((home / f".local/data/kernels/{name}/kernel.json").read_text())
    argv: list[str] = told["argv"]
    return argv


def test_environment_of_a_remote_kernel_is_private(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = added("--name", "mine", "--env", f"TOKEN={SECRET}", "--env=PLACE=a b")
    assert found(home) == []
    argv = argv_of(home, "mine")
    assert SECRET not in f"{argv}{kernel}"
    words = argv[argv.index(spec.MODULE) + 1 : -2]
    asked = spec.stored(words)
    assert spec.parse(asked.words).env == {"TOKEN": SECRET, "PLACE": "a b"}
    assert SECRET not in repr(asked.identity)
    assert [main(["kernel", "list"]), main(["kernel", "list", "--json"])] == [0, 0]
    shown = capsys.readouterr()
    assert "TOKEN=" in shown.out
    assert SECRET not in f"{shown}"
    assert spec.listed() == [kernel]


def test_environment_value_can_be_passed_outside_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    args = read_arguments(KERNEL_ADD, ["--env", "TOKEN", "--name", "mine"])
    args.options = with_values(args.options, os.environ)
    assert spec.meant(args, CLUSTERS).words[2:] == ("--env", f"TOKEN={SECRET}")
    with pytest.raises(RequestError, match="does not export `OTHER`"):
        with_values([("env", "OTHER")], os.environ)


def test_form_cannot_name_an_env_file(home: Path) -> None:
    """Otherwise a form would reveal which files exist."""
    with pytest.raises(RequestError, match="env-file"):
        spec.meant(read_arguments(KERNEL_ADD, ["--env-file", str(home)]), CLUSTERS)


def test_created_folders_are_private(home: Path) -> None:
    places.data_dir()
    places.spool_dir()
    places.runtime_dir()
    places.user_config_dir()
    local = LocalTransport()
    root = home / "jobs" / "below" / "a2b4c6d7"
    local.upload_and_run(
        PurePosixPath(root), {"env.sh": SECRET.encode(), "a/key": b"#!x"}, ["true"]
    )
    local_paths.Paths(home / "local" / "clusters" / "one", home / "local" / "one").make()
    assert {stat.S_IMODE(one.stat().st_mode) for one in home.rglob("*") if one.is_dir()} == {0o700}
    assert found(home) == []


def test_agent_does_not_write_a_core_dump(agent_home: AgentHome) -> None:
    usual = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (usual[1], usual[1]))
    try:
        agent_home.client().check()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, usual)
    limits = Path(f"/proc/{agent_home.pid()}/limits").read_text()
    # With a limit of 0, Linux still pipes a core dump to the program in `core_pattern`. With 1 it
    # does not.
    most_bytes = 0 if usual[1] == 0 else 1
    assert re.search(rf"^Max core file size +{most_bytes} ", limits, re.MULTILINE)


def test_environment_of_a_job_is_hidden_from_other_users(
    agent_home: AgentHome, slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", slurm_cluster.env["JUPYTER_CONFIG_DIR"])
    api = AgentClient(agent_home.socket, COMMAND)
    code = "#!/bin/sh\nexec sleep 600"
    # Each test process has its own secret, since they can list each other's processes.
    secret = f"{SECRET}-{os.getpid()}"
    spec = job_spec(code, kind=JobKind.PROGRAM, name="t", env={"TOKEN": secret})
    api.submit(spec)
    try:
        wait_until(lambda: api.job(spec.id).state is JobState.RUNNING)
        job = api.job(spec.id)
        assert job.slurm_id is not None
        assert "TOKEN" in api.details(spec.id).environment
        words = [content(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
        assert not [one for one in words if secret.encode() in one]
        record = slurm_cluster.run("scontrol", "show", "job", "-d", job.slurm_id).stdout
        assert secret not in record
        folder = Path(job.job_dir)
        holding = holds(folder, secret)
        assert [path.name for path in holding] == ["env.sh"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, *holding)} == {0o700, 0o600}
        assert found(folder.parent) == []
        # Until the cluster has the job, its record contains the whole spec.
        wait_until(lambda: not holds(Path(os.environ["JUPYTER_DATA_DIR"]), secret))
    finally:
        api.cancel(spec.id)
        wait_until(lambda: api.job(spec.id).state.final)


def holds(folder: Path, secret: str) -> list[Path]:
    """Return the files below `folder` that contain the secret."""
    return [one for one in folder.rglob("*") if one.is_file() and secret.encode() in content(one)]


def content(path: Path) -> bytes:
    """Return the content, or b"" if the file or its process no longer exists."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
