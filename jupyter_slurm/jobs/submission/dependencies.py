"""Dependencies between jobs, from `--dependency` with our IDs and from `--after`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import msgspec

from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.jobs.outcome.array_tasks import failed_tasks, live_arrays
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission.resolve import Resolved
from jupyter_slurm.slurm.options import with_slurm_ids
from jupyter_slurm.wire import After, Job, JobSpec, JobState, SweepJob, SweepSpec

_DEPENDENCY = "dependency"
_INVALID = "kill-on-invalid-dep"
_TERMS = {"ok": "afterok", "any": "afterany", "fail": "afternotok"}


def with_dependency(job: Resolved, registry: JobRegistry, wait_s: float) -> Resolved:
    """Return the job with Slurm's IDs in place of our IDs in `--dependency`, given as an option or
    as a directive. Wait up to `wait_s` for jobs that are being submitted. Raise a RequestError that
    names an invalid dependency."""
    asked, cluster = job.effective_options.get(_DEPENDENCY), job.profile.name

    def slurm_id(job_id: str) -> str:
        registry.wait(lambda: _is_settled(_job(registry, job_id), registry), wait_s)
        before = _job(registry, job_id)
        if before.cluster != cluster:
            raise _refused(job_id, f"it is on {before.cluster}, not on {cluster}.")
        if before.slurm_id is None:
            raise _refused(job_id, "Slurm does not have it.")
        return ":".join(before.slurm_ids)

    sent = asked and with_slurm_ids(asked, slurm_id)
    if not sent or sent == asked:
        return job
    spec = msgspec.structs.replace(job.spec, options={**job.spec.options, _DEPENDENCY: sent})
    return replace(job, spec=spec, options={**job.options, _DEPENDENCY: sent})


def after_by_id(spec: JobSpec, registry: JobRegistry, cluster: str) -> tuple[After, ...]:
    """Return `--after` with IDs in place of names, because a later job may have the same name.
    Raise RequestError if a job does not exist, or if its end prevents this job from ever starting.
    """
    found = []
    for one in spec.after:
        before = _before(one, spec, registry, cluster)
        if before is not None and before.state.final:
            _check_end(one, before)
        found.append(one if before is None else msgspec.structs.replace(one, job=before.id))
    return tuple(found)


def unmet(spec: JobSpec | None, registry: JobRegistry) -> str | None:
    """Describe the first ended job of `--after` that prevents this job from starting, if any."""
    for one in () if spec is None else spec.after:
        with suppress(JupyterSlurmError):  # the job has no record
            before = registry.job(one.job)
            if before.state.final and not _lets_start(one, before):
                return f"job {before.id} ({before.name}, {before.state.word})"
    return None


def awaited(spec: JobSpec, registry: JobRegistry, cluster: str) -> Job | None:
    """Return the first job of `--after` that is not submitted completely, if any. Raise
    RequestError if a job is not found or is not a Slurm job."""
    before = (_before(one, spec, registry, cluster) for one in spec.after)
    return next((job for job in before if job and not _is_settled(job, registry)), None)


def with_after(job: Resolved, registry: JobRegistry) -> Resolved:
    """Return the job with a dependency for each job of `--after`. Slurm forgets jobs soon after
    their end, so jobs that have ended are checked against our records. Raise RequestError if a job
    is unknown, if its end prevents this job from ever starting, or if `--dependency` contains
    alternatives."""
    spec, terms = job.spec, []
    for one in spec.after:
        before = _before(one, spec, registry, job.profile.name)
        if before is not None and before.state.final:
            _check_end(one, before)
            continue
        if isinstance(before, SweepJob):
            terms.append(_after_sweep(one, before, spec, registry))
        else:
            slurm_id = one.job if before is None else before.slurm_id or before.id
            terms.append(f"{_TERMS[one.ends]}:{slurm_id}")
    if not terms:
        return job
    asked = job.effective_options.get(_DEPENDENCY)
    if asked and "?" in asked:
        raise RequestError(
            f"--after cannot be combined with alternatives (`?`) in `--dependency={asked}`.",
            hint="Name all jobs in --dependency.",
            option="after",
        )
    added = {_DEPENDENCY: ",".join([*([asked] if asked else []), *terms])}
    if _INVALID not in job.effective_options:
        added[_INVALID] = "yes"  # otherwise a job that can never start waits forever
    changed = msgspec.structs.replace(spec, options={**spec.options, **added})
    return replace(job, spec=changed, options={**job.options, **added})


def _after_sweep(one: After, before: SweepJob, spec: JobSpec, registry: JobRegistry) -> str:
    """Return the dependency on the submitted arrays of an unfinished sweep. If this job is a sweep
    with the same tasks, each of its tasks waits only for the task with the same index. Raises
    RequestError."""
    if one.ends == "ok" and failed_tasks(before.tasks):
        raise RequestError(
            f"This job would never start: it waits until sweep {before.id} ({before.name}) "
            "succeeds, but tasks of the sweep have failed.",
            hint=f"Use `--after {before.id}:any` to start this job in any case.",
            option="after",
        )
    record = registry.record(before.id)
    arrays = live_arrays(record) or [before.slurm_id or before.id]
    if one.ends == "fail" and failed_tasks(before.tasks):
        return ":".join(["afterany", *arrays])
    if one.ends == "fail" and len(record.arrays) > 1:
        raise RequestError(
            f"Slurm cannot wait for a failure in sweep {before.id}, which has several arrays.",
            hint=f"Use `--after {before.id}:any` to start this job in any case.",
            option="after",
        )
    is_same = isinstance(spec, SweepSpec) and [a.tasks for a in record.arrays] == [spec.tasks]
    term = "aftercorr" if one.ends == "ok" and is_same else _TERMS[one.ends]
    return ":".join([term, *arrays])


def _before(one: After, spec: JobSpec, registry: JobRegistry, cluster: str) -> Job | None:
    """Return the job that `--after` names; None for a Slurm ID without a record. Raise RequestError
    if the job is not found or is not a Slurm job."""
    named = [
        record.job
        for record in registry.records()
        if one.job in (record.job.id, *record.job.slurm_ids, record.job.name)
        and record.job.cluster == cluster
        and record.job.id != spec.id
    ]
    # Prefer an ID to a name, then a job of this notebook, then the newest job.
    order = [
        [job for job in named if job.id == one.job],
        [job for job in named if one.job in job.slurm_ids],
        [job for job in named if job.notebook == spec.notebook],
        named,
    ]
    found = next((jobs[0] for jobs in order if jobs), None)
    if found is None and not one.job.isdecimal():
        raise RequestError(
            f"--after: job `{one.job}` not found on {cluster}.",
            hint="List your jobs with `%slurm jobs`.",
            option="after",
        )
    if found is not None and (found.session is not None or found.on_login):
        raise RequestError(
            f"--after: Slurm does not have job {found.id}, so this job cannot wait for it.",
            option="after",
        )
    return found


def _lets_start(one: After, before: Job) -> bool:
    succeeded = before.state is JobState.COMPLETED
    return one.ends == "any" or succeeded == (one.ends == "ok")


def _check_end(one: After, before: Job) -> None:
    if _lets_start(one, before):
        return
    wanted = "succeeds" if one.ends == "ok" else "fails"
    raise RequestError(
        f"This job would never start: it waits until job {before.id} ({before.name}) {wanted}, "
        f"but the state of that job is {before.state.word}.",
        hint=f"Use `--after {before.id}:any` to start this job in any case.",
        option="after",
    )


def _is_settled(job: Job, registry: JobRegistry) -> bool:
    """Return whether the submission of the job, or of all arrays of a sweep, is settled. Slurm
    never gets a session's cell or a job on the login node."""
    if job.state.final or job.session is not None or job.on_login:
        return True
    is_whole = all(one.slurm_id is not None for one in registry.record(job.id).arrays)
    return job.slurm_id is not None and is_whole


def _job(registry: JobRegistry, job_id: str) -> Job:
    try:
        return registry.job(job_id)
    except JupyterSlurmError as exc:
        raise RequestError(
            f"`--dependency` names the unknown job `{job_id}`.",
            hint="List your jobs with `%slurm jobs`. Use Slurm's ID for other jobs.",
            option=_DEPENDENCY,
        ) from exc


def _refused(job_id: str, why: str) -> RequestError:
    return RequestError(
        f"`--dependency` cannot name job {job_id}: {why}",
        hint="Name jobs that are in the queue of the same cluster.",
        option=_DEPENDENCY,
    )
