"""Ask a cluster for what only it knows of a job, and resolve the job with that."""

from __future__ import annotations

from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.resolved import Resolved, Site, resolved, run_by
from jupyter_slurm.wire import JobSpec


def resolve(spec: JobSpec, cluster: SlurmCluster, job_dir: JobDir | None = None) -> Resolved:
    """Resolve a job of `cluster`; `job_dir`: its folder, where it is decided already. RequestError:
    something in `spec` cannot be; NotFoundError: the cluster has no such image."""
    profile = cluster.profile.for_job(spec)
    runtime, image = run_by(spec, profile)
    file = None
    if image is not None and runtime.takes_image:
        file = cluster.find_image(image, runtime.name, runtime.fetched)
    folder = job_dir or JobDir(cluster.job_root() / spec.id)
    return resolved(spec, profile, Site(str(cluster.transport.home()), folder, file))
