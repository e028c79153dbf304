"""The calls that every front end uses, as a Protocol: no code lives here.

`jobs.service.Service` is the one that does the work; `client.AgentClient` speaks the same to the
agent, which holds a Service. Magics, widgets and the command line know nothing but this.
Every call may raise a `JupyterSlurmError` (errors.py); each docstring names the particular ones.
"""

from __future__ import annotations

from typing import Protocol

from jupyter_slurm.wire import (
    AgentStatus,
    Changes,
    Check,
    Cluster,
    ClusterInfo,
    CommandOutput,
    Job,
    JobSpec,
    LogChunk,
    Preview,
    QueueEntry,
    Result,
)


class Api(Protocol):
    # --- clusters ---
    def clusters(self) -> list[Cluster]:
        """Those that the profiles name, the default first."""

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        """Partitions, accounts, QOS: asked at most every few minutes."""

    def doctor(self, cluster: str | None = None) -> list[Check]:
        """What works on this cluster and what does not, in sentences."""

    # --- jobs ---
    def submit(self, spec: JobSpec) -> Job:
        """The job, once sbatch has taken it. Calling again with the same spec is safe.

        SubmitError: sbatch refused. RequestError: it was refused here. When the cluster does not
        answer, the job comes back SUBMITTING: the agent goes on finding out.
        """

    def preview(self, spec: JobSpec) -> Preview:
        """What `submit` would send; nothing is sent."""

    def attachable(self, fingerprint: str) -> Job | None:
        """The newest job of this cell that still runs or whose outcome nobody has had."""

    def job(self, job_id: str) -> Job:
        """By our id, or by Slurm's on any cluster. NotFoundError."""

    def jobs(self, cluster: str | None = None) -> list[Job]:
        """Ours, newest first; None: of every cluster."""

    def changes(self, revision: int = 0, wait_s: float = 0.0) -> Changes:
        """Jobs that changed after `revision`; waits up to `wait_s` for the first."""

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
    ) -> LogChunk:
        """Output after `cursor`; waits up to `wait_s` for output, a change of the job or its end.

        About `budget_bytes` of stream text come back, the newest; what is older is skipped and
        counted. Displays and errors are never skipped. None: nothing is skipped, and what there
        is comes in pages of about a megabyte: call again with the new cursor until `end`, or
        until a page is empty.
        """

    def result(self, job_id: str) -> Result:
        """How a job that has ended did so. JobLostError, SignatureError."""

    def delivered(self, job_id: str) -> Job:
        """Notes that a front end has given the outcome to its user."""

    def cancel(self, job_id: str) -> Job: ...

    def hold(self, job_id: str) -> Job: ...

    def release(self, job_id: str) -> Job: ...

    def requeue(self, job_id: str) -> Job: ...

    def why(self, job_id: str) -> Job:
        """The job, Slurm asked anew for its reason and expected start."""

    def forget(self, job_id: str) -> None:
        """Removes a job that has ended, or whose cluster is no more: its record here and its job
        dir there."""

    # --- the queue ---
    def queue(self, cluster: str | None = None) -> list[QueueEntry]:
        """Everybody's jobs, as Slurm lists them."""

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        """Runs one of Slurm's own commands (squeue, sinfo, sacct, scancel …) as written."""

    # --- the agent ---
    def status(self) -> AgentStatus: ...
