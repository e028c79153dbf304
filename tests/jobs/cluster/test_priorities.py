"""Priorities of waiting jobs, on a Slurm that weighs them, and on one that does not."""

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


def test_my_waiting_jobs_are_told_with_what_each_factor_gives_and_who_is_before_them(
    private_site: Callable[..., Site],
) -> None:
    site = private_site(accounting=True, nodes=1, extra_conf=WEIGHED)
    running = submitted(site)
    site.wait(running, JobState.RUNNING)
    theirs = site.cluster.submit(
        "--uid=nobody", "--output=/dev/null", "--chdir=/", "--exclusive", stdin=WAITS
    )
    first, last = submitted(site), submitted(site, nice="3000")
    elsewhere = site.cluster.submit("--output=/dev/null", "--exclusive", stdin=WAITS)
    held = submitted(site, hold="")
    wait_until(lambda: len(site.service.priorities().jobs) == 3)

    told = {one.slurm_id: one for one in site.service.priorities().jobs}
    assert theirs not in told
    ours = told[site.service.job(first).slurm_id or ""]
    assert (ours.id, ours.before, ours.waiting) == (first, 0, 4)
    assert ours.given["fairshare"] == 2000
    assert ours.priority == int(sum(ours.given.values()))
    assert (told[elsewhere].id, told[elsewhere].before) == (None, 1)
    lowest = list(told.values())[-1]
    assert (lowest.id, lowest.given["nice"], lowest.before) == (last, -3000, 3)

    said = " ".join(map(str, site.service.priorities(job_id=last).said))
    assert "nice -3000, fairshare 2000" in said
    assert "3 of the 4 jobs that wait in debug are before it." in said
    assert "--nice takes 3000 from its priority" in said
    assert "not to those that are held" in str(site.service.priorities(job_id=held).said[0])
    [ran] = site.service.priorities(job_id=running).said
    assert str(ran) == f"Job {running} has no priority now, for it is RUNNING."
    counted = site.service.status().commands
    assert not any("sshare" in call for call in counted), "it is asked only where that is low"
