"""What a cluster offers: partitions, QOS, accounts, reservations; asked when a person wants it.

What follows from it for a job is `limits.py`'s and `costs.py`'s; `preview.py` asks for it and
decides how long to keep it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from jupyter_slurm.errors import CommandError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.slurm import partitions, sacctmgr, scontrol, sinfo, squeue, units
from jupyter_slurm.wire import (
    Association,
    ClusterInfo,
    InUse,
    Node,
    Partition,
    Qos,
    Reservation,
)


def cluster_info(cluster: SlurmCluster) -> ClusterInfo:
    """Ask the controller four short questions; where there is accounting a fifth, and accounting
    three (two where it enforces no limits)."""
    config = scontrol.parse_config(cluster.ask(scontrol.config_argv()))
    nodes = sinfo.parse_nodes(cluster.ask(sinfo.nodes_argv()))
    settings = partitions.parse_partitions(cluster.ask(partitions.partitions_argv()))
    kept = partitions.parse_reservations(cluster.ask(partitions.reservations_argv()))
    enforced = _enforced(config)
    accounting = config.get("AccountingStorageType", "").endswith("slurmdbd")
    argv = sacctmgr.associations_argv(cluster.transport.user())
    mine = _associations(cluster, config, argv) if accounting else []
    accounts = sorted({one.account for one in mine})
    above = sacctmgr.accounts_argv(accounts) if accounts and "limits" in enforced else []
    whole = _associations(cluster, config, above) if above else []
    qos = {name for one in mine for name in one.qos}
    theirs = {one.own_qos for one in settings.values() if one.own_qos}
    # sinfo hides what is not for this user.
    shown = {node.partition for node in nodes}
    return ClusterInfo(
        name=cluster.name,
        slurm_version=config.get("SLURM_VERSION", ""),
        partitions=tuple(_partition(one, nodes) for name, one in settings.items() if name in shown),
        accounting=accounting,
        accounts=tuple(accounts),
        qos=tuple(sorted(qos)),
        qos_limits=_qos(cluster, qos | theirs) if accounting else (),
        associations=(
            *(_association(one, whole=False) for one in mine),
            *(_association(one, whole=True) for one in whole),
        ),
        in_use=_in_use(cluster) if accounting else (),
        enforced=enforced,
        max_tres="MAX_TRES" in config.get("PriorityFlags", ""),
        hidden=tuple(sorted(set(settings) - shown)),
        reservations=tuple(_reservation(one, nodes) for one in kept),
        asked_s=time.time(),
    )


class NodeList(NamedTuple):
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()


def nodes(cluster: SlurmCluster) -> NodeList:
    """Return nodes and partitions as they are now, by three short questions to the controller."""
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
    """Return one node for all its rows, which are one for each of its partitions."""
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
        qos=settings.own_qos,
        allow_qos=settings.qos,
        allow_accounts=settings.accounts,
        billing=dict(settings.weights),
    )


def gpus_by_type(nodes: Iterable[sinfo.NodeRow]) -> dict[str, tuple[int, int | None]]:
    """Count GPUs as in `Partition.gpus_by_type`: None where a node does not tell what is used.
    Those of a node that takes no jobs are not free."""
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


def _enforced(config: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is enforced by slurm.conf(5): AccountingStorageEnforce (`safe` and `limits`
    include associations, `qos` does too); nothing certain with JobSubmitPlugins."""
    if config.get("JobSubmitPlugins"):
        return ()
    words = config.get("AccountingStorageEnforce", "").replace("none", "").split(",")
    enforced = ["requests"]
    if any(words):
        enforced.append("associations")
    if "qos" in words or "all" in words:
        enforced.append("qos")
    if not {"limits", "safe", "all"}.isdisjoint(words):
        enforced.append("limits")
    return tuple(enforced)


def _associations(
    cluster: SlurmCluster, config: Mapping[str, str], argv: list[str]
) -> list[sacctmgr.Association]:
    """Return this cluster's own associations; [] where the site keeps them to itself."""
    try:
        rows = sacctmgr.parse_associations(cluster.ask(argv))
    except CommandError:
        return []
    here = config.get("ClusterName")
    return [row for row in rows if here is None or row.cluster == here]


def _association(row: sacctmgr.Association, *, whole: bool) -> Association:
    return Association(
        account=row.account,
        whole=whole,
        partition=row.partition,
        qos=row.qos,
        default_qos=row.default_qos,
        default=row.default,
        **_limits(row.allowed),
    )


def _limits(allowed: sacctmgr.Allowed) -> dict[str, Any]:
    """Return the fields of `wire.Limits`."""
    return {
        "limit_s": allowed.limit_s,
        "per_job": dict(allowed.tres_per_job),
        "per_user": dict(allowed.tres_per_user),
        "in_all": dict(allowed.tres_in_all),
        "jobs_per_user": allowed.jobs_per_user,
        "jobs_in_all": allowed.jobs_in_all,
        "queued_per_user": allowed.queued_per_user,
        "queued_in_all": allowed.queued_in_all,
    }


def _qos(cluster: SlurmCluster, names: Collection[str]) -> tuple[Qos, ...]:
    try:
        rows = sacctmgr.parse_qos(cluster.ask(sacctmgr.qos_argv())) if names else []
    except CommandError:
        return ()
    return tuple(
        Qos(
            name=row.name,
            denies=row.denies,
            over_partition=row.over_partition,
            beyond=row.beyond,
            **_limits(row.allowed),
        )
        for row in rows
        if row.name in names
    )


def _in_use(cluster: SlurmCluster) -> tuple[InUse, ...]:
    """Sum up what is in use, by QOS, account and partition."""
    try:
        rows = squeue.parse_use(cluster.ask(squeue.use_argv(cluster.transport.user())))
    except CommandError:
        return ()
    groups = {(row.qos, row.account, row.partition) for row in rows}
    return tuple(_summed(group, rows) for group in sorted(groups))


def _summed(group: tuple[str, str, str], rows: Iterable[squeue.UseRow]) -> InUse:
    members = [row for row in rows if (row.qos, row.account, row.partition) == group]
    tres: dict[str, float] = {}
    for row in members:
        for name, count in row.tres.items():
            tres[name] = tres.get(name, 0) + count
    qos, account, partition = group
    return InUse(
        qos=qos,
        account=account,
        partition=partition,
        jobs=sum(row.running for row in members),
        queued=len(members),
        tres=tres,
    )
