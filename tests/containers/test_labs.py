"""A lab in every runtime that this machine has, through a real Slurm; nothing is left of it.

The images have no JupyterLab: that of these tests is mounted into them, which have the same Python.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_slurm.wire import Job, JobKind, JobState, LabStep
from tests.containers import test_cells
from tests.containers.leftovers import processes
from tests.containers.test_cells import Ground
from tests.lab_visitor import LabVisitor
from tests.ssh.waiting import wait_until

_PATIENCE_S = 120.0
_INSIDE = "/mnt/jupyter"

ground = test_cells.ground
"""At its end nothing is left of any container or process."""


def with_jupyterlab(ground: Ground) -> dict[str, Any]:
    """Of a spec: where JupyterLab is."""
    there = Path(sysconfig.get_path("data"))
    seen = there if ground.means.sees_all else Path(_INSIDE)
    env = {
        "PYTHONPATH": str(seen / Path(sysconfig.get_path("purelib")).relative_to(there)),
        "JUPYTERLAB_DIR": str(seen / "share" / "jupyter" / "lab"),
    }
    return {"env": env, "mounts": () if seen == there else (f"{there}:{seen}",)}


def ready(ground: Ground, job: Job) -> Job:
    site = ground.site

    def is_ready() -> bool:
        now = site.service.job(job.id)
        assert not now.state.final, (now.why, site.text(job.id))
        return now.lab is not None and now.lab.step is LabStep.READY

    wait_until(is_ready, _PATIENCE_S)
    return site.service.job(job.id)


@test_cells.each_launched
def test_a_lab_runs_a_notebook_in_the_image_and_ends_with_all_that_it_was(ground: Ground) -> None:
    site = ground.site
    asked = ground.job_spec("", kind=JobKind.LAB, **with_jupyterlab(ground))
    job = ready(ground, site.service.submit(asked))
    one = LabVisitor.of(job)
    assert one.log_in(site.service.lab_entry(job.id)).status_code == 302
    printed = one.run(one.start_kernel(), "import os; print(os.getuid(), os.environ['HOME'])")
    assert printed.split()[0] == str(os.getuid())
    site.service.cancel(job.id)
    assert site.wait(job.id, limit_s=_PATIENCE_S).state is JobState.COMPLETED


@pytest.mark.parametrize("ground", ["none"], indirect=True)
def test_of_a_lab_whose_server_has_to_be_killed_nothing_is_left(ground: Ground) -> None:
    site = ground.site
    job = ready(ground, site.service.submit(ground.job_spec("", kind=JobKind.LAB)))
    servers = [one for one, words in processes(job) if "-m jupyterlab" in words]
    # What it forks has its command line until it becomes another program.
    server = min(servers, key=psutil.Process.create_time)
    [config] = [Path(one[9:]) for one in server.cmdline() if one.startswith("--config=")]
    server.suspend()
    site.service.cancel(job.id)
    assert site.wait(job.id, limit_s=_PATIENCE_S).state is JobState.COMPLETED
    wait_until(lambda: not config.parent.exists())


@pytest.mark.parametrize("ground", ["charliecloud"], indirect=True)
def test_an_image_without_jupyterlab_says_so(ground: Ground) -> None:
    ended = ground.run("", kind=JobKind.LAB)
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 65), ground.site.text(ended.id)
    assert str(ended.why) == "There is no JupyterLab for the lab to run."
