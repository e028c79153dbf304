"""Working directories and staging of files: the script, run by a real bash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.prepare import Submission, prepare
from jupyter_slurm.jobs.submission.resolve import Site, resolved
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.wire import JobKind
from tests.specs import job_spec
from tests.ssh.waiting import wait_until

STAGED = {"scratch": "/output/{user}", "stage": True}
"""Storage with slow shared homes and a fast folder on each node."""


def profile(**settings: Any) -> ClusterProfile:
    return msgspec.convert({"name": "c", "origin": "test", **settings}, ClusterProfile)


def prepared(
    folder: Path | str, known: ClusterProfile, image_file: str | None = None, **changes: Any
) -> Submission:
    spec = job_spec(**{"id": "abcdefgh", "name": "fit", "code": "1", **changes})
    site = Site("/prj/a", JobDir(PurePosixPath(folder)), image_file)
    return prepare(resolved(spec, known, site))


# --- working directory ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "changes", "runs_in"),
    [
        (None, {"cwd": "/here"}, "/here"),
        (None, {"cwd": "/here", "push": "/here"}, "/jobs/abcdefgh/work"),
        ("login", {"cwd": "/here"}, "/jobs/abcdefgh/work"),
        ("login", {"push": "/here"}, "/jobs/abcdefgh/work"),
        ("login", {"push": "/here", "options": {"chdir": "/there"}}, "/there"),
    ],
)
def test_cell_runs_in_the_right_folder(
    host: str | None, changes: dict[str, Any], runs_in: str
) -> None:
    script = prepared("/jobs/abcdefgh", profile(host=host), **changes).script
    assert f" sh {runs_in} python3 " in script


@pytest.mark.parametrize(
    ("host", "changes", "runs_in"),
    [
        (None, {"cwd": "/here"}, "/here"),
        (None, {"cwd": "/here", "push": "/here"}, "/jobs/abcdefgh/work"),
        ("login", {"cwd": "/here"}, "/prj/a"),
        ("login", {"push": "/here"}, "/jobs/abcdefgh/work"),
        ("login", {"options": {"chdir": "~/there"}}, "/prj/a/there"),
    ],
)
def test_batch_script_runs_in_the_right_folder(
    host: str | None, changes: dict[str, Any], runs_in: str
) -> None:
    found = prepared(
        "/jobs/abcdefgh", profile(host=host), kind=JobKind.SCRIPT, code="#!/bin/sh\n", **changes
    )
    assert f"--chdir={runs_in}" in found.sbatch


def test_container_starts_in_the_work_subfolder_of_the_job_folder() -> None:
    known = profile(host="login", runtime="charliecloud")
    script = prepared("/jobs/abcdefgh", known, "/i/x", image="x").script
    assert " sh /mnt/job/work python3 " in script


def test_container_mounts_the_copy_on_the_node() -> None:
    known = profile(host="login", runtime="charliecloud", storage=STAGED)
    script = prepared("/jobs/abcdefgh", known, "/i/x", image="x").script
    assert "--bind=/jobs/abcdefgh/stage:/mnt/work" in script
    assert " sh /mnt/work python3 " in script


@pytest.mark.parametrize(
    ("folder", "changes", "said"),
    [
        ("/prj/a/jobs/abcdefgh", {}, "/prj/a/jobs/abcdefgh is in /prj"),
        ("/scratch/abcdefgh", {"options": {"chdir": "/prj/a/x"}}, "The folder of --chdir"),
        ("/scratch/abcdefgh", {"cwd": "/prj/a"}, "The notebook's folder"),
    ],
)
def test_folder_hidden_from_the_nodes_is_rejected(
    folder: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        prepared(folder, profile(storage={"hidden": ["/prj"]}), **changes)


# --- the reserve before the time limit --------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, "B:USR2@60"),
        ({"time": "2"}, None),
        ({"signal": "USR1@30"}, "B:USR1@30"),
    ],
)
def test_staged_job_gets_a_signal_before_its_time_limit(
    options: dict[str, str], asked: str | None
) -> None:
    known = profile(storage=STAGED)
    found = prepared("/jobs/abcdefgh", known, push="/x", options=options).sbatch
    assert [word for word in found if word.startswith("--signal")] == (
        [f"--signal={asked}"] if asked else []
    )


# --- the script, run --------------------------------------------------------------------------


class Node:
    """The folders of a job and a node, and a bash that runs the job's script."""

    def __init__(self, folder: Path, **storage: Any) -> None:
        self.scratch = folder / "it's $scratch" / "of {user}"
        self.job = folder / "jobs" / "abcdefgh"
        self.work = self.job / "work"
        self.job.mkdir(parents=True)
        self.storage = {"scratch": str(self.scratch), "stage": True, **storage}
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SLURM_JOB_ID": "7"}

    def start(self, code: str, **changes: Any) -> subprocess.Popen[bytes]:
        known = profile(storage=self.storage, login_shell=False)
        found = prepared(
            self.job, known, kind=JobKind.PROGRAM, code=f"#!/bin/sh\n{code}", push="/x", **changes
        )
        for name, content in found.files.items():
            assert isinstance(content, bytes)
            (self.job / name).write_bytes(content)
            (self.job / name).chmod(0o700)
        return subprocess.Popen(["/bin/bash", self.job / "job.sh"], env=self.env)

    def run(self, code: str, **changes: Any) -> int:
        return self.start(code, **changes).wait(60)

    def left(self) -> list[str]:
        return sorted(path.name for path in self.here().iterdir())

    def here(self) -> Path:
        """Return the scratch folder."""
        return Path(str(self.scratch).replace("$scratch", self.env.get("scratch", "")))

    @property
    def log(self) -> str:
        return (self.job / "log.0").read_text()

    def exit_file(self) -> dict[str, Any]:
        found = json.loads((self.job / "exit.0.json").read_text())
        assert isinstance(found, dict)
        return found


class UsersNode(Node):
    def __init__(self, folder: Path, **storage: Any) -> None:
        super().__init__(folder, **storage)
        self.user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True)
        self.env["FAST"] = str(folder / "it's fast")
        self.storage["scratch"] = storage.get("scratch", "$FAST/a b/of {user}")

    def here(self) -> Path:
        return Path(self.env["FAST"]) / "a b" / f"of {self.user.stdout.strip()}"


@pytest.fixture
def node(tmp_path: Path) -> UsersNode:
    made = UsersNode(tmp_path)
    made.work.mkdir()
    (made.work / "input").write_text("in")
    (made.work / "sub").mkdir()
    (made.work / "sub" / "old").write_text("old")
    (made.work / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (made.work / "sub" / "run.sh").chmod(0o755)
    return made


WRITES = """
cat input; pwd -P
mkdir -p results/deep empty/er
echo 1 > results/deep/new; echo 2 >> sub/old; ln -s deep results/link; mv input renamed
"""


def check_results(node: Node) -> None:
    assert (node.work / "results" / "deep" / "new").read_text() == "1\n"
    assert (node.work / "sub" / "old").read_text() == "old2\n"
    assert (node.work / "results" / "link").readlink() == Path("deep")
    assert (node.work / "renamed").read_text() == "in"
    assert (node.work / "empty" / "er").is_dir()
    assert os.access(node.work / "sub" / "run.sh", os.X_OK)
    assert not (node.job / "stage").is_symlink()
    assert node.left() == []


def test_staged_job_runs_in_a_copy_and_copies_results_back(node: UsersNode) -> None:
    assert node.run(WRITES) == 0
    assert node.log.startswith(f"in{node.here()}/jupyter-slurm.")
    check_results(node)
    assert node.exit_file()["exit_code"] == 0


def ready(node: Node) -> None:
    fifo = node.job / "ready"
    fifo.read_text()  # this blocks until the program opens it


WAITS = 'echo > "$0.ready"; echo up > "${0%/*}/ready"; sleep 60 & wait $!'


@pytest.fixture
def fifo(node: UsersNode) -> Callable[[], None]:
    os.mkfifo(node.job / "ready")
    return lambda: ready(node)


def test_cancelled_staged_job_copies_results_back(
    node: UsersNode, fifo: Callable[[], None]
) -> None:
    process = node.start(WRITES + WAITS)
    fifo()
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    check_results(node)
    assert node.exit_file()["signal"] == "TERM"


def test_staged_job_copies_results_back_before_its_time_limit(
    node: UsersNode, fifo: Callable[[], None]
) -> None:
    process = node.start(WRITES + WAITS)
    fifo()
    process.send_signal(signal.SIGUSR2)
    wait_until(lambda: (node.work / "results" / "deep" / "new").exists() and node.left() == [])
    assert process.poll() is None
    assert not (node.job / "exit.0.json").exists()
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    check_results(node)
    assert node.exit_file()["signal"] == "TERM"


def test_next_job_removes_the_copy_of_a_killed_job(
    node: UsersNode, tmp_path: Path, fifo: Callable[[], None]
) -> None:
    process = node.start(WRITES + "trap '' PIPE; " + WAITS.replace("wait $!", "wait $!"))
    fifo()
    (left,) = node.left()
    others = node.here() / "jupyter-slurm.other-node.1.0"
    others.mkdir()
    (others / "lock").touch()
    second = UsersNode(tmp_path / "second")
    second.env |= {"FAST": node.env["FAST"], "SLURM_JOB_ID": "8"}
    second.work.mkdir()
    assert second.run("true") == 0
    assert left in node.left()  # the job of this copy is still running
    process.kill()
    process.wait(60)
    second = UsersNode(tmp_path / "third")
    second.env |= {"FAST": node.env["FAST"], "SLURM_JOB_ID": "9"}
    second.work.mkdir()
    assert second.run("true") == 0
    assert node.left() == [others.name]


def test_log_names_unset_variable_in_the_scratch_path(node: UsersNode) -> None:
    del node.env["FAST"]
    assert node.run("true") == 66
    assert "the variable FAST, which storage.scratch names, is not set" in node.log


def test_results_that_cannot_be_copied_back_stay_on_the_node(node: UsersNode) -> None:
    code = f"echo 1 > new; rm -rf '{node.work}'; touch '{node.work}'"
    assert node.run(code) == 74
    (left,) = node.left()
    assert (node.here() / left / "work" / "new").read_text() == "1\n"
    assert str(node.here() / left) in node.log
