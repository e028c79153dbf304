"""A terminal in every runtime that this machine has: in a job of its own, and beside a cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.commands.arguments import read_arguments
from jupyter_slurm.commands.shell import Shell, parse
from jupyter_slurm.commands.submitting import SHELL
from jupyter_slurm.wire import JobKind, JobState
from tests.containers import test_cells
from tests.containers.test_cells import Ground
from tests.near_end import NearEnd
from tests.ssh.waiting import wait_until

ground = test_cells.ground
"""At its end nothing is left of any container or process."""

LOGIN = parse(read_arguments(SHELL, []))
CHANGES = pytest.mark.parametrize("ground", ["pyxis", "enroot"], indirect=True)
"""A program can change what it has of its image there."""


def opened(ground: Ground, job_id: str, shell: Shell = LOGIN) -> NearEnd:
    """Once the job runs."""
    service = ground.site.service
    wait_until(lambda: bool(service.job(job_id).nodes), 60)
    return NearEnd(service.terminal(shell.terminal(job_id)))


def there(ground: Ground, job_id: str) -> str:
    """What the job has printed first."""
    return ground.site.service.logs(job_id).outputs[0].text.strip()  # type: ignore[union-attr]


@test_cells.each_launched
def test_a_job_of_its_own_in_the_image(ground: Ground) -> None:
    asked = ground.job_spec(LOGIN.code, kind=JobKind.TERMINAL, env={"MINE": "a b"})
    job = ground.site.service.submit(asked)
    near = opened(ground, job.id)
    near.prompted()
    assert near.answer("echo $MINE.$SLURM_JOB_NAME") == f"a b.{job.name}.{job.id}\r\n"
    near.answer("kept=1; sleep 1000 &")
    near.close()
    again = opened(ground, job.id)
    again.begin(30, 90)
    # srun's own terminal hears of a new size a moment later.
    again.type("until [ \"$(stty size)\" = '30 90' ]; do sleep 0.1; done; echo $kept.ke''pt")
    again.until("1.kept\r\n")
    again.type("exit 6")
    assert again.status() == 6
    again.close()
    assert ground.site.wait(job.id).exit_code == 6


@test_cells.each_launched
def test_beside_a_cell_that_runs_and_goes_on(ground: Ground) -> None:
    code = "import glob, time; print(sorted(glob.glob('/*')), flush=True); time.sleep(1000)"
    job = ground.started(code, env={"MINE": "a b"})
    near = opened(ground, job.id)
    near.prompted()
    assert near.answer("echo $MINE.$SLURM_JOB_ID") == f"a b.{job.slurm_id}\r\n"
    assert str(sorted(near.answer("echo /*").split())) == there(ground, job.id)
    near.type("sleep 1000 & exit 3")
    assert near.status() == 3
    near.close()
    left = opened(ground, job.id)
    left.prompted()
    left.close()
    assert ground.site.service.job(job.id).state is JobState.RUNNING
    ground.site.service.cancel(job.id)
    ground.site.wait(job.id)


@test_cells.each_launched
def test_on_another_node_of_the_job_it_is_in_the_image_too(ground: Ground) -> None:
    code = "import glob, time; print(sorted(glob.glob('/*')), flush=True); time.sleep(1000)"
    job = ground.started(code, env={"MINE": "a b"}, options={"nodes": "2", "mem": "200"})
    wait_until(lambda: len(ground.site.service.job(job.id).nodes) == 2, 60)
    node = ground.site.service.job(job.id).nodes[1]
    words = ["--job", job.id, "--node", node]
    near = opened(ground, job.id, parse(read_arguments(SHELL, words)))
    near.prompted()
    assert near.answer("echo $MINE.$SLURMD_NODENAME.$JSLURM_NODE") == f"a b.{node}.\r\n"
    assert str(sorted(near.answer("echo /*").split())) == there(ground, job.id)
    near.type("sleep 1000 & exit 3")
    assert near.status() == 3
    near.close()
    left = opened(ground, job.id, parse(read_arguments(SHELL, words)))
    left.prompted()
    left.close()
    assert ground.site.service.job(job.id).state is JobState.RUNNING
    ground.site.service.cancel(job.id)
    ground.site.wait(job.id)


@test_cells.each_launched
def test_a_kept_terminal_on_another_node_is_in_the_image_too(ground: Ground) -> None:
    options = {"nodes": "2", "mem": "200"}
    spec = ground.job_spec(LOGIN.code, kind=JobKind.TERMINAL, options=options)
    job = ground.site.service.submit(spec)
    first = opened(ground, job.id)
    first.prompted()
    wait_until(lambda: len(ground.site.service.job(job.id).nodes) == 2, 60)
    node = ground.site.service.job(job.id).nodes[1]
    words = ["--job", job.id, "--node", node]
    second = opened(ground, job.id, parse(read_arguments(SHELL, words)))
    second.prompted()
    assert second.answer("kept=1; echo $SLURMD_NODENAME") == f"{node}\r\n"
    assert second.answer("echo /*") == first.answer("echo /*")
    second.close()
    again = opened(ground, job.id, parse(read_arguments(SHELL, ["--job", job.id])))
    again.begin()
    again.type("echo $kept.ke''pt")
    again.until("1.kept\r\n")
    again.type("exit 3")
    assert again.status() == 3
    again.close()
    first.type("exit 0")
    assert first.status() == 0
    first.close()
    assert ground.site.wait(job.id).state is JobState.COMPLETED


@CHANGES
def test_what_a_cell_has_changed_in_its_container_is_there(ground: Ground) -> None:
    code = "import time; open('/opt/mine', 'w'); print('up', flush=True); time.sleep(1000)"
    job = ground.started(code, env={"MINE": "a\nb"})
    near = opened(ground, job.id)
    near.prompted()
    assert near.answer('ls /opt; echo "$MINE.$TERM"') == "mine\r\na\r\nb.dumb\r\n"
    near.close()
    # Where that cannot be told, the same image in a container of its own.
    Path(job.job_dir, "program.pid").unlink()
    apart = opened(ground, job.id)
    apart.prompted()
    assert apart.answer('ls /opt; echo "$MINE.$TERM"') == "a\r\nb.dumb\r\n"
    apart.close()
    assert ground.site.service.job(job.id).state is JobState.RUNNING
    ground.site.service.cancel(job.id)
    ground.site.wait(job.id)


@CHANGES
def test_another_terminal_is_in_the_container_of_the_first(ground: Ground) -> None:
    job = ground.site.service.submit(ground.job_spec(LOGIN.code, kind=JobKind.TERMINAL))
    first = opened(ground, job.id)
    first.prompted()
    first.answer("echo >/opt/mine")
    second = opened(ground, job.id, parse(read_arguments(SHELL, ["--job", job.id, "--new"])))
    second.prompted()
    assert second.answer("ls /opt") == "mine\r\n"
    second.type("exit 4")
    assert second.status() == 4
    second.close()
    first.type("exit 0")
    assert first.status() == 0
    first.close()
    assert ground.site.wait(job.id).state is JobState.COMPLETED
