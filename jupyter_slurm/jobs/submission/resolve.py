"""Resolve a job with facts of the cluster and of our records."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.jobs.cluster.environment_script import planned
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission.resolved import (
    Resolved,
    Site,
    resolved,
    run_by,
)
from jupyter_slurm.slurm.options import with_slurm_ids
from jupyter_slurm.slurm.versions import has_overlap
from jupyter_slurm.wire import Job, JobSpec

_DEPENDENCY = "dependency"


def resolve(spec: JobSpec, cluster: SlurmCluster, job_dir: JobDir | None = None) -> Resolved:
    """Resolve a job of `cluster`; `job_dir`: its folder if known. RequestError: `spec` is invalid;
    NotFoundError: no such image."""
    profile = cluster.profile.for_job(spec)
    runtime, image = run_by(spec, profile)
    file = f"@{spec.container_name}" if spec.container_name else None
    if image is not None and runtime.takes_image:
        file = cluster.find_image(image, runtime.name, runtime.fetched)
    folder = job_dir or JobDir(cluster.job_root() / spec.id)
    environment = None
    if spec.environment is not None:
        environment = planned(
            spec.environment,
            kind_of(spec).needs_packages,
            cluster.toolchain(spec.modules),
            str(cluster.environments_root()),
            cluster.profile,
        )
    site = Site(str(cluster.transport.home()), folder, file, environment)
    if spec.launch is not None:
        site = _with_srun(site, cluster, is_mpi=spec.launch == "mpi")
    return resolved(spec, profile, site)


def _with_srun(site: Site, cluster: SlurmCluster, *, is_mpi: bool) -> Site:
    """Ask srun, once per connection, for the facts that jobs on many nodes need."""
    version = cluster.srun_version()
    overlap = version is None or has_overlap(version)
    return replace(site, has_overlap=overlap, mpi_types=cluster.mpi_types() if is_mpi else ())


def with_dependency(job: Resolved, registry: JobRegistry, wait_s: float) -> Resolved:
    """Return the job with Slurm's IDs in place of ours in `--dependency` and its directive. Wait up
    to `wait_s` for jobs that are being submitted. RequestError: names an invalid dependency."""
    asked, cluster = job.effective_options.get(_DEPENDENCY), job.profile.name

    def slurm_id(job_id: str) -> str:
        registry.wait(lambda: _is_settled(_job(registry, job_id)), wait_s)
        before = _job(registry, job_id)
        if before.cluster != cluster:
            raise _refused(job_id, f"it is on {before.cluster}, not on {cluster}.")
        if before.slurm_id is None:
            raise _refused(job_id, "Slurm does not have it.")
        return before.slurm_id

    sent = asked and with_slurm_ids(asked, slurm_id)
    if not sent or sent == asked:
        return job
    spec = msgspec.structs.replace(job.spec, options={**job.spec.options, _DEPENDENCY: sent})
    return replace(job, spec=spec, options={**job.options, _DEPENDENCY: sent})


def _is_settled(job: Job) -> bool:
    """Return whether it is known if Slurm has the job, which a session's cell never is."""
    return job.slurm_id is not None or job.state.final or job.session is not None or job.on_login


def _job(registry: JobRegistry, job_id: str) -> Job:
    try:
        return registry.job(job_id)
    except JupyterSlurmError as exc:
        raise RequestError(
            f"There is no job `{job_id}` here, so `--dependency` cannot name it.",
            hint="`%slurm jobs` lists yours. Use Slurm's ID for other jobs.",
            option=_DEPENDENCY,
        ) from exc


def _refused(job_id: str, why: str) -> RequestError:
    return RequestError(
        f"`--dependency` cannot name job {job_id}: {why}",
        hint="Name jobs that are in the queue of the same cluster.",
        option=_DEPENDENCY,
    )
