"""Puts Slurm's ids in place of ours in what a job is to wait for (`--dependency`)."""

from __future__ import annotations

from msgspec.structs import replace

from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.slurm.option_values import with_slurm_ids
from jupyter_slurm.wire import Job, JobKind, JobSpec

_NAME = "dependency"


def with_dependency(spec: JobSpec, cluster: str, book: Book, wait_s: float) -> JobSpec:
    """Return the spec as sbatch can have it, a batch script's own directive included. Waits for
    `wait_s` at most for jobs that are being submitted. RequestError names one that cannot be."""
    asked = spec.options.get(_NAME)
    if asked is None and spec.kind is JobKind.SCRIPT:
        asked = read_directives(spec.code).get(_NAME)

    def slurm_id(job_id: str) -> str:
        book.wait(lambda: _told(_job(book, job_id)), wait_s)
        job = _job(book, job_id)
        if job.cluster != cluster:
            raise _refused(job_id, f"it is on {job.cluster}, and this one goes to {cluster}.")
        if job.slurm_id is None:
            raise _refused(job_id, "Slurm does not have it.")
        return job.slurm_id

    sent = asked and with_slurm_ids(asked, slurm_id)
    if not sent or sent == asked:
        return spec
    return replace(spec, options={**spec.options, _NAME: sent})


def _told(job: Job) -> bool:
    """Whether it is known if Slurm has the job; a cell of a session Slurm never has."""
    return job.slurm_id is not None or job.state.final or job.session is not None or job.on_login


def _job(book: Book, job_id: str) -> Job:
    try:
        return book.job(job_id)
    except JupyterSlurmError as exc:
        raise RequestError(
            f"There is no job `{job_id}` here, so `--dependency` cannot wait for it.",
            hint="`%slurm jobs` lists yours; any other is named by Slurm's number.",
            option=_NAME,
        ) from exc


def _refused(job_id: str, why: str) -> RequestError:
    return RequestError(
        f"`--dependency` cannot wait for the job {job_id}: {why}",
        hint="Name jobs that are in the queue of the same cluster.",
        option=_NAME,
    )
