"""What accounting tells of a user's jobs that have ended."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import JobState, QueueEntry
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0

MakeSite = Callable[..., Site]


def test_history_is_what_has_ended_the_latest_first(private_site: MakeSite) -> None:
    site = private_site(accounting=True)
    began_s = time.time()
    theirs = site.cluster.submit("--output=/dev/null", stdin="#!/bin/sh\nexit 3")
    site.cluster.wait_for(theirs, "FAILED")
    array = site.cluster.submit("--output=/dev/null", "--array=1-2", stdin="#!/bin/sh\n")
    ours = site.run("1")
    running = site.service.submit(spec("import time; time.sleep(600)"))
    site.wait(running.id, JobState.RUNNING)
    site.cluster.submit("--uid=nobody", "--output=/dev/null", "--chdir=/", stdin="#!/bin/sh\n")
    found: list[QueueEntry] = []

    def all_are_told() -> bool:
        nonlocal found
        found = site.service.history()
        return len(found) >= 4

    wait_until(all_are_told, PATIENCE_S)
    by_id = {entry.slurm_id: entry for entry in found}
    assert set(by_id) == {theirs, f"{array}_1", f"{array}_2", ours.slurm_id}
    assert (by_id[theirs].state, by_id[theirs].id) == ("FAILED", None)
    assert by_id[ours.slurm_id or ""].id == ours.id
    assert by_id[f"{array}_1"].array_id == array
    ends = [entry.ended_s or 0.0 for entry in found]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] >= began_s - 1
    assert site.service.history(days=1e-9) == []
    site.service.cancel(running.id)


def test_without_accounting_there_is_no_history(site: Site) -> None:
    site.run("1")
    assert site.service.history() == []


@pytest.mark.parametrize("days", [0.0, -1.0, 1e9, float("nan")])
def test_a_history_of_no_time_or_of_ages_is_refused(site: Site, days: float) -> None:
    with pytest.raises(RequestError, match="days"):
        site.service.history(days=days)
