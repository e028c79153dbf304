"""What a job costs at most, and what it would meet."""

from __future__ import annotations

from typing import Any

from jupyter_slurm.jobs.preflight.costs import cost, outlook
from jupyter_slurm.jobs.preflight.limits import Judge
from jupyter_slurm.jobs.preflight.partition_facts import known_partitions
from jupyter_slurm.profiles.profile import ClusterProfile, PartitionLimits
from jupyter_slurm.wire import Check, ClusterInfo, Cost, Reservation
from tests.jobs.judged import (
    BARE,
    NOW_S,
    PROFILE,
    cluster_info,
    job,
    partition,
)

# --- prices -------------------------------------------------------------------------------------


def price(words: str, profile: ClusterProfile = PROFILE, info: ClusterInfo | None = None) -> Cost:
    judge, wanted = Judge(profile, info), job(words)
    found = cost(
        wanted,
        judge.partition(wanted),
        unit=profile.cost_unit,
        max_tres=info is not None and info.max_tres,
    )
    assert found is not None
    return found


def test_a_whole_node_is_charged_whole() -> None:
    gdl = PartitionLimits(limit="48h", cpus=40, gpus=8, cost=80, exclusive=True)
    found = price("-p gdl --time 10h", ClusterProfile(name="a", partitions={"gdl": gdl}))
    assert (found.units, found.node_hours, found.cpu_hours, found.gpu_hours) == (800, 10, 400, 80)
    asked_for = price("-p small --exclusive --time 30m -c 2")
    assert (asked_for.units, asked_for.unit, asked_for.cpu_hours) == (18, "UA", 12)


def test_a_part_of_a_node_is_charged_for_its_largest_share() -> None:
    found = price("-p small --time 1h --gres gpu:1 -c 6")
    assert (found.units, found.node_hours) == (18, None)
    assert (found.cpu_hours, found.gpu_hours) == (6, 1)


def test_billing_is_the_sum_of_what_is_weighed_or_the_largest() -> None:
    weights = {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 2.0}
    here = partition("small", default=True, billing=weights)
    words = "--time 1h -c 4 --mem 8G --gres gpu:1"
    assert price(words, BARE, cluster_info(here)).billing_hours == 4 + 2 + 2
    assert price(words, BARE, cluster_info(here, max_tres=True)).billing_hours == 4
    whole = price("--time 1h --exclusive", BARE, cluster_info(here)).billing_hours
    assert whole == 8 + 4 + 8
    assert price(words, BARE, cluster_info()).billing_hours is None


# --- what it would meet -------------------------------------------------------------------------


def meets(words: str, info: ClusterInfo) -> list[Check]:
    wanted = job(words)
    return list(outlook(wanted, Judge(BARE, info).partition(wanted), info, NOW_S))


def test_what_is_free_is_told_with_its_time() -> None:
    (free,) = meets("", cluster_info())
    assert free.option == "partition"
    assert str(free.sentence).startswith("small at ")
    assert str(free.sentence).endswith(": 1 of 2 nodes idle, 3 of 8 GPUs free.")
    (no_gpus,) = meets("", cluster_info(partition("small", default=True, free_gpus=None)))
    assert str(no_gpus.sentence).endswith(": 1 of 2 nodes idle.")
    assert meets("-p elsewhere", cluster_info()) == []
    here = known_partitions(PROFILE, cluster_info())["small"]
    (about, *_) = outlook(job(""), here, cluster_info(), NOW_S)
    assert str(about.sentence).startswith("small (K40) at ")


def kept(**changes: Any) -> Reservation:
    settings: dict[str, Any] = {
        "name": "upgrade",
        "start_s": NOW_S + 7200,
        "end_s": NOW_S + 9000,
        "maintenance": True,
        "partitions": {"small": 2},
    }
    return Reservation(**{**settings, **changes})


def roomy(*reservations: Reservation) -> ClusterInfo:
    return cluster_info(partition("small", default=True, limit_s=864000), reservations=reservations)


def test_maintenance_that_the_time_limit_runs_into_is_told_with_the_time_that_fits() -> None:
    assert len(meets("--time 1h", roomy(kept()))) == 1
    _, check = meets("--time 3h", roomy(kept()))
    assert check.ok is None
    assert str(check.sentence).startswith(
        "Maintenance (`upgrade`) keeps all 2 nodes of small from "
    )
    assert str(check.sentence).endswith("on these a job of 3 h starts after it.")
    assert str(check.hint) == "With --time 01:59:00 or less it can be done before."
