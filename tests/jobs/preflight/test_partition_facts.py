"""What profile and cluster say of partitions, whose word it is, and where they differ."""

from __future__ import annotations

import math

from jupyter_slurm.jobs.preflight.partition_facts import (
    Figure,
    Source,
    differences,
    known_partitions,
)
from tests.jobs.judged import BARE, PROFILE, TEMPLATE, cluster_info, partition


def test_where_the_profile_is_out_of_date_it_is_told() -> None:
    info = cluster_info(
        partition("small", limit_s=7200, cpus=24, memory_mib=32768, gpus_per_node=4)
    )
    assert [str(one) for one in differences(PROFILE, info)] == [
        "The cluster does not have what the profile names: `long`.",
        "`small` has a time limit of 2 h, not 1 h, as the profile says.",
        "`small` has GPUs on a node: 4, not 2, as the profile says.",
        "`small` has nodes for a job: 2, not 1, as the profile says.",
        "`small` has 32.0 GiB on a node, not 64.0 GiB, as the profile says.",
    ]


def test_each_figure_keeps_who_says_it() -> None:
    alone = known_partitions(PROFILE, None)["small"]
    assert alone.limit_s == Figure(3600, Source.PROFILE)
    assert alone.memory_mib == Figure(65536, Source.PROFILE)
    both = known_partitions(PROFILE, cluster_info())
    assert list(both) == ["small"], "the cluster has no other"
    assert list(known_partitions(PROFILE, cluster_info(hidden=("long",)))) == ["small", "long"]
    assert both["small"].limit_s == Figure(3600, Source.CLUSTER)
    assert both["small"].cost == 36
    assert known_partitions(TEMPLATE, None)["long"].limit_s == Figure(31 * 86400, Source.TEMPLATE)
    endless = known_partitions(BARE, cluster_info(partition("x", limit_s=None)))["x"]
    assert endless.limit_s == Figure(math.inf, Source.CLUSTER)
