"""The command line `python -m jupyter_slurm …` with its agent on a real Slurm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agent.home import ended
from tests.cluster.plugin import ROOT, SlurmCluster, jupyter_homes, kept
from tests.ssh.profile import SshSlurm


@dataclass(frozen=True)
class Shell:
    """A shell in an empty folder `cwd`, with its own agent."""

    env: dict[str, str]
    cwd: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "jupyter_slurm", *words],
            env=self.env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def ok(self, *words: str) -> str:
        """Run a command, which must succeed, and return its output."""
        code, out, err = self.run(*words)
        assert code == 0, err
        return out

    def stop_agent(self) -> None:
        """Stop the agent and wait for its end, so that nothing writes into its folders."""
        agent = json.loads(self.ok("status", "--json"))["agent"]
        with ended(agent["pid"]) as wait:
            self.ok("agent", "stop")
            assert wait(60)

    def write(self, name: str, text: str) -> None:
        (self.cwd / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    # Not in pytest's folder, since a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="cli-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def environment(home: Path, slurm_cluster: SlurmCluster) -> Iterator[dict[str, str]]:
    """Yield the environment of an agent that all tests share, with the cluster's profile."""
    env = {
        **slurm_cluster.env,
        **jupyter_homes(home),
        "JUPYTER_CONFIG_DIR": slurm_cluster.env["JUPYTER_CONFIG_DIR"],
        "PYTHONPATH": str(ROOT),
    }
    env.pop("JUPYTER_SLURM_AGENT", None)
    env.pop("SLURM_CONF", None)
    yield env
    Shell(env, home).stop_agent()


@pytest.fixture
def shell(environment: dict[str, str], tmp_path: Path) -> Shell:
    return Shell(environment, tmp_path)


def test_python_file_runs_with_its_arguments_and_separate_streams(shell: Shell) -> None:
    shell.write("helper.py", "greeting = 'hé \"$HOME\"'\n")
    shell.write(
        "train.py",
        "import os, sys, helper\n"
        "print(helper.greeting, sys.argv[1:], os.getcwd())\n"
        "print('warning', file=sys.stderr)\n",
    )
    code, out, err = shell.run("submit", "train.py", "--gpus", "1", "--", "a b", "'")
    assert code == 0, err
    assert out == f'hé "$HOME" [\'a b\', "\'"] {shell.cwd}\n'
    assert "warning\n" in err
    assert "done" in err


def test_exit_code_of_a_program_is_returned(shell: Shell) -> None:
    shell.write("run.sh", "#!/bin/sh\necho out; echo err >&2; printf '%s|' \"$@\"; exit 7\n")
    code, out, err = shell.run("submit", "run.sh", "--", "a b", "--time", "$'\n")
    assert code == 7, err
    assert "out\n" in out
    assert "a b|--time|$'\n|" in out


def test_notebook_is_executed_up_to_its_error(shell: Shell) -> None:
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "metadata": {}, "source": source, "outputs": []}
        for source in ("x = 6 * 7\nprint('first')", "x", "raise ValueError('stop')", "print(4)")
    ]
    content = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}
    shell.write("my book.ipynb", json.dumps(content))
    code, out, err = shell.run("submit", "my book.ipynb")
    assert code == 1, err
    assert out == "first\n42\n"
    assert "ValueError" in err
    [copy] = shell.cwd.glob("my book.slurm-*.ipynb")
    executed = json.loads(copy.read_text())
    outputs = [cell["outputs"] for cell in executed["cells"]]
    assert outputs[0][0]["text"] == "first\n"
    assert outputs[1][0]["data"]["text/plain"] == "42"
    assert outputs[2][0]["ename"] == "ValueError"
    assert outputs[3] == []


def test_detached_job_can_be_attached_to_and_forgotten(shell: Shell) -> None:
    shell.write("slow.py", "print('hello from', __name__)\n")
    job_id = shell.ok("submit", "slow.py", "--detach").strip()
    assert shell.ok("attach", job_id) == "hello from __main__\n"
    assert shell.ok("logs", job_id) == "hello from __main__\n"
    assert shell.ok("logs", "-f", job_id) == "hello from __main__\n"
    assert "done" in shell.ok("why", job_id)
    assert job_id in [job["id"] for job in json.loads(shell.ok("jobs", "--json"))]
    assert job_id in shell.ok("jobs")
    shell.ok("forget", job_id)
    assert job_id not in shell.ok("jobs")
    code, _, err = shell.run("why", job_id)
    assert code == 1, err
    assert job_id in err


def test_ctrl_c_leaves_the_job_running_and_cancel_ends_it(shell: Shell) -> None:
    shell.write("wait.py", "import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    process = shell.start("submit", "wait.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    job_id = err.rpartition("jupyter slurm cancel ")[2].partition("`")[0]
    assert json.loads(shell.ok("why", job_id, "--json"))["state"] == "RUNNING"
    assert job_id in shell.ok("queue")
    shell.ok("cancel", job_id)
    code, out, err = shell.run("attach", job_id)
    assert code != 0
    assert out == "begun\n"
    assert "cancelled" in err


def test_cluster_and_agent_are_described(shell: Shell) -> None:
    assert "local" in shell.ok("clusters")
    assert json.loads(shell.ok("clusters", "--json"))[0]["default"]
    assert "✔ Controller: " in shell.ok("doctor")
    status = json.loads(shell.ok("status", "--json"))
    assert status["local"] is None
    assert status["agent"]["pid"] > 0
    assert "The agent (pid" in shell.ok("agent", "status")


@pytest.mark.real
def test_private_cluster_is_started_used_stopped_and_purged(tmp_path: Path) -> None:
    home = Path(tempfile.mkdtemp(prefix="up-"))
    env = {**os.environ, **jupyter_homes(home), "PYTHONPATH": str(ROOT)}
    for name in ("SLURM_CONF", "JUPYTER_SLURM_AGENT", "JUPYTER_SLURM_CLUSTER"):
        env.pop(name, None)
    shell = Shell(env, tmp_path)
    with kept(home, None):
        out = shell.ok("up", "--nodes", "2", "--gpus", "3", "--cpus", "4", "--memory", "2G")
        assert "`local` is up" in out
        spec = json.loads(shell.ok("status", "--json"))["local"]["spec"]
        assert [spec[key] for key in ("nodes", "gpus", "cpus", "memory_mib")] == [2, 3, 4, 2048]
        shell.write("a.py", "print('ran')\n")
        assert shell.ok("submit", "a.py") == "ran\n"
        assert "slurmctld: pid" in shell.ok("status")
        shell.ok("down")
        assert "`local` is down" in shell.ok("status")
        shell.ok("up")
        assert json.loads(shell.ok("status", "--json"))["local"]["spec"] == spec
        shell.write("wait.py", "import time\ntime.sleep(600)\n")
        shell.ok("submit", "wait.py", "--detach")
        agent = json.loads(shell.ok("status", "--json"))["agent"]
        shell.ok("kernel", "add", "--name", "of-local")
        with ended(agent["pid"]) as wait:
            shell.ok("down", "--purge")
            assert wait(60), "the agent still runs, without a job or a cluster"
        left = [path for path in home.rglob("*") if path.is_file()]
        assert {path.name for path in left} <= {"agent.log", "agent.lock", "agent.starting"}
        assert "No private cluster `local`" in shell.ok("status")
        assert "No private cluster `local`" in shell.ok("down")
    shutil.rmtree(home)


def test_ssh_cluster_is_added_and_tested_with_a_job(ssh_slurm: SshSlurm, tmp_path: Path) -> None:
    home = Path(tempfile.mkdtemp(prefix="add-"))
    env = {**os.environ, **jupyter_homes(home), **ssh_slurm.env, "PYTHONPATH": str(ROOT)}
    for name in ("SLURM_CONF", "JUPYTER_SLURM_AGENT", "JUPYTER_SLURM_CLUSTER"):
        env.pop(name, None)
    shell = Shell(env, tmp_path)
    known = tomllib.loads(ssh_slurm.cluster.profile_path.read_text(encoding="utf-8"))
    sshd = ssh_slurm.sshd
    with kept(home, None):
        out = shell.ok(
            *("clusters", "add", "far", "--yes", "--runtime", "none"),
            *("--host", f"{sshd.user}@{sshd.host}:{sshd.port}"),
            *("--job-root", str(home / "jobs")),
            *(word for folder in known["path"] for word in ("--path", folder)),
            *(word for pair in known["env"].items() for word in ("--env", "=".join(pair))),
        )
        assert "Connected to far" in out
        assert "2 nodes" in out
        assert "$HOME" in out
        assert "far" in shell.ok("clusters")
        assert "open" in shell.ok("connections")
        tested = shell.ok("clusters", "test", "far")
        assert "Connection: open" in tested
        assert "says hello from Python" in tested
        (tmp_path / "there").mkdir()
        shell.write("there/a b.txt", "text")
        shell.ok("push", "there", str(home / "pushed"), "--cluster", "far")
        assert (home / "pushed" / "a b.txt").read_text() == "text"
        shell.ok("pull", str(home / "pushed"), "back", "--cluster", "far")
        assert (tmp_path / "back" / "a b.txt").read_text() == "text"
        shell.write("make.py", "open('made.txt', 'w').write(open('a b.txt').read() + ' made')\n")
        words = ("--push", "there", "--fetch", "*.txt", "--cluster", "far")
        shell.ok("submit", "make.py", *words)
        assert (tmp_path / "made.txt").read_text() == "text made"
        shell.ok("logout", "far")
        shell.ok("clusters", "remove", "far")
        shell.stop_agent()
    shutil.rmtree(home)
