"""A lab in an image, in a job of a real Slurm. It leaves nothing behind.

The images have no JupyterLab. They have the same Python as the tests, so the tests' JupyterLab is
mounted into them.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import JobKind, JobState
from tests.containers import test_cells
from tests.containers.test_cells import Ground
from tests.jobs.access.test_labs import ready
from tests.lab_visitor import LabVisitor

_PATIENCE_S = 120.0
_INSIDE = "/mnt/jupyter"

ground = test_cells.ground
"""Yield a site. At the end, check that no container or process is left."""


def with_jupyterlab(ground: Ground) -> dict[str, Any]:
    """Return the spec fields that locate JupyterLab."""
    there = Path(sysconfig.get_path("data"))
    seen = there if ground.means.sees_all else Path(_INSIDE)
    env = {
        "PYTHONPATH": str(seen / Path(sysconfig.get_path("purelib")).relative_to(there)),
        "JUPYTERLAB_DIR": str(seen / "share" / "jupyter" / "lab"),
    }
    return {"env": env, "mounts": () if seen == there else (f"{there}:{seen}",)}


@pytest.mark.parametrize("ground", ["charliecloud", "docker"], indirect=True)
def test_lab_runs_a_notebook_in_the_image_and_leaves_nothing_behind(ground: Ground) -> None:
    site = ground.site
    asked = ground.job_spec("", kind=JobKind.LAB, **with_jupyterlab(ground))
    job = ready(site, site.service.submit(asked))
    one = LabVisitor.of(job)
    assert one.log_in(site.service.lab_entry(job.id)).status_code == 302
    printed = one.run(one.start_kernel(), "import os; print(os.getuid(), os.environ['HOME'])")
    assert printed.split()[0] == str(os.getuid())
    site.service.cancel(job.id)
    assert site.wait(job.id, limit_s=_PATIENCE_S).state is JobState.COMPLETED
