"""`jupyter slurm shell` on a terminal, with the real agent and a real Slurm."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import Job, JobState
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import spec
from tests.on_terminal import PATIENCE_S, SLEEPS, answer, answered, end, prompted, spawned
from tests.ssh.waiting import wait_until


class Desk:
    """A user with several terminals and one home."""

    def __init__(self, home: AgentHome, cluster: SlurmCluster) -> None:
        self.home = home
        self.cluster = cluster
        self.api = AgentClient(home.socket, COMMAND)
        self.opened: list[pexpect.spawn] = []

    def shell(self, *words: str, **env: str) -> pexpect.spawn:
        """Run `jupyter slurm shell WORDS` in a terminal."""
        argv = [sys.executable, "-m", "jupyter_slurm", "shell", *words]
        self.opened.append(spawned(argv, env=env, cwd=self.home.folder))
        return self.opened[-1]

    def cell(self, code: str, **changes: Any) -> Job:
        """Return a running job with `code`."""
        job_id = self.api.submit(spec(code, **changes)).id
        wait_until(lambda: bool(self.api.job(job_id).nodes), PATIENCE_S)
        return self.api.job(job_id)

    def ended(self, job_id: str) -> None:
        wait_until(lambda: self.api.job(job_id).state.final, PATIENCE_S)

    def allocations(self) -> list[str]:
        """Return the Slurm jobs of shells."""
        return self.cluster.run("squeue", "-h", "-n", "shell", "-o", "%i").stdout.split()


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


def left_of(slurm_id: str) -> list[str]:
    """Return the programs of that Slurm job."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.environ().get("SLURM_JOB_ID") == slurm_id:
                found.append(str(one.cmdline()))
        except psutil.Error:
            continue
    return found


def folders(desk: Desk) -> list[Path]:
    """Return the scripts of shells on the cluster."""
    return list((desk.cluster.folder / "jobs").glob("*/start"))


def number_of(terminal: pexpect.spawn) -> str:
    """Return the Slurm ID of the shell's job."""
    return answer(terminal, "echo $SLURM_JOB_ID").strip()


def test_shell_runs_in_an_allocation_like_a_local_terminal(desk: Desk) -> None:
    mine = ("--env", "MINE=a 'b' \"$HOME\"")
    # SLURM_NTASKS is set, as in another job.
    terminal = desk.shell("--cpus-per-task", "2", "--mem", "100", *mine, SLURM_NTASKS="7")
    prompted(terminal)
    answered(terminal, 'echo "$SLURM_CPUS_PER_TASK on $SLURMD_NODENAME"', "2 on n")
    answered(terminal, 'echo "$MINE.$SLURM_JOB_NAME"', "a 'b' \"$HOME\".shell")
    slurm_id = number_of(terminal)
    size_colours_and_letters_are_those_of_the_terminal_here(terminal)
    ctrl_c_and_ctrl_z_are_for_the_program_there(terminal)
    answered(terminal, "srun --ntasks 1 echo ne''sted", "nested")
    terminal.sendline("sleep 1000 & exit 3")
    assert end(terminal) == 3
    wait_until(lambda: not left_of(slurm_id), PATIENCE_S)
    assert (desk.api.jobs(), folders(desk)) == ([], [])


def size_colours_and_letters_are_those_of_the_terminal_here(terminal: pexpect.spawn) -> None:
    answered(terminal, "stty size", "30 100\r\n")
    answered(terminal, "echo $TERM größe ${#LANG}; printf '\\033[31m%s\\n' rot", "\x1b[31mrot")
    terminal.setwinsize(11, 77)
    answered(terminal, "while [ \"$(stty size)\" != '11 77' ]; do sleep 0.1; done; echo so", "so")
    terminal.sendline("cat")
    terminal.sendline("äöü")
    terminal.expect("äöü\r\n")
    terminal.sendeof()
    terminal.expect("ready> ")


def ctrl_c_and_ctrl_z_are_for_the_program_there(terminal: pexpect.spawn) -> None:
    terminal.sendline(f"trap 'echo caught' INT; {SLEEPS}; echo $?")
    terminal.expect("sleeps")
    terminal.sendintr()
    terminal.expect("ready> ")
    terminal.sendline(SLEEPS)
    terminal.expect("sleeps")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    answered(terminal, "kill %1; wait; trap - INT; echo he''re", "here")


def test_folder_and_command_with_blanks_and_quotes_arrive_unchanged(desk: Desk) -> None:
    folder = desk.home.folder / "a 'b' \"c\" $d"
    folder.mkdir()
    words = ("sh", "-c", 'printf "%s|%s|" "$PWD" "$1"; exit 5', "sh", 'it\'s\n"so" $HOME')
    terminal = desk.shell("--mem", "100", "--chdir", str(folder), "--", *words)
    terminal.expect_exact(f'{folder}|it\'s\r\n"so" $HOME|')
    assert end(terminal) == 5


def test_shell_in_a_running_job_has_the_jobs_environment_and_does_not_end_the_job(
    desk: Desk,
) -> None:
    job = desk.cell(
        "import time; time.sleep(1000)",
        env={"MINE": "a b"},
        options={"gpus": "1", "mem": "100"},
    )
    terminal = desk.shell("--job", job.id)
    prompted(terminal)
    answered(terminal, "echo $MINE.$SLURM_JOB_ID", f"a b.{job.slurm_id}\r\n")
    answered(terminal, "echo gpu${CUDA_VISIBLE_DEVICES:-none}", "gpu0\r\n")
    terminal.sendline("sleep 1000 & exit 4")
    assert end(terminal) == 4
    deaf = ("sh", "-c", "trap '' HUP TERM; echo he''re; exec sleep 100187")
    lost = desk.shell("--job", str(job.slurm_id), "--", *deaf)
    lost.expect("here")
    lost.kill(signal.SIGHUP)
    wait_until(lambda: not any("100187" in one for one in left_of(str(job.slurm_id))), PATIENCE_S)
    assert desk.api.job(job.id).state is JobState.RUNNING
    wait_until(lambda: not folders(desk), PATIENCE_S)


def test_ctrl_c_cancels_a_waiting_allocation(desk: Desk) -> None:
    terminal = desk.shell("--mem", "100", "--begin", "now+1hour")
    terminal.expect("queued and waiting for resources")
    # srun misses a signal that arrives between printing this line and sleeping.
    srun = psutil.Process(terminal.pid)
    wait_until(lambda: srun.status() == psutil.STATUS_SLEEPING, PATIENCE_S)
    terminal.sendintr()
    assert end(terminal) != 0
    wait_until(lambda: not desk.allocations(), PATIENCE_S)
    assert folders(desk) == []


def test_shell_without_a_terminal_allocates_nothing(desk: Desk) -> None:
    command = [sys.executable, "-m", "jupyter_slurm", "shell", "--mem", "100"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (done.returncode, b"needs a terminal" in done.stderr) == (2, True)
    assert desk.allocations() == []
