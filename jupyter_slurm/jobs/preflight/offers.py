"""A cluster's partitions, accounts, QOS, nodes and reservations, read only on a user's request."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from jupyter_slurm.errors import CommandError
from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.profiles.profile import ClusterProfile, PartitionLimits
from jupyter_slurm.slurm import partitions, sacctmgr, scontrol, sinfo, units
from jupyter_slurm.wire import ClusterInfo, Node, Partition, Reservation


def cluster_info(cluster: SlurmCluster) -> ClusterInfo:
    """Return the cluster's info from four short requests to the controller and, if the site uses
    accounting, one to slurmdbd."""
    config = scontrol.parse_config(cluster.ask(scontrol.config_argv()))
    nodes = sinfo.parse_nodes(cluster.ask(sinfo.nodes_argv()))
    settings = partitions.parse_partitions(cluster.ask(partitions.partitions_argv()))
    kept = partitions.parse_reservations(cluster.ask(partitions.reservations_argv()))
    accounting = config.get("AccountingStorageType", "").endswith("slurmdbd")
    mine = _associations(cluster, config) if accounting else []
    # sinfo omits partitions that are hidden from this user.
    shown = {node.partition for node in nodes}
    return ClusterInfo(
        name=cluster.name,
        slurm_version=config.get("SLURM_VERSION", ""),
        partitions=tuple(_partition(one, nodes) for name, one in settings.items() if name in shown),
        accounting=accounting,
        accounts=tuple(sorted({one.account for one in mine})),
        qos=tuple(sorted({name for one in mine for name in one.qos})),
        hidden=tuple(sorted(set(settings) - shown)),
        reservations=tuple(_reservation(one, nodes) for one in kept),
        asked_s=time.time(),
    )


def priced(info: ClusterInfo, profile: ClusterProfile) -> ClusterInfo:
    """Add the profile's prices, notes and `exclusive` to the partitions. If Slurm does not report
    accounts or QOS, also add the accounts or QOS from the profile."""
    found = []
    for one in info.partitions:
        told = profile.partitions.get(one.name, PartitionLimits())
        found.append(
            replace(
                one,
                exclusive=one.exclusive or told.exclusive,
                cost=told.cost,
                about=_about(told),
            )
        )
    return replace(
        info,
        partitions=tuple(found),
        accounts=info.accounts or profile.accounts,
        qos=info.qos or profile.qos,
        cost_unit=profile.cost_unit,
    )


def known_partitions(profile: ClusterProfile, info: ClusterInfo | None) -> dict[str, Partition]:
    """Return partitions by name. Without `info`, use the profile alone. For partitions that Slurm
    hides from this user, also use the profile."""
    named = {
        name: _of_profile(name, told)
        for name, told in profile.partitions.items()
        if info is None or name in info.hidden
    }
    return named | {one.name: one for one in (info.partitions if info else ())}


def partition(
    profile: ClusterProfile, info: ClusterInfo | None, names: Sequence[str]
) -> Partition | None:
    """Return the first known partition of `names`, or the default partition if `names` is empty;
    None if the partition is unknown."""
    known = known_partitions(profile, info)
    wanted = names or [one.name for one in known.values() if one.default]
    return next((known[name] for name in wanted if name in known), None)


def _of_profile(name: str, told: PartitionLimits) -> Partition:
    return Partition(
        name=name,
        default=False,
        up=True,
        limit_s=units.parse_time_s(told.limit) if told.limit else None,
        nodes=0,
        idle_nodes=0,
        cpus=told.cpus or None,
        memory_mib=told.memory_mib or None,
        max_nodes=told.nodes or None,
        gpus_per_node=told.gpus,
        exclusive=told.exclusive,
        cost=told.cost,
        about=_about(told),
    )


def _about(told: PartitionLimits) -> str:
    return joined(told.gpu, told.note, between="; ")


class NodeList(NamedTuple):
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()


def nodes(cluster: SlurmCluster) -> NodeList:
    """Return the current nodes, partitions and reservations from three short requests to the
    controller."""
    rows = sinfo.parse_nodes(cluster.ask(sinfo.nodes_argv()))
    settings = partitions.parse_partitions(cluster.ask(partitions.partitions_argv()))
    kept = partitions.parse_reservations(cluster.ask(partitions.reservations_argv()))
    shown = {row.partition for row in rows}
    return NodeList(
        nodes=_nodes(rows),
        partitions=tuple(_partition(one, rows) for name, one in settings.items() if name in shown),
        reservations=tuple(_reservation(one, rows) for one in kept),
    )


def _nodes(rows: list[sinfo.NodeRow]) -> tuple[Node, ...]:
    """Merge the rows of each node. A node has one row per partition."""
    by_name: dict[str, list[sinfo.NodeRow]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    return tuple(_node(same) for same in by_name.values())


def _node(rows: list[sinfo.NodeRow]) -> Node:
    row = rows[0]
    return Node(
        name=row.name,
        state=row.state + row.marks,
        partitions=tuple(dict.fromkeys(one.partition for one in rows if one.partition)),
        cpus=row.cpus,
        cpus_used=row.cpus_allocated,
        memory_mib=row.memory_mib,
        memory_free_mib=row.memory_free_mib,
        load=row.cpu_load,
        gpus=row.gpus,
        gpus_used=row.gpus_used,
        gpu_type=", ".join(name for name in gpus_by_type([row]) if name) or None,
        features=",".join(row.features) or None,
        reason=row.reason,
    )


def _partition(settings: partitions.PartitionSettings, nodes: list[sinfo.NodeRow]) -> Partition:
    members = [node for node in nodes if node.partition == settings.name]
    types = gpus_by_type(members)
    free = [count for _, count in types.values()]
    return Partition(
        name=settings.name,
        default=settings.default,
        up=settings.up,
        limit_s=settings.limit_s,
        nodes=len(members),
        idle_nodes=sum(_is_idle(node) for node in members),
        gpu_types=tuple(sorted(name for name in types if name)),
        gpus_by_type=types,
        gpus=sum(node.gpus for node in members),
        free_gpus=None if None in free else sum(count or 0 for count in free),
        cpus=max((node.cpus for node in members), default=None),
        memory_mib=max((node.memory_mib or 0 for node in members), default=0) or None,
        gpus_per_node=max((node.gpus for node in members), default=0),
        default_time_s=settings.default_time_s,
        max_nodes=settings.max_nodes,
        exclusive=settings.exclusive,
        allow_qos=settings.qos,
        allow_accounts=settings.accounts,
    )


def gpus_by_type(nodes: Iterable[sinfo.NodeRow]) -> dict[str, tuple[int, int | None]]:
    """Return the total and free GPUs of each type (see `Partition.gpus_by_type`). The free GPUs are
    None if a node does not report its used GPUs. GPUs of nodes that do not accept jobs are not
    free."""
    found: dict[str, tuple[int, int | None]] = {}
    for node in nodes:
        used = units.gpus_by_type(node.gres_used or "")
        for kind, count in units.gpus_by_type(node.gres or "").items():
            total, free = found.get(kind, (0, 0))
            told = free is not None and node.gpus_used is not None
            here = count - used.get(kind, 0) if node.takes_jobs else 0
            now_free = (free or 0) + here if told else None
            found[kind] = (total + count, now_free)
    return dict(sorted(found.items()))


def _is_idle(node: sinfo.NodeRow) -> bool:
    return node.state in ("idle", "planned") and node.takes_jobs


def _reservation(row: partitions.Reservation, nodes: list[sinfo.NodeRow]) -> Reservation:
    kept = set(row.nodes)
    return Reservation(
        name=row.name,
        start_s=row.start_s,
        end_s=row.end_s,
        maintenance=row.maintenance,
        partitions=dict(Counter(node.partition for node in nodes if node.name in kept)),
    )


def _associations(cluster: SlurmCluster, config: Mapping[str, str]) -> list[sacctmgr.Association]:
    """Return the associations of this cluster; [] if the site hides them."""
    try:
        argv = sacctmgr.associations_argv(cluster.transport.user())
        rows = sacctmgr.parse_associations(cluster.ask(argv))
    except CommandError:
        return []
    here = config.get("ClusterName")
    return [row for row in rows if here is None or row.cluster == here]
