"""Ask a cluster for what only it knows of a job, and resolve the job with that."""

from __future__ import annotations

from jupyter_slurm import containers
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.resolved import Resolved, Site, image_of, resolved, runtime_of
from jupyter_slurm.wire import JobSpec


def resolve(spec: JobSpec, cluster: SlurmCluster, job_dir: JobDir | None = None) -> Resolved:
    """Resolve a job of `cluster`; `job_dir`: its folder, where it is decided already. RequestError:
    something in `spec` cannot be; NotFoundError: the cluster has no such image."""
    return resolved(spec, cluster.profile, site_of(spec, cluster, job_dir))


def site_of(spec: JobSpec, cluster: SlurmCluster, job_dir: JobDir | None = None) -> Site:
    """Ask the cluster for the home, the job's folder and its image. NotFoundError: the cluster does
    not have the image. RequestError: the runtime does not exist."""
    profile = cluster.profile.for_job(spec)
    runtime = containers.runtime_named(runtime_of(spec, profile))
    image = image_of(spec, profile)
    file = None
    if image is not None and runtime.takes_image:
        file = cluster.find_image(image, runtime.name, runtime.fetched)
    folder = job_dir or JobDir(cluster.job_root() / spec.id)
    return Site(str(cluster.transport.home()), folder, file)
