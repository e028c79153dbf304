"""Priorities of waiting jobs, on a Slurm with the multifactor plugin."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_slurm.wire import JobKind, JobState
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

WEIGHED = (
    "PriorityType=priority/multifactor",
    "PriorityWeightAge=1000",
    "PriorityWeightFairshare=2000",
    "PriorityWeightJobSize=100",
    "PriorityWeightTRES=cpu=100",
)
WAITS = "#!/bin/sh\nsleep 600\n"


def submitted(site: Site, **more: str) -> str:
    options = {"exclusive": "", **more}
    return site.service.submit(spec(WAITS, kind=JobKind.SCRIPT, options=options)).id


def test_waiting_job_has_priority_factors_and_a_position(
    private_site: Callable[..., Site],
) -> None:
    site = private_site(accounting=True, nodes=1, extra_conf=WEIGHED)
    running = submitted(site)
    site.wait(running, JobState.RUNNING)
    site.cluster.submit(
        "--uid=nobody", "--output=/dev/null", "--chdir=/", "--exclusive", stdin=WAITS
    )
    first, last = submitted(site), submitted(site, nice="3000")
    held = submitted(site, hold="")
    wait_until(lambda: site.service.priorities(last) != [])

    [ours] = site.service.priorities(first)
    assert (ours.before, ours.waiting, ours.partition) == (0, 3, "debug")
    assert ours.given["fairshare"] == 2000
    assert ours.priority == int(sum(ours.given.values()))
    [lowest] = site.service.priorities(last)
    assert (lowest.given["nice"], lowest.before) == (-3000, 2)
    assert site.service.priorities(held) == site.service.priorities(running) == []
