"""What the looks at Slurm make of a job, when they come in an unlucky order."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.jobs import board, comparison, watch
from jupyter_slurm.jobs.allocation import ask_allocation
from jupyter_slurm.wire import JobState
from tests.jobs.conftest import Site, both_ways, spec

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

    monkeypatch.setattr(comparison, "ask_allocation", slowly)
    gate = site.cluster.folder / f"gate-{spec('').id}"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    job = site.service.submit(spec(code))
    assert began.wait(_PATIENCE_S)
    gate.touch()
    ended = site.wait(job.id)
    cursor = site.service.changes().cursor
    may_go_on.set()
    assert site.service.changes(cursor, _A_MOMENT_S).jobs == ()
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


@both_ways
def test_while_the_way_is_lost_a_call_to_look_does_not_make_it_look_on_and_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = site.service._clusters.named(None).transport
    looks, looked = [0], threading.Event()

    def lost(*_: Any, **__: Any) -> dict[Any, int]:
        looks[0] += 1
        looked.set()
        raise ConnectionLostError("The line is cut.")

    monkeypatch.setattr(transport, "grown", lost)
    site.service.submit(spec("1"))
    assert looked.wait(_PATIENCE_S)
    for _ in range(3):
        site.service._clusters.watch(site.service._clusters.named(None)).look()
        time.sleep(0.1)
    assert looks[0] < 20


@pytest.mark.parametrize("errors", [1, 5_000])
def test_after_however_many_errors_there_is_a_pause_of_minutes_at_most(errors: int) -> None:
    assert 0 < board.backed_off_s(10.0, errors) <= 300.0
