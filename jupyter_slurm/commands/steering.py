"""Commands that cancel, hold, release, requeue and forget jobs by their IDs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from jupyter_slurm.api import Api
from jupyter_slurm.errors import JupyterSlurmError, NotFoundError, RequestError
from jupyter_slurm.formatting import duration
from jupyter_slurm.views.card import (
    ended_earlier,
    has_unseen_output,
    no_longer_listed,
    title,
    told_to_end,
)
from jupyter_slurm.wire import Job, JobKind, JobVerb, Refusal


def steer_each(
    api: Api, verb: JobVerb, words: Sequence[str]
) -> Iterator[tuple[str, str | JupyterSlurmError]]:
    """Apply the verb to jobs, with one call per cluster. Yield a message or an error for each
    job."""
    found: dict[str, Job | JupyterSlurmError] = {}
    for word in dict.fromkeys(words):
        try:
            found[word] = api.job(word)
        except JupyterSlurmError as exc:
            found[word] = exc
    there: dict[str, list[str]] = {}
    for job in found.values():
        if isinstance(job, Job):
            there.setdefault(job.cluster, []).append(job.id)
    refusals: dict[str, list[Refusal] | JupyterSlurmError] = {}
    for cluster, ids in there.items():
        try:
            refusals[cluster] = _control(api, verb, list(dict.fromkeys(ids)), cluster)
        except JupyterSlurmError as exc:
            refusals[cluster] = exc
    for word, before in found.items():
        if isinstance(before, Job):
            yield word, _outcome(api, verb, word, before, refusals[before.cluster])
        else:
            yield word, before


def unfetched(api: Api, words: Iterable[str]) -> list[Job]:
    """Return the jobs with unfetched output or variables. Omit unknown jobs and batch scripts."""
    found = []
    for word in words:
        with suppress(NotFoundError):
            found.append(api.job(word))
    return [job for job in found if has_unseen_output(job) and job.kind is not JobKind.SCRIPT]


def forgetting(jobs: Sequence[Job]) -> str:
    """Return the message about output that would be lost."""
    return (
        f"Output and variables of {', '.join(title(job) for job in jobs)} have not been fetched "
        "and will be lost."
    )


def forget_each(api: Api, words: Sequence[str]) -> Iterator[tuple[str, str | JupyterSlurmError]]:
    """Forget jobs one by one. Yield a message or an error for each job."""
    for word in words:
        try:
            before = api.job(word)
            api.forget(word)
            yield word, f"{title(before)}: forgotten"
        except JupyterSlurmError as exc:
            yield word, exc


def _control(api: Api, verb: JobVerb, job_ids: list[str], cluster: str) -> list[Refusal]:
    """Apply the verb and return refusals. For a single job, use the call for one job, which raises
    more precise errors. Always cancel with `control_jobs`, for which an ended job is not an error.
    """
    if len(job_ids) == 1 and verb != "cancel":
        call: Callable[[str], Job] = getattr(api, verb)
        call(job_ids[0])
        return []
    return api.control_jobs(verb, job_ids, [], cluster)


def _outcome(
    api: Api, verb: JobVerb, word: str, before: Job, refusals: list[Refusal] | JupyterSlurmError
) -> str | JupyterSlurmError:
    job = api.job(before.id)
    is_asked = job.state.final or job.cancel_requested_s != before.cancel_requested_s
    if not (verb == "cancel" and is_asked):
        if isinstance(refusals, JupyterSlurmError):
            return refusals
        for refusal in refusals:
            if refusal.job in (before.slurm_id, before.id):
                return RequestError(refusal.why)
    if verb != "cancel":
        return _told_done(verb, before, job)
    earlier = ended_earlier(before, word, time.time())
    told = told_to_end(job) if is_asked else no_longer_listed(job)
    return " ".join(filter(None, (earlier, told)))


def _told_done(verb: JobVerb, before: Job, job: Job) -> str:
    if verb != "requeue":
        done = "held" if verb == "hold" else "released"
        return f"{title(before)}: {done} ({job.state.word})"
    # Until Slurm has ended the run, the job is always COMPLETING.
    run = ""
    if before.started_s and before.nodes:
        run = f" after {duration(time.time() - before.started_s)} on {', '.join(before.nodes)}"
    return f"{title(before)}: stopped{run} and requeued; unsaved work is lost"
