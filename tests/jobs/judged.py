"""Profiles, clusters and jobs for the tests of what is said before a job is sent.

Whatever is said in them must be made of sentences that the browser's side can translate.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from jupyter_slurm.jobs.preflight.limits import Judge
from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.jobs.preflight.resources import Resources, resources_of
from jupyter_slurm.profiles.profile import ClusterProfile, PartitionLimits
from jupyter_slurm.slurm.options import parse_options
from jupyter_slurm.wire import ClusterInfo, Message, Partition, Text
from tests.cluster.plugin import ROOT

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
TEMPLATE = ClusterProfile(
    name="sd",
    partitions={"small": SMALL, "long": LONG},
    qos=("normal", "1gpulong"),
    by_template=frozenset(
        {(name, key) for name in ("small", "long") for key in ("limit", "nodes", "cpus", "gpus")}
        | {("small", "memory_mib"), ("", "qos")}
    ),
    origin="/etc/clusters.toml",
)
BARE = ClusterProfile(name="bare")
ALL = ("requests", "partitions", "associations", "qos")
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
        "enforced": ALL,
        "asked_s": NOW_S,
    }
    return ClusterInfo(**{**settings, **changes})


def job(words: str) -> Resources:
    return resources_of(parse_options(words.split()))


def objections_to(
    words: str, profile: ClusterProfile = PROFILE, info: ClusterInfo | None = None
) -> list[Objection]:
    found = Judge(profile, info).objections(job(words))
    for one in found:
        assert_translatable(one.sentence)
        assert_translatable(one.hint)
    return found


def only(found: list[Objection]) -> Objection:
    assert len(found) == 1, found
    return found[0]


_PROSE = re.compile(r"[a-z]{2,} [a-z]{2,}")


def assert_translatable(text: Text) -> None:
    """The catalogues have it, with every message in it; names in it are not prose."""
    if isinstance(text, str):
        assert text in _codes() or not text, text
        return
    assert text.text in _codes() or not re.search("[a-z]", text.text), text
    for value in text.args.values():
        if isinstance(value, Message):
            assert_translatable(value)
        else:
            assert not _PROSE.search(value), text


@functools.cache
def _codes() -> frozenset[str]:
    return frozenset(json.loads((ROOT / "labextension" / "messages.json").read_text()))
