"""A session in every runtime that this machine has, through a real Slurm; nothing is left of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import ExecuteResult, Job, JobKind, JobState
from tests.cluster.plugin import SlurmCluster
from tests.containers.test_cells import GROUNDS, Ground
from tests.jobs.conftest import Site
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0


@pytest.fixture(params=GROUNDS)
def ground(
    request: pytest.FixtureRequest,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    means = GROUNDS[request.param](request)
    ground = Ground(Site(slurm_cluster, tmp_path, monkeypatch, **means.settings), means)
    yield ground
    wait_until(lambda: not ground.left(), _PATIENCE_S)
    ground.site.service.close()


def shown(ground: Ground, session: Job, code: str, **changes: Any) -> list[str]:
    """The value of a cell's last expression; it has to end well."""
    site = ground.site
    sent = site.service.submit(ground.asked(code, session=session.id, **changes))
    job = site.wait(sent.id, limit_s=_PATIENCE_S)
    assert job.state is JobState.COMPLETED, (job.why, site.text(job.id, "stderr"))
    return [o.data["text/plain"] for o in site.outputs(job.id) if isinstance(o, ExecuteResult)]


def test_a_session_keeps_its_state_and_ends_with_all_that_it_was(ground: Ground) -> None:
    site = ground.site
    session = site.service.submit(
        ground.asked("", kind=JobKind.SESSION, idle_s=600, env={"SAID": "a, b"})
    )
    assert shown(ground, session, "import os\nkept = os.environ['SAID']") == []
    assert shown(ground, session, "kept, os.getuid()") == [f"('a, b', {os.getuid()})"]
    endless = site.service.submit(
        ground.asked("import time\nprint('begun', flush=True)\ntime.sleep(600)", session=session.id)
    )
    wait_until(lambda: "begun" in _text(ground, endless), _PATIENCE_S)
    site.service.cancel(endless.id)
    assert site.wait(endless.id, limit_s=_PATIENCE_S).state is JobState.CANCELLED
    assert shown(ground, session, "kept") == ["'a, b'"]
    site.service.cancel(session.id)
    assert site.wait(session.id, limit_s=_PATIENCE_S).state is JobState.CANCELLED


def _text(ground: Ground, job: Job) -> str:
    chunk = ground.site.service.logs(job.id, budget_bytes=None)
    return "".join(str(getattr(output, "text", "")) for output in chunk.outputs)
