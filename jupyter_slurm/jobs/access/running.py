"""The place of a running job: Slurm's ID and the node of its script. PURE."""

from __future__ import annotations

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Job, JobState

_RUNS = frozenset((JobState.RUNNING, JobState.UNKNOWN, JobState.STOPPED, JobState.SIGNALING))
"""An UNKNOWN job may well run: it is the cluster that does not answer."""


def place_of(job: Job) -> tuple[str, str]:
    """Return Slurm's ID and the node where the job's script runs. RequestError: it does not run."""
    if job.state.final or job.state is JobState.FINISHING:
        raise RequestError(f"Job {job.id} has ended: it is {job.state}.")
    if job.state not in _RUNS or not job.nodes or job.slurm_id is None:
        raise RequestError(
            f"Job {job.id} does not run: it is {job.state}.",
            hint=f"`%slurm why {job.id}` says what it waits for.",
        )
    return job.slurm_id, job.nodes[0]
