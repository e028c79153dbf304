"""The upper limit of a job's cost."""

from __future__ import annotations

from jupyter_slurm.jobs.preflight import offers
from jupyter_slurm.jobs.preflight.costs import cost
from jupyter_slurm.profiles.profile import ClusterProfile, PartitionLimits
from jupyter_slurm.wire import ClusterInfo, Cost
from tests.jobs.judged import PROFILE, cluster_info, job, partition


def price(
    words: str, profile: ClusterProfile = PROFILE, info: ClusterInfo | None = None
) -> Cost | None:
    wanted = job(words)
    info = info and offers.priced(info, profile)
    return cost(wanted, offers.partition(profile, info, wanted.partitions), profile.cost_unit)


def test_exclusive_node_is_charged_in_full() -> None:
    gdl = PartitionLimits(limit="48h", cpus=40, gpus=8, cost=80, exclusive=True)
    found = price("-p gdl --time 10h", ClusterProfile(name="a", partitions={"gdl": gdl}))
    assert found is not None
    assert (found.units, found.node_hours, found.cpu_hours, found.gpu_hours) == (800, 10, 400, 80)
    asked_for = price("-p small --exclusive --time 30m -c 2")
    assert asked_for is not None
    assert (asked_for.units, asked_for.unit, asked_for.cpu_hours) == (18, "UA", 12)


def test_shared_node_is_charged_for_the_largest_share() -> None:
    found = price("-p small --time 1h --gres gpu:1 -c 6")
    assert found is not None
    assert (found.units, found.node_hours) == (18, None)
    assert (found.cpu_hours, found.gpu_hours) == (6, 1)


def test_charged_time_is_limited_by_the_partition() -> None:
    info = cluster_info(partition("small", default=True, default_time_s=600))
    found = price("--time 9h", info=info)
    assert found is not None
    assert (found.limit_s, found.units) == (3600, 36 / 8)
    usual = price("", info=info)
    assert usual is not None
    assert usual.limit_s == 600
    endless = cluster_info(partition("other", default=True, limit_s=None))
    assert price("", info=endless) is None
    assert price("--time UNLIMITED", info=endless) is None
