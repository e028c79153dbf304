"""Puts Slurm's ids in place of ours in what a job is to wait for (`--dependency`)."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.slurm.option_values import with_slurm_ids
from jupyter_slurm.wire import Job, Message

_NAME = "dependency"


def with_dependency(job: Resolved, book: Book, wait_s: float) -> Resolved:
    """Return the job as sbatch can have it, a batch script's own directive included. Waits for
    `wait_s` at most for jobs that are being submitted. RequestError names one that cannot be."""
    asked, cluster = job.effective_options.get(_NAME), job.profile.name

    def slurm_id(job_id: str) -> str:
        book.wait(lambda: _told(_job(book, job_id)), wait_s)
        before = _job(book, job_id)
        if before.cluster != cluster:
            raise _refused(job_id, f"it is on {before.cluster}, and this one goes to {cluster}.")
        if before.slurm_id is None:
            raise _refused(job_id, "Slurm does not have it.")
        return before.slurm_id

    sent = asked and with_slurm_ids(asked, slurm_id)
    if not sent or sent == asked:
        return job
    spec = msgspec.structs.replace(job.spec, options={**job.spec.options, _NAME: sent})
    return replace(job, spec=spec, options={**job.options, _NAME: sent})


def _told(job: Job) -> bool:
    """Tell whether it is known if Slurm has the job; a cell of a session Slurm never has."""
    return job.slurm_id is not None or job.state.final or job.session is not None or job.on_login


def _job(book: Book, job_id: str) -> Job:
    try:
        return book.job(job_id)
    except JupyterSlurmError as exc:
        raise RequestError(
            f"There is no job `{job_id}` here, so `--dependency` cannot wait for it.",
            hint=Message.of("`{slurm} jobs` lists yours; any other is named by Slurm's number."),
            option=_NAME,
        ) from exc


def _refused(job_id: str, why: str) -> RequestError:
    return RequestError(
        f"`--dependency` cannot wait for the job {job_id}: {why}",
        hint="Name jobs that are in the queue of the same cluster.",
        option=_NAME,
    )
