"""What Slurm gave a job: asked once, when it is first seen to run."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_slurm.errors import CommandError, TransportError
from jupyter_slurm.jobs.cluster import SlurmCluster
from jupyter_slurm.slurm import scontrol
from jupyter_slurm.wire import Usage


@dataclass(frozen=True, slots=True)
class Allocation:
    usage: Usage
    """What it has, not what it uses."""
    gpus: int
    stdout: str | None
    """Where Slurm writes the batch script's output."""


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
    return Allocation(usage, gpus, rows[0].stdout)
