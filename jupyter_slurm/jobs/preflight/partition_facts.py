"""What is known of a cluster's partitions: the profile's word, and over it the cluster's own. PURE.

Each figure keeps its source, since only what holds now may be a reason to refuse a job.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from jupyter_slurm.formatting import duration, joined, memory
from jupyter_slurm.profiles.profile import ClusterProfile, PartitionLimits
from jupyter_slurm.slurm.units import parse_time_s
from jupyter_slurm.wire import ClusterInfo, Partition


class Source(StrEnum):
    CLUSTER = "the cluster"
    PROFILE = "the profile"
    TEMPLATE = "the template"


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` math.inf: no limit."""

    value: float
    by: Source


@dataclass(frozen=True, slots=True)
class KnownPartition:
    """None: nobody says."""

    name: str
    limit_s: Figure | None = None
    max_nodes: Figure | None = None
    """The most nodes of one job."""
    cpus: Figure | None = None
    memory_mib: Figure | None = None
    gpus: Figure | None = None
    """These three of the largest of its nodes."""
    exclusive: bool = False
    cost: float | None = None
    """The cost of a node for an hour."""
    about: str = ""
    """Its GPUs and what it is for, as the profile tells people."""
    live: Partition | None = None
    """As the cluster tells of it."""


def known_partitions(
    profile: ClusterProfile, info: ClusterInfo | None
) -> dict[str, KnownPartition]:
    """Name -> what is known. What only the profile names is there if the cluster was not asked, or
    hides it."""
    if info is None:
        return {name: _known(name, profile, None) for name in profile.partitions}
    live = {one.name: one for one in info.partitions}
    there = [*live, *(name for name in profile.partitions if name in info.hidden)]
    return {name: _known(name, profile, live.get(name)) for name in there}


def _known(name: str, profile: ClusterProfile, live: Partition | None) -> KnownPartition:
    told = profile.partitions.get(name, PartitionLimits())

    def figure(key: str, value: float | None) -> Figure | None:
        if not value:
            return None
        by = Source.TEMPLATE if (name, key) in profile.by_template else Source.PROFILE
        return Figure(value, by)

    def first(said: float | None, key: str, value: float | None) -> Figure | None:
        if live is not None and said is not None:
            return Figure(said, Source.CLUSTER)
        return figure(key, value)

    return KnownPartition(
        name=name,
        limit_s=first(_or_no_limit(live.limit_s) if live else None, "limit", limit_s(told)),
        max_nodes=first(_least(live.max_nodes, live.nodes) if live else None, "nodes", told.nodes),
        cpus=first(live.cpus if live else None, "cpus", told.cpus),
        memory_mib=first(live.memory_mib if live else None, "memory_mib", told.memory_mib),
        gpus=first(live.gpus_per_node if live else None, "gpus", told.gpus),
        exclusive=live.exclusive or told.exclusive if live else told.exclusive,
        cost=told.cost,
        about=joined(told.gpu, told.note, between="; "),
        live=live,
    )


def limit_s(told: PartitionLimits) -> float | None:
    """Return the limit of a profile's partition; math.inf: none, None: it says nothing."""
    return _or_no_limit(parse_time_s(told.limit)) if told.limit else None


def _or_no_limit(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def _least(one: int | None, two: int) -> int:
    return two if one is None else min(one, two)


def differences(profile: ClusterProfile, info: ClusterInfo) -> Iterator[str]:
    """Yield a sentence for each difference between the profile's partitions and the cluster's."""
    live = {one.name: one for one in info.partitions}
    gone = [name for name in profile.partitions if name not in {*live, *info.hidden}]
    if gone:
        names = ", ".join(f"`{name}`" for name in gone)
        yield f"The cluster does not have what the profile names: {names}."
    for name, told in profile.partitions.items():
        if name in live:
            yield from _other(name, told, live[name])


def _other(name: str, told: PartitionLimits, now: Partition) -> Iterator[str]:
    for what, said, there in (
        ("a time limit of", _span(limit_s(told)), _span(_or_no_limit(now.limit_s))),
        ("GPUs on a node:", told.gpus, now.gpus_per_node),
        ("CPUs on a node:", told.cpus, now.cpus),
        ("nodes for a job:", told.nodes, _least(now.max_nodes, now.nodes)),
    ):
        if said and there is not None and said != there:
            yield f"`{name}` has {what} {there}, not {said}, as the profile says."
    if told.memory_mib and now.memory_mib and now.memory_mib < told.memory_mib:
        yield (
            f"`{name}` has {memory(now.memory_mib)} on a node, not {memory(told.memory_mib)}, as "
            "the profile says."
        )


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return "none" if seconds == math.inf else duration(seconds)
