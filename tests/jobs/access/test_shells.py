"""Shells in jobs and in new allocations."""

from __future__ import annotations

import pytest

from jupyter_slurm.commands.shell import ANY_SHELL
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.slurm.srun import allocation_argv, terminal_argv
from jupyter_slurm.slurm.versions import SlurmVersion
from jupyter_slurm.wire import JobKind, JobState, ProgramSpec, new_id
from tests.jobs.conftest import Site, over_ssh, spec
from tests.on_terminal import answer, answered, close, end, prompted, spawned
from tests.ssh.waiting import wait_until


@pytest.mark.parametrize(
    ("version", "overlap", "no_gres"),
    [
        (None, True, False),
        (SlurmVersion(23, 2, 0), True, False),
        (SlurmVersion(22, 5, 0), True, False),
        (SlurmVersion(21, 8, 0), True, True),
        (SlurmVersion(20, 11, 0), True, True),
        (SlurmVersion(20, 2, 7), False, True),
    ],
)
def test_terminal_has_the_jobs_gpus_if_steps_can_share_them(
    version: SlurmVersion | None, overlap: bool, no_gres: bool
) -> None:
    argv = terminal_argv("12", ["prog"], node="n1", version=version)
    assert ("--overlap" in argv, "--gres=none" in argv) == (overlap, no_gres)
    assert argv[-1] == "prog"


def test_shell_in_a_new_allocation_allows_other_steps() -> None:
    argv = allocation_argv({"mem": "4G"}, ["prog"], version=SlurmVersion(22, 5, 0))
    assert argv[:4] == ["srun", "--mem=4G", "--overlap", "--pty"]
    assert "--overlap" not in allocation_argv({}, ["prog"], version=SlurmVersion(20, 2, 7))


def test_shell_has_the_gpus_of_an_exclusive_node(site: Site) -> None:
    job = site.service.submit(
        spec("import time; time.sleep(1000)", options={"exclusive": "", "mem": "100"})
    )
    wait_until(lambda: bool(site.service.job(job.id).nodes), 60)
    terminal = spawned(site.service.shell_in_job(job.id, ANY_SHELL))
    prompted(terminal)
    answered(terminal, "echo $CUDA_VISIBLE_DEVICES", "0,1,2,3\r\n")
    close(terminal)
    site.service.cancel(job.id)
    site.wait(job.id)


def test_shell_needs_a_running_job(site: Site) -> None:
    with pytest.raises(NotFoundError):
        site.service.shell_in_job("nosuchjo", ANY_SHELL)
    held = site.service.submit(spec("pass", options={"hold": "", "mem": "100"}))
    site.wait(held.id, JobState.PENDING)
    with pytest.raises(RequestError, match="is not running: it is PENDING"):
        site.service.shell_in_job(held.id, ANY_SHELL)
    site.service.cancel(held.id)
    site.wait(held.id)
    with pytest.raises(RequestError, match="has ended: it is CANCELLED"):
        site.service.shell_in_job(held.id, ANY_SHELL)


@over_ssh
def test_batch_script_has_a_shell_on_its_node(site: Site) -> None:
    script = "#!/bin/bash\n#SBATCH --mem=100\nsleep 1000\n"
    job = site.service.submit(spec(script, kind=JobKind.SCRIPT))
    site.wait(job.id, JobState.RUNNING)
    wait_until(lambda: bool(site.service.job(job.id).nodes), 60)
    terminal = spawned(site.service.shell_in_job(job.id, ANY_SHELL))
    prompted(terminal)
    (node,) = site.service.job(job.id).nodes
    assert answer(terminal, "echo $SLURM_JOB_ID on $SLURMD_NODENAME").endswith(f" on {node}\r\n")
    terminal.sendline("exit 2")
    assert end(terminal) == 2
    assert site.service.job(job.id).state is JobState.RUNNING
    site.service.cancel(job.id)
    site.wait(job.id)


@over_ssh
def test_shell_in_a_new_allocation_starts_in_the_home(site: Site) -> None:
    site.edit_profile(storage={"scratch": "/tmp", "stage": True}, defaults={"requeue": True})
    asked = ProgramSpec(id=new_id(), name="shell", code=ANY_SHELL, options={"mem": "100"})
    terminal = spawned(site.service.shell(asked))
    prompted(terminal)
    answered(terminal, '[ "$PWD" = "$HOME" ] && echo at home', "at home")
    terminal.sendline("exit 0")
    assert end(terminal) == 0
    assert site.service.jobs() == []
