"""`jupyter slurm shell` as somebody at a terminal sees it, with the real agent and a real Slurm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import psutil
import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import spec
from tests.ssh.profile import write_profile
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

    def cell(self, code: str, **changes: Any) -> Job:
        """A job that runs, and runs `code`."""
        job_id = self.api.submit(spec(code, **changes)).id
        wait_until(lambda: bool(self.api.job(job_id).nodes), PATIENCE_S)
        return self.api.job(job_id)

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
    """The shell there takes lines, and shows what is typed no more."""
    terminal.expect("leaves\\]")
    terminal.sendline("PS1='ready''> '; stty -echo; echo be''gun")
    terminal.expect("begun\r\n")
    terminal.expect("ready> ")


def answered(terminal: pexpect.spawn, line: str, answer: str) -> None:
    terminal.sendline(line)
    terminal.expect_exact(answer)
    terminal.expect("ready> ")


def end(terminal: pexpect.spawn) -> int:
    """Its exit status."""
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert terminal.exitstatus is not None
    return int(terminal.exitstatus)


def left_of(desk: Desk, job: Job) -> list[str]:
    """What runs of the job, and what of ours leads to it."""
    found = []
    conf = str(desk.cluster.conf)
    for one in psutil.process_iter():
        try:
            words, env = one.cmdline(), one.environ()
            is_its = env.get("SLURM_JOB_ID") == job.slurm_id
            if env.get("SLURM_CONF") != conf:
                continue
            if is_its or f"--jobid={job.slurm_id}" in words:
                found.append(str(words))
        except psutil.Error:
            continue
    return found


def test_shell_runs_in_a_job_as_in_the_terminal_here_and_ends_with_it(desk: Desk) -> None:
    terminal = desk.shell("--cpus-per-task", "2", "--mem", "100")
    prompted(terminal)
    answered(terminal, "echo $SLURM_CPUS_PER_TASK on $SLURMD_NODENAME", "2 on n")
    job = desk.job()
    assert (job.kind, job.state) == (JobKind.TERMINAL, JobState.RUNNING)
    size_colours_and_letters_are_those_of_the_terminal_here(terminal)
    ctrl_c_and_ctrl_z_are_for_the_program_there(terminal)
    assert desk.job().state is JobState.RUNNING
    terminal.sendline("exit 7")
    assert end(terminal) == 7
    ended = desk.ended(job.id)
    assert (ended.exit_code, ended.delivered) == (7, True)
    wait_until(lambda: not left_of(desk, job), PATIENCE_S)


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


SLEEPS = "sh -c \"echo sle''eps; exec sleep 1000\""
"""Says so when the terminal is its own, and not the shell's."""


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


def test_who_leaves_or_closes_the_terminal_comes_back_to_the_same_shell(desk: Desk) -> None:
    terminal = desk.shell("--mem", "100")
    prompted(terminal)
    answered(terminal, "kept='the same'; echo se''en", "seen")
    job = desk.job()
    terminal.send("\r~.")
    terminal.expect(f"jupyter slurm shell --job {job.id}")
    assert end(terminal) == 0
    wait_until(lambda: not any("--jobid" in words for words in left_of(desk, job)), PATIENCE_S)

    again = desk.shell("--job", str(job.slurm_id))
    again.expect("seen")
    answered(again, "echo $kept shell", "the same shell")
    for number in (signal.SIGKILL, signal.SIGHUP):  # the terminal is closed, one way or the other
        answered(again, f"kept=by{number}; echo se''en{number}", f"seen{number}")
        again.kill(number)
        again = desk.shell("--job", job.id)
        again.expect(f"seen{number}")
        answered(again, "echo $kept.", f"by{number}.\r\n")
    again.sendline("exit")
    assert end(again) == 0
    assert desk.ended(job.id).state is JobState.COMPLETED
    wait_until(lambda: not left_of(desk, job), PATIENCE_S)


def test_an_agent_that_is_killed_is_a_line_that_is_lost(desk: Desk) -> None:
    terminal = desk.shell("--mem", "100")
    prompted(terminal)
    answered(terminal, "kept=it; echo se''en", "seen")
    desk.home.kill()
    terminal.expect("The terminal is lost")
    assert end(terminal) == 255
    again = desk.shell("--job", desk.job().id)
    again.expect("seen")
    answered(again, "echo $kept", "it\r\n")


def test_another_terminal_takes_the_shell_over_or_has_one_of_its_own(desk: Desk) -> None:
    first = desk.shell("--mem", "100")
    prompted(first)
    answered(first, "mine=1; echo se''en", "seen")
    job_id = desk.job().id
    beside = desk.shell("--job", job_id, "--new")
    prompted(beside)
    answered(beside, "echo $mine.$SLURM_JOB_ID", f".{desk.job().slurm_id}\r\n")
    second = desk.shell("--job", job_id)
    first.expect("Another terminal has taken this one over")
    assert end(first) == 255
    second.expect("seen")
    answered(second, "echo $mine.", "1.\r\n")
    beside.sendline("exit 3")
    assert end(beside) == 3
    answered(second, "echo st''ill", "still")


def jobs_terminals(desk: Desk) -> tuple[Job, dict[int, pexpect.spawn]]:
    """A job on both nodes, with its first terminal and one more on either node."""
    first = desk.shell("--nodes", "2", "--mem", "200")
    prompted(first)
    wait_until(lambda: len(desk.job().nodes) == 2, PATIENCE_S)
    job = desk.job()
    second = desk.shell("--job", job.id, "--new")
    second.expect_exact(f"[terminal 2 of 2, node {job.nodes[0]}]")
    third = desk.shell("--job", job.id, "--node", job.nodes[1])
    third.expect_exact(f"[terminal 3 of 3, node {job.nodes[1]}]")
    for number, terminal in enumerate((first, second, third), 1):
        if terminal is not first:
            terminal.sendline("PS1='ready''> '; stty -echo; echo be''gun")
            terminal.expect("begun\r\n")
            terminal.expect("ready> ")
        answered(terminal, f"mine=my{number}; echo $SLURMD_NODENAME.", "n")
    return job, {1: first, 2: second, 3: third}


def test_job_on_two_nodes_keeps_a_terminal_on_each_and_one_comes_back_to_any(desk: Desk) -> None:
    job, opened = jobs_terminals(desk)
    here, there = job.nodes
    assert completed(f"jupyter slurm shell --job {job.id} --node ") == [here, there]
    sizes_and_keys_get_to_the_other_node(opened[3])
    opened[3].send("\r~.")
    opened[3].expect_exact(f"jupyter slurm shell --job {job.id} --terminal 3")
    assert end(opened[3]) == 0
    # Its step on the node learns of it later: the second one is to be the last that was left.
    wait_until(lambda: len(visits(desk, job)) == 2, PATIENCE_S)
    opened[2].kill(signal.SIGKILL)
    opened[2].wait()
    wait_until(lambda: len(visits(desk, job)) == 1, PATIENCE_S)
    for words, found in (
        ((), f"my2 on {here}"),
        (("--node", there), f"my3 on {there}"),
        (("--terminal", "1"), f"my1 on {here}"),
    ):
        opened[int(found[2])] = back = desk.shell("--job", job.id, *words)
        back.expect_exact(f"[terminal {found[2]} of 3, node {found[-2:]}]")
        answered(back, "echo it is $mine on $SLURMD_NODENAME.", f"it is {found}.")
    opened[1].sendline("exit 4")
    opened[1].expect_exact("its other terminals: 2, 3.")
    assert end(opened[1]) == 4
    desk.home.kill()  # the agent
    for number in (2, 3):
        opened[number].expect("The terminal is lost")
        assert end(opened[number]) == 255
    for number in (3, 2):
        back = desk.shell("--job", job.id, "--terminal", str(number))
        back.expect_exact(f"[terminal {number}")
        answered(back, "echo $mine.", f"my{number}.")
        back.sendline("exit")
        assert end(back) == 0
    ended = desk.ended(job.id)
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 4)
    wait_until(lambda: not left_of(desk, job), PATIENCE_S)


def sizes_and_keys_get_to_the_other_node(terminal: pexpect.spawn) -> None:
    answered(terminal, "stty size; echo größe", "30 100\r\ngröße")
    terminal.setwinsize(11, 77)
    answered(terminal, "while [ \"$(stty size)\" != '11 77' ]; do sleep 0.1; done; echo so", "so")
    terminal.sendline(SLEEPS)
    terminal.expect("sleeps")
    terminal.sendintr()
    terminal.expect("ready> ")
    terminal.sendline("cat")
    terminal.sendline("äöü")
    terminal.expect("äöü\r\n")
    terminal.sendeof()
    terminal.expect("ready> ")


def completed(line: str) -> list[str]:
    """What Tab offers behind it."""
    command = [sys.executable, "-m", "jupyter_slurm", "completion", "bash", line]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def visits(desk: Desk, job: Job) -> list[str]:
    """The programs of ours in steps that lead to the job's terminals."""
    found = [words for words in left_of(desk, job) if "terminal_step.py" in words]
    return [words for words in found if "'srun'" not in words and "/bin/sh" not in words]


def test_command_on_a_node_of_the_job_and_words_that_name_none(desk: Desk) -> None:
    job = desk.cell("import time; time.sleep(1000)", options={"nodes": "2", "mem": "100"})
    there = "n2" if job.nodes[0] == "n1" else "n1"  # known to Slurm alone, so early
    terminal = desk.shell("--job", job.id, "--node", there, "--", "sh", "-c", "env; tty; exit 5")
    terminal.expect(f"node {there}")
    terminal.expect(f"SLURMD_NODENAME={there}")
    terminal.expect("/dev/pts/")
    assert end(terminal) == 5
    for words, told in (
        (("--node", "n7"), "It runs on: n1, n2."),
        (("--terminal", "2"), f"Job {job.id} keeps no terminals"),
    ):
        wrong = desk.shell("--job", job.id, *words)
        wrong.expect_exact(told)
        assert end(wrong) == 2
    own = desk.shell("--mem", "100")
    prompted(own)
    wrong = desk.shell("--job", desk.job().id, "--terminal", "2")
    wrong.expect_exact("It has: 1.")
    assert end(wrong) == 2


def test_shell_in_a_running_job_has_its_environment_and_leaves_it_running(desk: Desk) -> None:
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
    assert desk.api.job(job.id).state is JobState.RUNNING

    lost = desk.shell("--job", job.id, "--", "sh", "-c", "echo he''re; exec sleep 100187")
    lost.expect("here")
    lost.kill(signal.SIGKILL)
    wait_until(
        lambda: not [words for words in left_of(desk, job) if "--jobid" in words], PATIENCE_S
    )
    wait_until(lambda: "sleep 100187" not in everything(), PATIENCE_S)
    assert desk.api.job(job.id).state is JobState.RUNNING


def everything() -> str:
    """All command lines of this machine."""
    told = subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, text=True, check=True)
    return told.stdout


def test_job_that_is_cancelled_ends_its_shell_and_says_so(desk: Desk) -> None:
    terminal = desk.shell("--mem", "100")
    prompted(terminal)
    job = desk.job()
    desk.api.cancel(job.id)
    terminal.expect("The job is being ended")
    assert end(terminal) == 129
    assert desk.ended(job.id).state is JobState.CANCELLED
    wait_until(lambda: not left_of(desk, job), PATIENCE_S)


def test_job_for_which_nobody_comes_ends_by_itself(desk: Desk) -> None:
    terminal = desk.shell("--mem", "100", "--keep", "1s")
    prompted(terminal)
    terminal.send("\r~.")
    assert end(terminal) == 0
    job = desk.ended(desk.job().id)
    text = "".join(getattr(one, "text", "") for one in desk.api.logs(job.id).outputs)
    assert "no terminal has come for 1 s" in text
    wait_until(lambda: not left_of(desk, job), PATIENCE_S)


def test_ctrl_c_while_it_waits_cancels_the_job(desk: Desk) -> None:
    terminal = desk.shell("--mem", "100", "--hold")
    terminal.expect("waiting")
    terminal.sendintr()
    terminal.expect("is being cancelled")
    assert end(terminal) == 130
    assert desk.ended(desk.job().id).state is JobState.CANCELLED


def test_a_program_of_ones_own_in_the_terminal(desk: Desk) -> None:
    terminal = desk.shell("--mem", "100", "--", "sh", "-c", "tty; exit 3")
    terminal.expect("/dev/pts/")
    assert end(terminal) == 3


def test_job_that_is_not_there_or_has_ended_is_named(desk: Desk) -> None:
    wrong = desk.shell("--job", "nosuchjo")
    wrong.expect("nosuchjo")
    assert end(wrong) == 1
    job = desk.cell("pass", options={"mem": "100"})
    desk.ended(job.id)
    late = desk.shell("--job", job.id)
    late.expect(f"Job {job.id} has ended: it is done")
    assert end(late) == 2


def test_job_whose_node_has_no_python_says_what_to_do(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("mv", "sleep", "uname"):
        (programs / name).symlink_to(f"/bin/{name}")
    profile = tomllib.loads(desk.cluster.profile_path.read_text(encoding="utf-8"))
    changes = {"setup": f"export PATH={programs}", "python": "/no/python3"}
    write_profile(tmp_path / "config", desk.cluster.name, profile | changes)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    terminal = desk.shell("--mem", "100")
    terminal.expect("The node has no Python")
    terminal.expect("shell --job ID")
    assert end(terminal) == 127


def test_without_a_terminal_nothing_is_submitted(desk: Desk) -> None:
    command = [sys.executable, "-m", "jupyter_slurm", "shell", "--mem", "100"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (done.returncode, b"needs a terminal" in done.stderr) == (2, True)
    assert desk.api.jobs() == []


def test_in_ipython_on_a_terminal_it_is_there_in_place(desk: Desk) -> None:
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "IPython", "--simple-prompt", "--no-banner", "--ext", "jupyter_slurm"],
        env={**os.environ, "TERM": "xterm", "IPYTHONDIR": str(desk.home.folder / "ipython")},
        cwd=str(desk.home.folder),
        encoding="utf-8",
        timeout=PATIENCE_S,
        dimensions=(30, 100),
    )
    desk.opened.append(terminal)
    terminal.expect("In \\[1\\]: ")
    terminal.sendline("%slurm shell --mem 100")
    prompted(terminal)
    answered(terminal, "echo $SLURM_JOB_ID in $SLURMD_NODENAME", " in n")
    terminal.sendline("exit 3")
    terminal.expect("In \\[2\\]: ")
    terminal.sendline("print('as be''fore')")
    terminal.expect("as before")
    assert desk.ended(desk.job().id).exit_code == 3
