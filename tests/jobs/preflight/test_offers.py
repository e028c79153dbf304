"""Free GPUs, and partitions of cluster and profile."""

from __future__ import annotations

from dataclasses import replace

from jupyter_slurm.jobs.preflight.offers import gpus_by_type, known_partitions, partition, priced
from jupyter_slurm.slurm.sinfo import NodeRow
from tests.jobs.judged import PROFILE, cluster_info

WORKS = NodeRow(
    name="n1",
    partition="gpu",
    state="mixed",
    marks="",
    cpus=8,
    cpus_allocated=1,
    memory_mib=None,
    memory_free_mib=None,
    cpu_load=None,
    features=(),
    gres="gpu:a100:4(S:0-1)",
    gres_used="gpu:a100:1(IDX:0)",
    gpus=4,
    gpus_used=1,
    reason=None,
)


def test_gpus_of_a_drained_node_are_not_free() -> None:
    drained = replace(WORKS, name="n2", state="drained")
    silent = replace(WORKS, name="n3", marks="*", state="idle", gres_used="gpu:a100:0")
    assert gpus_by_type([WORKS, drained, silent]) == {"a100": (12, 3)}


def test_gpu_type_can_be_all_digits() -> None:
    node = replace(WORKS, gres="gpu:3090:4(S:0-1)", gres_used="gpu:3090:1(IDX:0)")
    assert gpus_by_type([node]) == {"3090": (4, 3)}


def test_gpus_with_unknown_use_are_not_counted_as_free() -> None:
    untold = replace(WORKS, gres="gpu:2", gres_used=None, gpus=2, gpus_used=None)
    assert gpus_by_type([WORKS, untold]) == {"": (2, None), "a100": (4, 3)}


def test_profile_adds_prices_to_the_clusters_partitions() -> None:
    info = priced(cluster_info(), PROFILE)
    [small] = info.partitions
    assert (small.limit_s, small.cpus, small.cost, small.about) == (3600, 8, 36, "K40")
    assert (info.accounts, info.qos) == (PROFILE.accounts, PROFILE.qos)
    assert partition(PROFILE, info, ()) == small
    assert partition(PROFILE, info, ("nosuch",)) is None


def test_profile_describes_hidden_partitions_and_a_silent_cluster() -> None:
    assert list(known_partitions(PROFILE, cluster_info())) == ["small"]
    assert set(known_partitions(PROFILE, cluster_info(hidden=("long",)))) == {"small", "long"}
    alone = known_partitions(PROFILE, None)
    assert (alone["long"].limit_s, alone["long"].exclusive) == (31 * 86400, True)
