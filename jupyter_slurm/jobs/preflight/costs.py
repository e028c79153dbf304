"""What a job would cost at most, and what it would meet: what is free, what is kept free. PURE.

At most: for all of its time limit. What the site charges is told by the profile (`cost`) or by the
cluster (TRESBillingWeights).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from jupyter_slurm.formatting import duration, moment
from jupyter_slurm.jobs.preflight import phrases
from jupyter_slurm.jobs.preflight.partition_facts import Figure, KnownPartition
from jupyter_slurm.jobs.preflight.resources import Resources
from jupyter_slurm.slurm.units import format_time
from jupyter_slurm.wire import Check, ClusterInfo, Cost, Partition, Reservation

_START_S = 60.0
"""Seconds that a job may take to start, if it is to end before something."""


def cost(
    job: Resources, known: KnownPartition | None, *, unit: str = "", max_tres: bool = False
) -> Cost | None:
    """Return what the job may cost; None: nobody says how long it may run."""
    span_s = limit_s(job, known)
    if span_s is None:
        return None
    here = known or KnownPartition("")
    hours = span_s / 3600 * job.tasks_of_array
    whole = job.exclusive or here.exclusive
    amounts = _amounts(job, here, whole=whole)
    billing = _billing(amounts, here, max_tres=max_tres)
    return Cost(
        limit_s=span_s,
        node_hours=hours * job.nodes if whole else None,
        cpu_hours=hours * amounts["cpu"],
        gpu_hours=hours * amounts["gres/gpu"],
        units=units(hours, job, here, whole=whole),
        unit="" if here.cost is None else unit,
        billing_hours=None if billing is None else hours * billing,
        jobs=job.tasks_of_array,
    )


def units(hours: float, job: Resources, here: KnownPartition, *, whole: bool) -> float | None:
    """Return what the site charges; None: the profile has no price."""
    share = 1.0 if whole else _share(job, here)
    return None if here.cost is None else hours * job.nodes * share * here.cost


def limit_s(job: Resources, known: KnownPartition | None) -> float | None:
    """Return how long the job may run; None: there is no limit, or nobody says."""
    default_s = known.live.default_time_s if known and known.live else None
    longest_s = known.limit_s.value if known and known.limit_s else math.inf
    wanted_s = job.limit_s if job.limit_s is not None else default_s
    span_s = min(longest_s, wanted_s) if wanted_s is not None else longest_s
    return None if span_s == math.inf else span_s


def _amounts(job: Resources, here: KnownPartition, *, whole: bool) -> dict[str, float]:
    """Return how much of each TRES it takes, memory in MiB: all of its nodes', or its wish."""

    def of_nodes(figure: Figure | None, wanted: float) -> float:
        return max(wanted, figure.value * job.nodes) if figure else wanted

    mib = (job.memory_per_node_mib or 0) * job.nodes
    amounts: dict[str, float] = {
        "node": job.nodes,
        "cpu": of_nodes(here.cpus, job.cpus) if whole else job.cpus,
        "gres/gpu": of_nodes(here.gpus, job.gpus) if whole else job.gpus,
        # --mem=0 is all of a node's memory too.
        "mem": of_nodes(here.memory_mib, mib) if whole or job.memory_per_node_mib == 0 else mib,
    }
    return amounts | {f"gres/gpu:{one.lower()}": amounts["gres/gpu"] for one in job.gpu_types[:1]}


def _share(job: Resources, here: KnownPartition) -> float:
    """Return its share of a node: the largest of its shares; 1 where none is known."""
    wanted = (
        (job.cpus_per_node, here.cpus),
        (job.gpus_per_node, here.gpus),
        (job.memory_per_node_mib or 0, here.memory_mib),
    )
    shares = [count / figure.value for count, figure in wanted if figure and figure.value]
    return min(1.0, max(shares, default=1.0))


def _billing(amounts: Mapping[str, float], here: KnownPartition, *, max_tres: bool) -> float | None:
    """Return the billing; None: the cluster weighs nothing."""
    weights = here.live.billing if here.live else {}
    if not weights:
        return None
    weighed = [weight * amounts.get(name, 0) for name, weight in weights.items()]
    return max(weighed) if max_tres else sum(weighed)


def outlook(
    job: Resources, known: KnownPartition | None, info: ClusterInfo, now_s: float
) -> Iterator[Check]:
    """Tell what is free where the job would go, and which reservations it would run into."""
    live = known.live if known else None
    if live is None:
        return
    free = _free(live, known.about if known else "", info.asked_s, now_s)
    yield Check(ok=None, sentence=free, option="partition")
    span_s = limit_s(job, known)
    for one in info.reservations:
        count = one.partitions.get(live.name, 0)
        meets = one.end_s > now_s and (span_s is None or one.start_s < now_s + span_s)
        if not count or not meets or one.name == job.reservation:
            continue
        nodes = phrases.nodes_of(live.name, count, live.nodes)
        left_s = int((one.start_s - now_s - _START_S) // 60 * 60)
        yield Check(
            ok=None,
            sentence=_reserved(one, nodes, span_s, now_s),
            hint=f"With --time {format_time(left_s)} or less it can be done before."
            if left_s > 0
            else None,
        )


def _free(live: Partition, about: str, asked_s: float, now_s: float) -> str:
    name = f"{live.name} ({about})" if about else live.name
    gpus = ""
    if live.gpus and live.free_gpus is not None:
        gpus = f", {live.free_gpus} of {live.gpus} GPUs free"
    return (
        f"{name} at {moment(asked_s, now_s)}: {live.idle_nodes} of {live.nodes} nodes idle{gpus}."
    )


def _reserved(one: Reservation, nodes: str, span_s: float | None, now_s: float) -> str:
    what = f"{'Maintenance' if one.maintenance else 'A reservation'} (`{one.name}`) keeps {nodes}"
    start, end = moment(one.start_s, now_s), moment(one.end_s, now_s)
    if one.start_s <= now_s:
        return f"{what} until {end}."
    job = f"a job of {duration(span_s)}" if span_s else "a job without a time limit"
    return f"{what} from {start} to {end}: on these {job} starts after it."
