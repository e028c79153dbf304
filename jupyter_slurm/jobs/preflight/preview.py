"""The preview of a job, with script and files, the checks of a submission, the cost, the
partition's maxima and Slurm's own estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError, RequestError
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.preflight import checks, costs, offers, spending
from jupyter_slurm.jobs.preflight.estimates import Estimates, Outlook
from jupyter_slurm.jobs.submission.options import resources_of
from jupyter_slurm.jobs.submission.prepare import prepare
from jupyter_slurm.jobs.submission.resolve import Resolved
from jupyter_slurm.slurm.units import indices
from jupyter_slurm.wire import (
    Check,
    ClusterInfo,
    Job,
    JobSpec,
    Preview,
    Spending,
    SweepSpec,
)

_INFO_KEPT_S = 30.0
"""Seconds to cache a cluster's info."""


class Preflight:
    def __init__(self, clusters: Clusters, jobs: Callable[[str | None], list[Job]]) -> None:
        """`jobs` returns a cluster's jobs, each with the Python version that it reported."""
        self._clusters = clusters
        self._jobs = jobs
        self._infos: dict[str, ClusterInfo] = {}
        self._estimates = Estimates()

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        """Return the cluster's info, cached for half a minute."""
        known = self._clusters.named(cluster)
        info = self._infos.get(known.name)
        if info is None or time.time() - info.asked_s > _INFO_KEPT_S:
            info = self._infos[known.name] = offers.cluster_info(known)
        return offers.priced(info, known.profile)

    def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
        """Return the usage of this user and their accounts; see `Api.spending`."""
        known = self._clusters.named(cluster)
        return spending.spending(known, self.cluster_info(known.name), since_s)

    def preview(self, job: Resolved, cluster: SlurmCluster) -> Preview:
        submission = prepare(job)
        wanted = resources_of(job.effective_options)
        if isinstance(job.spec, SweepSpec):
            wanted = replace(wanted, tasks_of_array=len(indices(job.spec.tasks)))
        info, found = self._looked(cluster)
        partition = offers.partition(cluster.profile, info, wanted.partitions)
        found += _interpreter(job, cluster)
        if partition is not None and len(wanted.partitions) <= 1:
            found += checks.check_maxima(wanted, partition)
        found += checks.found(job, cluster, self._jobs)
        outlook = Outlook()
        # sbatch does not detect these errors, and may estimate a start nevertheless.
        has_errors = any(one.ok is False for one in found)
        if info is not None and not job.spec.on_login and not has_errors:
            outlook = self._estimates.ask(cluster, submission)
        return Preview(
            cluster=cluster.name,
            script=submission.script,
            sbatch=submission.sbatch,
            job_dir=str(job.job_dir.path),
            files=tuple(submission.files),
            variables=submission.variables,
            cost=costs.cost(wanted, partition, cluster.profile.cost_unit),
            checks=(*found, *outlook.checks),
            start_estimate_s=outlook.start_s,
        )

    def _looked(self, cluster: SlurmCluster) -> tuple[ClusterInfo | None, list[Check]]:
        """Return the cluster's info, or None and a check that explains the failure. Raises
        LoginNeededError."""
        try:
            return self.cluster_info(cluster.name), []
        except LoginNeededError:
            raise
        except JupyterSlurmError as exc:
            unknown = f"Cannot ask the cluster: {exc.message}"
            return None, [Check(ok=None, sentence=unknown, hint=exc.hint)]


def check_previewable(spec: JobSpec) -> None:
    """Raise RequestError for a session's cell, which is not submitted to Slurm."""
    if spec.session is not None:
        raise RequestError(
            "A session's cell is not a Slurm job and cannot be previewed.",
            hint="Preview the session with `%slurm session start … --dry-run`.",
        )


def _interpreter(job: Resolved, cluster: SlurmCluster) -> list[Check]:
    """Return a check that names the environment or the Python of a job without an image; [] for any
    other job."""
    environment = job.site.environment
    if environment is not None:
        is_there = cluster.transport.exists(PurePosixPath(environment.record))
        first = "" if is_there else " after its packages are installed"
        sentence = f"The job runs in the environment {environment.id}{first}."
        return [Check(ok=None, sentence=sentence)]
    if not job.kind.uses_runner or job.in_image:
        return []
    sentence = f"Without an image the cell runs in the node's `{job.profile.python}`."
    hint = (
        "To use another Python, set `python` in the cluster's profile, or load a module (--module)."
    )
    return [Check(ok=None, sentence=sentence, hint=hint)]
