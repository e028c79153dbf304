"""Spent resources, on a Slurm with accounting."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from jupyter_slurm.jobs.preflight import spending
from jupyter_slurm.slurm.sacct import SpentRow
from tests.jobs.conftest import Site
from tests.jobs.judged import partition
from tests.ssh.waiting import wait_until

BRIEF = "#!/bin/sh\nsleep 2\n"


def test_usage_is_reported_for_each_account(
    private_site: Callable[..., Site],
) -> None:
    site = private_site(accounting=True, nodes=1, gpus=2, cpus=4)
    for words in (
        "add account lab",
        "add user root account=lab",
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
    [mine] = site.service.spending().spent
    assert (mine.account, mine.user, mine.jobs) == ("lab", "root", 1)
    seconds = mine.gpu_hours * 3600
    assert 2 <= seconds < 60
    assert mine.cpu_hours * 3600 == pytest.approx(2 * seconds)
    # Half of the node's CPUs and GPUs, at a price of 3600 per hour.
    assert mine.units == pytest.approx(seconds / 2)
    wait_until(lambda: site.service.spending(None, time.time() - 1e-3).spent == ())


def test_jobs_without_a_price_are_counted_separately() -> None:
    def ran(where: str, **tres: float) -> SpentRow:
        return SpentRow("ana", "lab", where, 3600, tres)

    known = {
        "gdl": partition("gdl", exclusive=True, cost=80.0),
        "free": partition("free"),
    }
    rows = [ran("gdl", cpu=40, node=2), ran("free", cpu=1, node=1), ran("gone", cpu=1)]
    [mine] = spending._of_accounts(rows, "ana", known)
    assert (mine.units, mine.unpriced, mine.cpu_hours) == (160.0, 2, 42.0)
    [free] = spending._of_accounts(rows[1:], "ana", known)
    assert (free.units, free.unpriced) == (None, 0)
