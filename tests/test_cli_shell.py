"""`jupyter slurm shell` as somebody at a terminal sees it, with the real agent and a real Slurm."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pexpect  # type: ignore[import-untyped]
import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until

PATIENCE_S = 60


class Desk:
    """Somebody with terminals of their own, in one home."""

    def __init__(self, home: AgentHome, cluster: SlurmCluster) -> None:
        self.home = home
        self.cluster = cluster
        self.api = AgentClient(home.socket, COMMAND)
        self.opened: list[pexpect.spawn] = []

    def shell(self, *words: str) -> pexpect.spawn:
        """A terminal in which `jupyter slurm shell WORDS` was typed."""
        terminal = pexpect.spawn(
            sys.executable,
            ["-m", "jupyter_slurm", "shell", *words],
            env={**os.environ, "TERM": "xterm", "LANG": "C.UTF-8"},
            cwd=str(self.home.folder),
            encoding="utf-8",
            timeout=PATIENCE_S,
            dimensions=(30, 100),
        )
        self.opened.append(terminal)
        return terminal

    def job(self) -> Job:
        """The newest."""
        return self.api.jobs()[0]

    def ended(self, job_id: str) -> Job:
        wait_until(lambda: self.api.job(job_id).state.final, PATIENCE_S)
        return self.api.job(job_id)


@pytest.fixture
def desk(
    agent_home: AgentHome, slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", slurm_cluster.env["JUPYTER_CONFIG_DIR"])
    monkeypatch.setenv("SHELL", "/bin/bash")
    desk = Desk(agent_home, slurm_cluster)
    yield desk
    for terminal in desk.opened:
        terminal.close(force=True)
    for job in desk.api.jobs():
        if not job.state.final:
            desk.api.cancel(job.id)
            desk.ended(job.id)


def prompted(terminal: pexpect.spawn) -> None:
    """The shell there takes lines."""
    terminal.expect("leaves\\]")
    terminal.sendline("PS1='ready''> '; stty -echo; echo be''gun")
    terminal.expect("begun\r\n")
    terminal.expect("ready> ")


def test_shell_runs_in_a_job_which_ends_with_it(desk: Desk) -> None:
    terminal = desk.shell("--cpus-per-task", "2", "--mem", "100")
    prompted(terminal)
    terminal.sendline("echo $SLURM_CPUS_PER_TASK on $SLURMD_NODENAME; stty size; echo größe")
    terminal.expect("2 on n[12]\r\n30 100\r\ngröße\r\n")
    job = desk.job()
    assert (job.kind, job.state) == (JobKind.TERMINAL, JobState.RUNNING)
    terminal.sendline("exit 7")
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert terminal.exitstatus == 7
    assert desk.ended(job.id).exit_code == 7
