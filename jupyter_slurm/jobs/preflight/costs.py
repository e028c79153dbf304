"""The cost of a job that runs until its time limit. No I/O."""

from __future__ import annotations

import math

from jupyter_slurm.jobs.submission.options import Resources
from jupyter_slurm.wire import Cost, Partition


def cost(job: Resources, partition: Partition | None, unit: str = "") -> Cost | None:
    """Return the job's cost in the partition; None if the time limit is unknown or unlimited."""
    span_s = _limit_s(job, partition)
    if span_s is None:
        return None
    hours = span_s / 3600 * job.tasks_of_array
    whole = job.exclusive or (partition is not None and partition.exclusive)
    cpus, gpus = job.cpus, job.gpus
    if whole and partition is not None:
        cpus = max(cpus, (partition.cpus or 0) * job.nodes)
        gpus = max(gpus, partition.gpus_per_node * job.nodes)
    charged = units(hours, job, partition, whole=whole)
    return Cost(
        limit_s=span_s,
        node_hours=hours * job.nodes if whole else None,
        cpu_hours=hours * cpus,
        gpu_hours=hours * gpus,
        units=charged,
        unit="" if charged is None else unit,
        jobs=job.tasks_of_array,
    )


def units(
    hours: float, job: Resources, partition: Partition | None, *, whole: bool
) -> float | None:
    """Return the site's charge; None if the profile does not set the partition's price."""
    if partition is None or partition.cost is None:
        return None
    return hours * job.nodes * (1.0 if whole else _share(job, partition)) * partition.cost


def _limit_s(job: Resources, partition: Partition | None) -> float | None:
    """Return the time limit; None if unknown or unlimited."""
    usual_s = partition.default_time_s if partition else None
    wanted_s = job.limit_s if job.limit_s is not None else usual_s
    spans = (wanted_s, partition.limit_s if partition else None)
    return min((one for one in spans if one is not None and one != math.inf), default=None)


def _share(job: Resources, partition: Partition) -> float:
    """Return the largest share of a node that the job's resources take; 1 if unknown."""
    wanted = (
        (job.cpus_per_node, partition.cpus),
        (job.gpus_per_node, partition.gpus_per_node),
        (job.memory_per_node_mib or 0, partition.memory_mib),
    )
    return min(1.0, max((count / there for count, there in wanted if there), default=1.0))
