"""The details of one job, from its record, its folder on the cluster and Slurm's record.

The values of the user's environment variables are omitted.
"""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from jupyter_slurm.errors import CommandError, NotFoundError, RequestError, TransportError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.allocation import ask_jobs
from jupyter_slurm.jobs.records.registry import Record
from jupyter_slurm.jobs.submission.prepare import Submission, prepare
from jupyter_slurm.jobs.submission.resolve import resolve
from jupyter_slurm.jobs.watching.queue_rows import is_accounted
from jupyter_slurm.slurm import sacct
from jupyter_slurm.transport import Span, limits
from jupyter_slurm.wire import Job, JobDetails, JobSpec


def details(record: Record, cluster: SlurmCluster) -> JobDetails:
    """Return the job's details; see `Api.details`."""
    if record.spec is not None:
        return _before(record, record.spec, cluster)
    try:
        return _sent(record, cluster)
    except TransportError as exc:
        return JobDetails(
            job=record.job,
            asked=record.asked,
            command=record.command,
            events=record.events,
            folder=record.folder,
            problem=exc.problem(),
        )


def _before(record: Record, spec: JobSpec, cluster: SlurmCluster) -> JobDetails:
    """Describe a job whose folder does not exist yet."""
    submission = _submission(record.job, spec, cluster)
    return JobDetails(
        job=record.job,
        asked=record.asked,
        code=spec.code if kind_of(spec).code_file else None,
        script=submission.script if submission else None,
        command=record.command or (submission.sbatch if submission else ()),
        environment={**cluster.profile.job_env, **dict.fromkeys(spec.env)},
        events=record.events,
        folder=submission.job.folder if submission else "",
    )


def _submission(job: Job, spec: JobSpec, cluster: SlurmCluster) -> Submission | None:
    if spec.session is not None:
        return None
    try:
        return prepare(resolve(spec, cluster, JobDir(PurePosixPath(job.job_dir))))
    except (RequestError, NotFoundError):
        return None


def _sent(record: Record, cluster: SlurmCluster) -> JobDetails:
    job, folder = record.job, PurePosixPath(record.job.job_dir)
    names = [kind_of(job).code_file, layout.SCRIPT, layout.ENVIRONMENT]
    spans = {
        name: Span(folder / name, 0, limits.FILE_BYTES) for name in names if name and job.job_dir
    }
    found = dict(zip(spans, cluster.transport.read_many([*spans.values()]), strict=True))
    text = {name: data.decode(errors="replace") for name, data in found.items() if data is not None}
    known = _slurm_record(record, cluster)
    return JobDetails(
        job=job,
        asked=record.asked,
        code=text.get(kind_of(job).code_file or ""),
        script=text.get(layout.SCRIPT),
        command=record.command,
        environment=_environment(text.get(layout.ENVIRONMENT, ""), cluster.profile.job_env),
        record=known,
        events=record.events,
        folder=record.folder or known.get("WorkDir", ""),
    )


def _environment(text: str, profiles: dict[str, str]) -> dict[str, str | None]:
    """Return the variables in `text`, the content of `env.sh` (see `render_environment`). A value
    is None unless the profile sets it. Return {} if the text is malformed."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError:  # the job has overwritten the file
        return {}
    return {
        name: value if profiles.get(name) == value else None
        for name, equals, value in words
        if equals
    }


def _slurm_record(record: Record, cluster: SlurmCluster) -> dict[str, str]:
    """Return Slurm's record of the job; {} if Slurm has forgotten the job or the request fails."""
    slurm_id = record.job.slurm_id
    if slurm_id is None:
        return {}
    try:
        rows = ask_jobs(cluster, record)
        return dict(rows[0].fields) if rows else _accounted(record, slurm_id, cluster)
    except CommandError:
        return {}


def _accounted(record: Record, slurm_id: str, cluster: SlurmCluster) -> dict[str, str]:
    output = cluster.ask(sacct.argv([slurm_id]))
    both = zip(sacct.parse(output), sacct.parse_fields(output), strict=True)
    of_job = [said for row, said in both if row.step is None and is_accounted(record, row)]
    return {name: value for name, value in of_job[-1].items() if value} if of_job else {}
