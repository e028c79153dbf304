"""What a cluster's queue and nodes look like now: asked when a person looks, never by a timer."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Literal

from jupyter_slurm.errors import CommandError, RequestError
from jupyter_slurm.jobs.cluster import SlurmCluster
from jupyter_slurm.slurm import partitions, reasons, sacctmgr, scontrol, sinfo, squeue
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.slurm.units import gpus_in_tres
from jupyter_slurm.wire import (
    ClusterInfo,
    CommandOutput,
    Partition,
    Qos,
    QueueEntry,
    Reservation,
)

Verb = Literal["hold", "release", "requeue"]

INFO_KEPT_S = 300.0
ASK_WAIT_S = 5.0
_COMMANDS = (
    "squeue sinfo sacct scancel scontrol sprio sreport sshare sacctmgr sdiag sstat sbatch".split()
)


def entries(cluster: SlurmCluster, ours: Mapping[str, str]) -> list[QueueEntry]:
    """Everybody's jobs. `ours`: Slurm's id -> our id."""
    rows = squeue.parse(cluster.ask(squeue.all_argv()))
    return [_entry(row, ours) for row in rows]


def _entry(row: squeue.QueueRow, ours: Mapping[str, str]) -> QueueEntry:
    waits = row.state == "PENDING" and row.reason not in (None, "", "None")
    return QueueEntry(
        slurm_id=row.slurm_id,
        state=row.state,
        name=row.name or "",
        user=row.user or "",
        partition=row.partition or "",
        reason=row.reason if waits else None,
        why=reasons.explain(row.reason or "").sentence if waits else None,
        nodes=row.nodelist,
        gpus=gpus_in_tres(row.gres or "") * (row.node_count or 1),
        submitted_s=row.submit_s,
        started_s=row.start_s if not waits else None,
        start_estimate_s=row.start_s if waits else None,
        elapsed_s=row.elapsed_s,
        limit_s=int(row.limit_s) if row.limit_s is not None else None,
        id=ours.get(row.slurm_id) or ours.get(row.array_job_id or ""),
    )


def cluster_info(cluster: SlurmCluster) -> ClusterInfo:
    """Five short questions to the controller, and two to accounting where there is one."""
    config = scontrol.parse_config(cluster.ask(scontrol.config_argv()))
    shown = sinfo.parse_partitions(cluster.ask(sinfo.partitions_argv()))
    nodes = sinfo.parse_nodes(cluster.ask(sinfo.nodes_argv()))
    settings = partitions.parse_partitions(cluster.ask(partitions.partitions_argv()))
    kept = partitions.parse_reservations(cluster.ask(partitions.reservations_argv()))
    accounting = config.get("AccountingStorageType", "").endswith("slurmdbd")
    accounts, qos = _associations(cluster) if accounting else (set(), set())
    return ClusterInfo(
        name=cluster.name,
        slurm_version=config.get("SLURM_VERSION", ""),
        partitions=tuple(_partition(row, nodes, settings.get(row.name)) for row in shown),
        accounting=accounting,
        accounts=tuple(sorted(accounts)),
        qos=tuple(sorted(qos)),
        qos_limits=_qos(cluster, qos),
        enforced=_enforced(config),
        max_tres="MAX_TRES" in config.get("PriorityFlags", ""),
        hidden=tuple(sorted(set(settings) - {row.name for row in shown})),
        reservations=tuple(_reservation(one, nodes) for one in kept),
        asked_s=time.time(),
    )


def _partition(
    row: sinfo.PartitionRow,
    nodes: list[sinfo.NodeRow],
    settings: partitions.PartitionSettings | None,
) -> Partition:
    members = [node for node in nodes if node.partition == row.name]
    types = {
        word.split(":")[1]
        for node in members
        for word in (node.gres or "").split(",")
        if word.startswith("gpu:") and word.count(":") >= 2
    }
    used = [node.gpus_used for node in members]
    total = sum(node.gpus for node in members)
    return Partition(
        name=row.name,
        default=row.is_default,
        up=row.is_up,
        limit_s=row.limit_s,
        nodes=row.nodes,
        idle_nodes=row.nodes_idle,
        gpu_types=tuple(sorted(types)),
        gpus=total,
        free_gpus=None if None in used else total - sum(count or 0 for count in used),
        cpus=max((node.cpus for node in members), default=None),
        memory_mib=max((node.memory_mib or 0 for node in members), default=0) or None,
        gpus_per_node=max((node.gpus for node in members), default=0),
        default_time_s=row.default_time_s,
        max_nodes=settings.max_nodes if settings else None,
        exclusive=settings.exclusive if settings else False,
        allow_qos=settings.qos if settings else (),
        allow_accounts=settings.accounts if settings else (),
        billing=dict(settings.weights) if settings else {},
    )


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
    """slurm.conf(5): EnforcePartLimits, AccountingStorageEnforce (`safe` and `limits` include
    associations, `qos` does too), JobSubmitPlugins."""
    if config.get("JobSubmitPlugins"):
        return ()
    words = config.get("AccountingStorageEnforce", "").replace("none", "").split(",")
    enforced = ["requests"]
    if config.get("EnforcePartLimits", "NO").upper() != "NO":
        enforced.append("partitions")
    if any(words):
        enforced.append("associations")
    if "qos" in words or "all" in words:
        enforced.append("qos")
    if not {"limits", "safe", "all"}.isdisjoint(words):
        enforced.append("limits")
    return tuple(enforced)


def _associations(cluster: SlurmCluster) -> tuple[set[str], set[str]]:
    """Accounts and QOS that this user may use; empty where the site keeps them to itself."""
    try:
        output = cluster.ask(sacctmgr.associations_argv(cluster.transport.user()))
    except CommandError:
        return set(), set()
    rows = sacctmgr.parse_associations(output)
    return {row.account for row in rows}, {name for row in rows for name in row.qos}


def _qos(cluster: SlurmCluster, names: Collection[str]) -> tuple[Qos, ...]:
    """What these allow one job, which can have no more than all of its user's."""
    try:
        rows = sacctmgr.parse_qos(cluster.ask(sacctmgr.qos_argv())) if names else []
    except CommandError:
        return ()
    return tuple(
        Qos(
            name=row.name,
            limit_s=row.limit_s,
            most={
                tres: min(per.get(tres, math.inf) for per in (row.tres_per_job, row.tres_per_user))
                for tres in {**row.tres_per_job, **row.tres_per_user}
            },
            denies=row.denies,
        )
        for row in rows
        if row.name in names
    )


def command(cluster: SlurmCluster, argv: list[str]) -> CommandOutput:
    """Runs a Slurm command as written. RequestError: it is none of Slurm's."""
    if not argv or argv[0] not in _COMMANDS:
        word = argv[0] if argv else ""
        near = suggest(word, _COMMANDS)
        raise RequestError(
            f"{word!r} is not one of Slurm's commands that can be run from here.",
            hint=f"Did you mean `{near}`?" if near else f"There are: {', '.join(_COMMANDS)}.",
        )
    if not cluster.profile.allow_commands:
        raise RequestError(
            f"The profile of {cluster.name} does not allow Slurm's own commands.",
            hint=f"`allow_commands = true` in {cluster.profile.origin} does.",
        )
    done = cluster.run_as_written(argv)
    return CommandOutput(
        argv=tuple(argv),
        returncode=done.returncode,
        stdout=done.stdout.decode(errors="replace"),
        stderr=done.stderr.decode(errors="replace"),
    )
