"""What the looks at Slurm make of a job, when they come in an unlucky order."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jupyter_slurm.jobs import watch
from jupyter_slurm.jobs.allocation import ask_allocation
from jupyter_slurm.wire import JobState
from tests.jobs.conftest import Site, spec

_PATIENCE_S = 60.0
_A_MOMENT_S = 1.0
"""What was found is written down at once."""


def test_a_slow_look_at_a_job_that_runs_does_not_bring_one_back_that_has_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_go_on = threading.Event(), threading.Event()

    def slowly(*args: Any) -> Any:
        given = ask_allocation(*args)
        began.set()
        assert may_go_on.wait(_PATIENCE_S)
        return given

    monkeypatch.setattr(watch, "ask_allocation", slowly)
    gate = site.cluster.folder / f"gate-{spec('').id}"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    job = site.service.submit(spec(code))
    assert began.wait(_PATIENCE_S)
    gate.touch()
    ended = site.wait(job.id)
    revision = site.service.changes(0, 0).revision
    may_go_on.set()
    assert site.service.changes(revision, _A_MOMENT_S).jobs == ()
    assert site.service.job(job.id).state is ended.state
    gate.unlink()


def test_a_job_that_was_never_seen_to_run_has_its_node_all_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch.Watch, "_started", lambda *_: None)
    job = site.run("1")
    assert (job.state, job.started_s is None) == (JobState.COMPLETED, False)
    assert len(job.nodes) == 1
    assert job.nodes[0] in {"n1", "n2"}
