"""A session in an image, in a job of a real Slurm. It leaves nothing behind."""

from __future__ import annotations

import os
from typing import Any

import pytest

from jupyter_slurm.wire import ExecuteResult, Job, JobKind, JobState
from tests.containers import test_cells
from tests.containers.test_cells import Ground
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0


ground = test_cells.ground
"""Yield a site. At the end, check that no container or process is left."""


def shown(ground: Ground, session: Job, code: str, **changes: Any) -> list[str]:
    """Return the value of a cell's last expression. The cell must succeed."""
    site = ground.site
    sent = site.service.submit(ground.job_spec(code, session=session.id, **changes))
    job = site.wait(sent.id, limit_s=_PATIENCE_S)
    assert job.state is JobState.COMPLETED, (job.why, site.text(job.id, "stderr"))
    return [o.data["text/plain"] for o in site.outputs(job.id) if isinstance(o, ExecuteResult)]


@pytest.mark.parametrize("ground", ["docker", "pyxis"], indirect=True)
def test_session_in_an_image_keeps_its_state_and_leaves_nothing_behind(ground: Ground) -> None:
    site = ground.site
    session = site.service.submit(
        ground.job_spec("", kind=JobKind.SESSION, idle_s=600, env={"SAID": "a, b"})
    )
    assert shown(ground, session, "import os\nkept = os.environ['SAID']") == []
    assert shown(ground, session, "kept, os.getuid()") == [f"('a, b', {os.getuid()})"]
    endless = site.service.submit(
        ground.job_spec(
            "import time\nprint('begun', flush=True)\ntime.sleep(600)", session=session.id
        )
    )
    wait_until(lambda: "begun" in _text(ground, endless), _PATIENCE_S)
    site.service.cancel(endless.id)
    assert site.wait(endless.id, limit_s=_PATIENCE_S).state is JobState.CANCELLED
    assert shown(ground, session, "kept") == ["'a, b'"]
    site.service.cancel(session.id)
    assert site.wait(session.id, limit_s=_PATIENCE_S).state is JobState.COMPLETED


def _text(ground: Ground, job: Job) -> str:
    chunk = ground.site.service.logs(job.id, budget_bytes=None)
    return "".join(str(getattr(output, "text", "")) for output in chunk.outputs)
