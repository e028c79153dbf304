"""A terminal in every runtime of this machine: in its own allocation, and in a cell's job."""

from __future__ import annotations

from pathlib import Path

import pexpect
import pytest

from jupyter_slurm.commands.shell import ANY_SHELL
from jupyter_slurm.wire import Job, JobKind, JobState, ProgramSpec
from tests.containers import test_cells
from tests.containers.test_cells import Ground
from tests.on_terminal import answer, answered, close, end, prompted, spawned
from tests.ssh.waiting import wait_until

ground = test_cells.ground
"""Yield a site. At the end, check that no container or process is left."""

SEES = "import glob, time; print(sorted(glob.glob('/*')), flush=True); time.sleep(1000)"


def opened(ground: Ground, job_id: str, node: str | None = None) -> pexpect.spawn:
    """Open a shell in a job once it runs."""
    service = ground.site.service
    wait_until(lambda: bool(service.job(job_id).nodes), 60)
    terminal = spawned(service.shell_in_job(job_id, ANY_SHELL, node))
    prompted(terminal)
    return terminal


def seen(terminal: pexpect.spawn) -> str:
    return str(sorted(answer(terminal, "echo /*").split()))


def there(ground: Ground, job_id: str) -> str:
    """Return the job's output."""
    return ground.site.service.logs(job_id).outputs[0].text.strip()  # type: ignore[union-attr]


def ended(ground: Ground, job: Job) -> None:
    assert ground.site.service.job(job.id).state is JobState.RUNNING
    ground.site.service.cancel(job.id)
    ground.site.wait(job.id)


@pytest.mark.parametrize("ground", ["docker", "pyxis"], indirect=True)
def test_terminal_in_its_own_allocation_runs_in_the_image(ground: Ground) -> None:
    asked = ground.job_spec(ANY_SHELL, kind=JobKind.PROGRAM, env={"MINE": "a b"}, name="shell")
    assert isinstance(asked, ProgramSpec)
    terminal = spawned(ground.site.service.shell(asked))
    prompted(terminal)
    answered(terminal, "echo $MINE.$SLURM_JOB_NAME", "a b.shell\r\n")
    terminal.setwinsize(31, 91)
    # A nested terminal gets the new size a moment later.
    resized = "until [ \"$(stty size)\" = '31 91' ]; do sleep 0.1; done; echo s''o"
    answered(terminal, resized, "so\r\n")
    terminal.sendline("sh -c \"echo sle''eps; exec sleep 1000\"")
    terminal.expect("sleeps")
    terminal.sendintr()
    terminal.expect("ready> ")
    terminal.sendline("sleep 1000 & exit 6")
    assert end(terminal) == 6


@pytest.mark.parametrize("ground", ["docker"], indirect=True)
def test_closed_terminal_ends_its_job(ground: Ground) -> None:
    asked = ground.job_spec(ANY_SHELL, kind=JobKind.PROGRAM)
    assert isinstance(asked, ProgramSpec)
    terminal = spawned(ground.site.service.shell(asked))
    prompted(terminal)
    terminal.sendline("sleep 1000 & sleep 1000")
    close(terminal)
    cluster = ground.site.cluster
    # proctrack/linuxproc loses a process whose parent was killed first; slurmstepd then waits 60 s
    # for the terminal ("Abandoning IO") before closing the terminal.
    wait_until(lambda: not cluster.run("squeue", "-h").stdout.strip(), 120)


def test_terminal_in_a_job_uses_the_image_and_does_not_stop_the_cell(ground: Ground) -> None:
    job = ground.started(SEES, env={"MINE": "a b"})
    terminal = opened(ground, job.id)
    answered(terminal, "echo $MINE.$SLURM_JOB_ID", f"a b.{job.slurm_id}\r\n")
    assert seen(terminal) == there(ground, job.id)
    terminal.sendline("sleep 1000 & exit 3")
    assert end(terminal) == 3
    close(opened(ground, job.id))
    ended(ground, job)


@pytest.mark.parametrize("ground", ["docker", "pyxis"], indirect=True)
def test_terminal_on_another_node_runs_in_the_image(ground: Ground) -> None:
    job = ground.started(SEES, env={"MINE": "a b"}, options={"nodes": "2", "mem": "200"})
    wait_until(lambda: len(ground.site.service.job(job.id).nodes) == 2, 60)
    node = ground.site.service.job(job.id).nodes[1]
    terminal = opened(ground, job.id, node)
    answered(terminal, "echo $MINE.$SLURMD_NODENAME.$JSLURM_NODE", f"a b.{node}.\r\n")
    assert seen(terminal) == there(ground, job.id)
    terminal.sendline("sleep 1000 & exit 3")
    assert end(terminal) == 3
    close(opened(ground, job.id, node))
    ended(ground, job)


@pytest.mark.parametrize("ground", ["pyxis", "enroot"], indirect=True)
def test_changes_by_the_cell_are_visible_in_a_terminal(ground: Ground) -> None:
    code = "import time; open('/opt/mine', 'w'); print('up', flush=True); time.sleep(1000)"
    job = ground.started(code, env={"MINE": "a\nb"})
    terminal = opened(ground, job.id)
    assert answer(terminal, 'ls /opt; echo "$MINE.$TERM"') == "mine\r\na\r\nb.dumb\r\n"
    close(terminal)
    # Without this file, the terminal runs in a separate container with the same image.
    Path(job.job_dir, "program.pid").unlink()
    apart = opened(ground, job.id)
    assert answer(apart, 'ls /opt; echo "$MINE.$TERM"') == "a\r\nb.dumb\r\n"
    close(apart)
    ended(ground, job)
