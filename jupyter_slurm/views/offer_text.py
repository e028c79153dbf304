"""PURE: what a cluster offers, as people look at it before they choose (`info`): rows and lines.

For notebook and terminal alike; what is free is as of when it was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jupyter_slurm.formatting import counted, duration, memory, moment
from jupyter_slurm.wire import Association, ClusterInfo, Limits, Partition

HEAD = ("Partition", "Time limit", "Nodes idle", "GPUs free", "A node has", "Cost", "Note")

SHORT: Mapping[str, str] = {"cpu": "CPU", "gres/gpu": "GPU", "node": "node"}


def rows(info: ClusterInfo) -> list[tuple[str, ...]]:
    """Return a row under HEAD for each partition."""
    return [_row(one, info) for one in info.partitions]


def fitted(info: ClusterInfo, width: int) -> Sequence[tuple[str, ...]]:
    """Return the rows as lines for a narrow terminal: a partition, then what it has."""
    lines = []
    for row in rows(info):
        told = [f"{what}: {value}" for what, value in zip(HEAD[1:], row[1:], strict=True) if value]
        lines.append((row[0], *told))
    return [tuple(_wrapped(one, width)) for one in lines]


def lines(info: ClusterInfo, now_s: float) -> Iterator[str]:
    """Yield what is not of one partition: versions, what is mine, what is kept for others."""
    yield (
        f"{info.name} at {moment(info.asked_s, now_s)}: Slurm {info.slurm_version}, "
        f"{'with' if info.accounting else 'without'} accounting."
    )
    if info.accounts:
        default = {one.account for one in info.associations if one.default}
        yield f"Your accounts: {_names(info.accounts, default)}."
    if info.qos:
        default = {one.default_qos for one in info.associations if one.default_qos}
        yield f"Your QOS: {_names(info.qos, default)}."
    if "limits" in info.enforced:
        for qos in info.qos_limits:
            if told := limits_text(qos):
                yield f"QOS {qos.name}: {told}."
        for one in info.associations:
            if told := limits_text(one):
                yield f"{_whose(one)}: {told}."
    yield from _what_is_had(info)
    yield from _what_is_kept(info, now_s)


def _what_is_had(info: ClusterInfo) -> Iterator[str]:
    for use in info.in_use:
        gpus = use.tres.get("gres/gpu", 0)
        has = f", {counted(round(gpus), 'GPU')}" if gpus else ""
        yield (
            f"You have {use.jobs} running and {use.queued - use.jobs} waiting in {use.partition} "
            f"(QOS {use.qos}){has}."
        )


def _what_is_kept(info: ClusterInfo, now_s: float) -> Iterator[str]:
    for kept in info.reservations:
        if kept.end_s > now_s:
            where = ", ".join(f"{count} of {name}" for name, count in kept.partitions.items())
            yield (
                f"{'Maintenance' if kept.maintenance else 'Reserved'} (`{kept.name}`), "
                f"{moment(kept.start_s, now_s)} to {moment(kept.end_s, now_s)}: {where or '0'} "
                "nodes."
            )


def limits_text(limits: Limits) -> str:
    """Say in short what it allows.

    >>> limits_text(Limits(limit_s=3600, per_user={"gres/gpu": 2}, jobs_per_user=3))
    'a job 1 h; a user 2 GPU, 3 running jobs'
    """
    job = [duration(limits.limit_s)] if limits.limit_s is not None else []
    parts = {
        "a job": job + _amounts(limits.per_job),
        "a user": _amounts(limits.per_user)
        + _running(limits.jobs_per_user)
        + _queued(limits.queued_per_user),
        "in all": _amounts(limits.in_all)
        + _running(limits.jobs_in_all)
        + _queued(limits.queued_in_all),
    }
    return "; ".join(f"{who} {', '.join(what)}" for who, what in parts.items() if what)


def _row(one: Partition, info: ClusterInfo) -> tuple[str, ...]:
    down = "" if one.up else ", down"
    return (
        (f"{one.name} (default)" if one.default else one.name) + down,
        "none" if one.limit_s is None else duration(one.limit_s),
        f"{one.idle_nodes} of {one.nodes}",
        _gpus(one),
        _node(one),
        _cost(one, info),
        "; ".join(filter(None, (one.about, _only(one)))),
    )


def _gpus(one: Partition) -> str:
    """Return `a100 3 of 8, v100 0 of 4`."""
    kinds = one.gpus_by_type or ({"": (one.gpus, one.free_gpus)} if one.gpus else {})
    told = {
        kind: total if free is None else f"{free} of {total}"
        for kind, (total, free) in kinds.items()
    }
    return ", ".join(f"{kind} {count}".strip() for kind, count in told.items())


def _node(one: Partition) -> str:
    has = [counted(one.cpus, "CPU")] if one.cpus else []
    has += [memory(one.memory_mib)] if one.memory_mib else []
    has += [counted(round(one.gpus_per_node), "GPU")] if one.gpus_per_node else []
    return ", ".join(has)


def _cost(one: Partition, info: ClusterInfo) -> str:
    """Say what an hour costs by the profile, and by Slurm."""
    told = []
    if one.cost is not None:
        told.append(f"{f'{one.cost:g} {info.cost_unit}'.rstrip()} a node")
    weights = (
        f"{weight * 1024:g} a GiB" if name == "mem" else f"{weight:g} a {_resource(name)}"
        for name, weight in one.billing.items()
    )
    if billing := ", ".join(weights):
        most = " (the most of these)" if info.max_tres else ""
        told.append(f"billing {billing}{most}")
    return "; ".join(told)


def _only(one: Partition) -> str:
    """Say whom the partition is for."""
    told = ["whole nodes"] if one.exclusive else []
    if one.allow_qos:
        told.append(f"QOS {', '.join(one.allow_qos)} only")
    if one.allow_accounts:
        told.append(f"accounts {', '.join(one.allow_accounts)} only")
    return "; ".join(told)


def _names(names: Sequence[str], default: set[str]) -> str:
    return ", ".join(f"{name} (default)" if name in default else name for name in names)


def _whose(one: Association) -> str:
    where = f" in {one.partition}" if one.partition else ""
    return f"{'Account' if one.whole else 'You with account'} {one.account}{where}"


def _amounts(tres: Mapping[str, float]) -> list[str]:
    return [
        f"{memory(count)} of memory" if name == "mem" else f"{count:.0f} {_resource(name)}"
        for name, count in tres.items()
    ]


def _resource(name: str) -> str:
    return SHORT.get(name, name)


def _running(count: int | None) -> list[str]:
    return [] if count is None else [counted(count, "running job")]


def _queued(count: int | None) -> list[str]:
    return [] if count is None else [counted(count, "queued job")]


def _wrapped(parts: Sequence[str], width: int) -> Iterator[str]:
    """Yield the first part at the margin, the rest behind it, as many to a line as fit."""
    head, *rest = parts
    yield head
    line = ""
    for part in rest:
        longer = f"{line}; {part}" if line else f"    {part}"
        if line and len(longer) > width:
            yield line
            longer = f"    {part}"
        line = longer
    if line:
        yield line
