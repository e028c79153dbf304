"""What Slurm gave a job, asked when it is first seen to run; and, with accounting, what it used."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_slurm.errors import CommandError, TransportError
from jupyter_slurm.jobs.array_tasks import pattern
from jupyter_slurm.jobs.cluster import SlurmCluster
from jupyter_slurm.slurm import sacct, scontrol
from jupyter_slurm.wire import Usage


@dataclass(frozen=True, slots=True)
class Allocation:
    usage: Usage
    """What it has, not what it uses."""
    gpus: int
    stdout: str | None
    """Where Slurm writes the batch script's output."""
    task_stdout: str | None = None
    """Of an array, where its tasks do (`array_tasks.pattern`)."""
    no_requeue: str | None = None
    """As `Job.no_requeue`."""


def ask_allocation(cluster: SlurmCluster, slurm_id: str) -> Allocation | None:
    """None: it cannot be told now."""
    try:
        rows = scontrol.parse_jobs(cluster.ask(scontrol.job_argv(slurm_id)))
    except (CommandError, TransportError):
        return None
    if not rows:
        return None
    gpus = int(rows[0].tres.get("gres/gpu", 0))
    usage = Usage(cpus=rows[0].cpus, memory_mib=rows[0].tres.get("mem") or None, gpus=gpus)
    return Allocation(usage, gpus, rows[0].stdout, pattern(rows), rows[0].no_requeue)


def ask_usage(cluster: SlurmCluster, slurm_id: str) -> Usage | None:
    """What accounting knows of a job that has ended; None: nothing yet.

    CommandError: there is no accounting, or it does not answer.
    """
    used = sacct.summarise(sacct.parse(cluster.ask(sacct.argv([slurm_id]))))
    if used is None or used.peak_memory_mib is None:
        return None
    held_s = used.elapsed_s * used.cpus
    return Usage(
        elapsed_s=used.elapsed_s,
        cpu_s=used.cpu_efficiency * held_s if used.cpu_efficiency is not None else None,
        cpus=used.cpus,
        peak_memory_mib=used.peak_memory_mib,
        memory_mib=used.requested_memory_mib,
        gpus=used.gpus,
    )
