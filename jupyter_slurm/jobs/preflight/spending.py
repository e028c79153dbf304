"""Resources spent by this user and their accounts, from one sacct call."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.preflight import costs
from jupyter_slurm.jobs.preflight.offers import known_partitions
from jupyter_slurm.jobs.submission.options import Resources
from jupyter_slurm.slurm import sacct
from jupyter_slurm.slurm.sacct import SpentRow
from jupyter_slurm.wire import ClusterInfo, Partition, Spending, Spent

_USUAL_S = 30 * 86_400.0
_LONGEST_S = 10 * 366 * 86_400.0


def spending(cluster: SlurmCluster, info: ClusterInfo, since_s: float | None) -> Spending:
    """Return the usage since `since_s`, by default of the last thirty days. Raises RequestError."""
    now_s = time.time()
    since_s = now_s - _USUAL_S if since_s is None else since_s
    if not now_s - _LONGEST_S <= since_s < now_s:
        raise RequestError(
            "Cannot report usage since that time.",
            hint="Use a day in the last ten years, e.g. `--since 2026-01-31`, or a duration, e.g. "
            "`--since 7d`.",
        )
    user = cluster.transport.user()
    rows = []
    if info.accounting:
        rows = sacct.parse_spent(cluster.ask(sacct.spent_argv(user, info.accounts, since_s)))
    known = known_partitions(cluster.profile, info)
    return Spending(
        cluster=cluster.name,
        since_s=since_s,
        asked_s=now_s,
        accounting=info.accounting,
        unit=cluster.profile.cost_unit,
        spent=tuple(_of_accounts(rows, user, known)),
    )


def _of_accounts(
    rows: Iterable[SpentRow], user: str, known: Mapping[str, Partition]
) -> Iterator[Spent]:
    """Yield the user's usage of each account. If other users share the account, also yield the
    usage of all users."""
    by_account: dict[str, list[SpentRow]] = defaultdict(list)
    for row in rows:
        if row.elapsed_s:
            by_account[row.account].append(row)
    for account, those in sorted(by_account.items()):
        mine = [row for row in those if row.user == user]
        yield _sum(account, user, mine, known)
        if len(mine) < len(those):
            yield _sum(account, "", those, known)


def _sum(account: str, user: str, rows: list[SpentRow], known: Mapping[str, Partition]) -> Spent:
    units = [_units(row, known.get(row.partition)) for row in rows]
    priced = [one for one in units if one is not None]
    return Spent(
        account=account,
        user=user,
        jobs=len(rows),
        cpu_hours=_hours(rows, "cpu"),
        gpu_hours=_hours(rows, "gres/gpu"),
        units=sum(priced) if priced else None,
        unpriced=len(units) - len(priced) if priced else 0,
    )


def _hours(rows: Iterable[SpentRow], tres: str) -> float:
    return sum(row.elapsed_s / 3600 * row.tres.get(tres, 0) for row in rows)


def _units(row: SpentRow, here: Partition | None) -> float | None:
    """Return the site's charge for an ended job; None if the profile does not set the partition's
    price."""
    if here is None:
        return None
    nodes = max(1, int(row.tres.get("node", 1)))
    job = Resources(
        nodes=nodes,
        cpus_per_node=math.ceil(row.tres.get("cpu", 0) / nodes),
        gpus_per_node=math.ceil(row.tres.get("gres/gpu", 0) / nodes),
        memory_per_node_mib=math.ceil(row.tres.get("mem", 0) / nodes),
    )
    return costs.units(row.elapsed_s / 3600, job, here, whole=here.exclusive)
