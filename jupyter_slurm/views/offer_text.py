"""Rows and lines for `info`: a cluster's partitions, accounts, QOS and reservations. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jupyter_slurm.formatting import counted, duration, memory, moment
from jupyter_slurm.wire import ClusterInfo, Partition

HEAD = ("Partition", "Time limit", "Nodes idle", "GPUs free", "A node has", "Cost per hour", "Note")


def rows(info: ClusterInfo) -> list[tuple[str, ...]]:
    """Return a row under HEAD for each partition."""
    return [_row(one, info) for one in info.partitions]


def fitted(info: ClusterInfo, width: int) -> Sequence[tuple[str, ...]]:
    """Return each row as lines for a narrow terminal."""
    lines = []
    for row in rows(info):
        told = [f"{what}: {value}" for what, value in zip(HEAD[1:], row[1:], strict=True) if value]
        lines.append((row[0], *told))
    return [tuple(_wrapped(one, width)) for one in lines]


def lines(info: ClusterInfo, now_s: float) -> Iterator[str]:
    """Yield Slurm's version, the user's accounts and QOS, and reservations."""
    yield (
        f"{info.name} at {moment(info.asked_s, now_s)}: Slurm {info.slurm_version}, "
        f"{'with' if info.accounting else 'without'} accounting."
    )
    if info.accounts:
        yield f"Your accounts: {', '.join(info.accounts)}."
    if info.qos:
        yield f"Your QOS: {', '.join(info.qos)}."
    for kept in info.reservations:
        if kept.end_s > now_s:
            where = ", ".join(f"{count} of {name}" for name, count in kept.partitions.items())
            yield (
                f"{'Maintenance' if kept.maintenance else 'Reserved'} (`{kept.name}`), "
                f"{moment(kept.start_s, now_s)} to {moment(kept.end_s, now_s)}: {where or '0'} "
                "nodes."
            )


def _row(one: Partition, info: ClusterInfo) -> tuple[str, ...]:
    down = "" if one.up else ", down"
    return (
        (f"{one.name} (default)" if one.default else one.name) + down,
        "none" if one.limit_s is None else duration(one.limit_s),
        f"{one.idle_nodes} of {one.nodes}",
        _gpus(one),
        _node(one),
        "" if one.cost is None else f"{one.cost:g} {info.cost_unit}".rstrip() + " a node",
        "; ".join(filter(None, (one.about, _only(one)))),
    )


def _gpus(one: Partition) -> str:
    """Return the free and all GPUs of each type: `a100 3 of 8, v100 0 of 4`."""
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


def _only(one: Partition) -> str:
    """Return the partition's restrictions: whole nodes, and the allowed QOS and accounts."""
    told = ["whole nodes"] if one.exclusive else []
    if one.allow_qos:
        told.append(f"QOS {', '.join(one.allow_qos)} only")
    if one.allow_accounts:
        told.append(f"accounts {', '.join(one.allow_accounts)} only")
    return "; ".join(told)


def _wrapped(parts: Sequence[str], width: int) -> Iterator[str]:
    """Yield the first part, then the others indented, filling each line."""
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
