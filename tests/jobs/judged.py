"""Profiles, partitions and clusters for tests of previews and `info`."""

from __future__ import annotations

from typing import Any

from jupyter_slurm.jobs.submission.options import Resources, resources_of
from jupyter_slurm.profiles.profile import ClusterProfile, PartitionLimits
from jupyter_slurm.slurm.options import parse_options
from jupyter_slurm.wire import ClusterInfo, Partition

SMALL = PartitionLimits(limit="1h", nodes=1, cpus=24, memory_mib=65536, gpus=2, gpu="K40", cost=36)
LONG = PartitionLimits(limit="31d", cpus=24, gpus=2, cost=36, exclusive=True)
PROFILE = ClusterProfile(
    name="sd",
    partitions={"small": SMALL, "long": LONG},
    qos=("normal", "1gpulong"),
    accounts=("deepfun",),
    cost_unit="UA",
    origin="/etc/clusters.toml",
)
NOW_S = 1_800_000_000.0


def partition(name: str, **changes: Any) -> Partition:
    settings: dict[str, Any] = {
        "default": False,
        "up": True,
        "limit_s": 3600,
        "nodes": 2,
        "idle_nodes": 1,
        "gpu_types": ("a100",),
        "gpus": 8,
        "free_gpus": 3,
        "cpus": 8,
        "memory_mib": 16384,
        "gpus_per_node": 4,
    }
    return Partition(name=name, **{**settings, **changes})


def cluster_info(*partitions: Partition, **changes: Any) -> ClusterInfo:
    settings: dict[str, Any] = {
        "name": "sd",
        "slurm_version": "22.05.8",
        "partitions": partitions or (partition("small", default=True),),
        "accounting": True,
        "asked_s": NOW_S,
    }
    return ClusterInfo(**{**settings, **changes})


def job(words: str) -> Resources:
    return resources_of(parse_options(words.split()))
