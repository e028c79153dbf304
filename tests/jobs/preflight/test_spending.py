"""What was spent, on a Slurm with accounting, and where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from jupyter_slurm.jobs.preflight import spending
from jupyter_slurm.jobs.preflight.partition_facts import KnownPartition
from jupyter_slurm.slurm.sacct import SpentRow
from jupyter_slurm.wire import Quota
from tests.jobs.conftest import Site
from tests.ssh.waiting import wait_until

BRIEF = "#!/bin/sh\nsleep 2\n"


def test_what_i_have_spent_and_what_is_left(
    private_site: Callable[..., Site],
) -> None:
    site = private_site(accounting=True, nodes=1, gpus=2, cpus=4)
    for words in (
        "add account lab",
        "add user root account=lab",
        "modify account lab set GrpTRESMins=cpu=6000",
    ):
        site.cluster.run("sacctmgr", "-i", *words.split())
    site.edit_profile(**{"cost_unit": "UA", "partitions.debug.cost": 3600.0})
    site.restart()
    more = ("--account=lab", "--output=/dev/null", "--chdir=/")
    site.cluster.submit(*more, "--cpus-per-task=2", "--gres=gpu:1", stdin=BRIEF)
    site.cluster.submit(*more, "--hold", stdin=BRIEF)

    def it_has_ended() -> bool:
        states = site.cluster.run("sacct", "-n", "-a", "-X", "-o", "State").stdout.split()
        return states.count("COMPLETED") == 1

    wait_until(it_has_ended)
    told = site.service.spending()
    [mine] = told.spent
    assert (mine.account, mine.user, mine.jobs) == ("lab", "root", 1)
    seconds = mine.gpu_hours * 3600
    assert 2 <= seconds < 60
    assert mine.cpu_hours * 3600 == pytest.approx(2 * seconds)
    # Half of the node's CPUs and GPUs, at 3600 an hour.
    assert mine.units == pytest.approx(seconds / 2)
    assert told.quotas[0] == Quota(
        account="lab", user="", tres="cpu", limit_hours=100, used_hours=told.quotas[0].used_hours
    )
    wait_until(lambda: site.service.spending(None, time.time() - 1e-3).spent == ())


def test_jobs_without_a_price_are_counted_apart() -> None:
    def ran(partition: str, **tres: float) -> SpentRow:
        return SpentRow("ana", "lab", partition, 3600, tres)

    known = {
        "gdl": KnownPartition("gdl", exclusive=True, cost=80.0),
        "free": KnownPartition("free"),
    }
    rows = [ran("gdl", cpu=40, node=2), ran("free", cpu=1, node=1), ran("gone", cpu=1)]
    [mine] = spending._of_accounts(rows, "ana", known)
    assert (mine.units, mine.unpriced, mine.cpu_hours) == (160.0, 2, 42.0)
    [free] = spending._of_accounts(rows[1:], "ana", known)
    assert (free.units, free.unpriced) == (None, 0)
