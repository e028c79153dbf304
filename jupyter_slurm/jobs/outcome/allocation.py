"""The resources, output files and usage of one job, as Slurm reports them.

An ID that Slurm has reused counts as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_slurm.errors import CommandError, ControllerError, TransportError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.outcome import array_tasks
from jupyter_slurm.jobs.records.registry import JobRegistry, Record
from jupyter_slurm.jobs.watching.queue_rows import is_accounted, is_requeued, is_same
from jupyter_slurm.slurm import sacct, scontrol
from jupyter_slurm.slurm.sacct import AcctRow
from jupyter_slurm.slurm.scontrol import ControlRow
from jupyter_slurm.wire import Usage


@dataclass(frozen=True, slots=True)
class Allocation:
    usage: Usage
    """The allocated resources, without measured usage."""
    gpus: int
    stdout: str | None
    """The output file of the batch script."""
    rows: tuple[ControlRow, ...] = ()
    """The controller's rows. An array has a row for each started task and a row for all waiting
    tasks."""
    no_requeue: str | None = None
    """The value of `Job.no_requeue`."""
    stderr: str | None = None
    """The file of the script's error output, if separate."""


def ask_jobs(cluster: SlurmCluster, record: Record) -> list[ControlRow]:
    """Return the controller's rows for this job; an array may have several. Return [] if Slurm has
    forgotten the job or reused its ID. Raises TransportError, or CommandError if the controller
    does not answer.
    """
    slurm_id = record.job.slurm_id
    if slurm_id is None:
        return []
    rows = ask_rows(cluster, slurm_id)
    return [row for row in rows if is_same(record, row) or is_requeued(record, row)]


def ask_rows(cluster: SlurmCluster, slurm_id: str) -> list[ControlRow]:
    """Return the controller's rows for this ID; [] if Slurm has forgotten the ID. Raises as
    `ask_jobs` does."""
    try:
        return scontrol.parse_jobs(cluster.ask(scontrol.job_argv(slurm_id)))
    except CommandError as exc:
        if isinstance(exc, ControllerError) or not scontrol.is_unknown_job(exc.detail or ""):
            raise
        return []


def note_outputs(
    registry: JobRegistry, job_id: str, stdout: str | None, stderr: str | None
) -> None:
    """Note the output files of a batch script, as far as Slurm reports them."""
    record = registry.record(job_id)
    if not kind_of(record.job).is_raw_script or stdout is None:
        return
    known = (stdout, None if stderr == stdout else stderr)
    if known != (record.stdout_path, record.stderr_path):
        registry.note(job_id, stdout_path=known[0], stderr_path=known[1])


def note_paths(registry: JobRegistry, job_id: str, rows: Sequence[ControlRow]) -> None:
    """Note the output files of array tasks, as far as these rows report them."""
    if not any(row.array_task_id for row in rows):
        return
    record = registry.record(job_id)
    where = array_tasks.pattern(rows) or record.task_stdout
    errors = array_tasks.pattern(rows, "StdErr") or record.task_stderr
    errors = None if errors == where else errors
    known = {**record.task_paths, **array_tasks.paths(rows)}
    if where is not None:
        known = {
            task: path
            for task, path in known.items()
            if array_tasks.path(where, int(task), record.job.slurm_id or "", None) != path
        }
    if (where, errors, known) != (record.task_stdout, record.task_stderr, record.task_paths):
        registry.note(job_id, task_stdout=where, task_stderr=errors, task_paths=known)


def known_path(record: Record, task: int) -> str | None:
    """Return the output file of an array task; None if the record does not contain it."""
    if (path := record.task_paths.get(str(task))) is not None or record.task_stdout is None:
        return path
    return array_tasks.path(record.task_stdout, task, record.job.slurm_id or "", None)


def error_path(record: Record, task: int) -> str | None:
    """Return the error file of an array task; None if it is the output file or unknown."""
    if record.task_stderr is None:
        return None
    return array_tasks.path(record.task_stderr, task, record.job.slurm_id or "", None)


def ask_allocation(cluster: SlurmCluster, record: Record) -> Allocation | None:
    """Return the job's allocation; None if unknown now."""
    try:
        rows = ask_jobs(cluster, record)
    except (CommandError, TransportError):
        return None
    if not rows:
        return None
    gpus = int(rows[0].tres.get("gres/gpu", 0))
    usage = Usage(cpus=rows[0].cpus, memory_mib=rows[0].tres.get("mem") or None, gpus=gpus)
    first = rows[0]
    return Allocation(usage, gpus, first.stdout, tuple(rows), first.no_requeue, first.stderr)


def ask_accounting(cluster: SlurmCluster, record: Record) -> list[AcctRow]:
    """Return the accounting rows for the job and its steps. Raise CommandError if sacct fails, as
    on a cluster without accounting."""
    slurm_id = record.job.slurm_id
    if slurm_id is None:
        return []
    found: list[AcctRow] = []
    ours = False
    for row in sacct.parse(cluster.ask(sacct.argv([slurm_id]))):
        ours = is_accounted(record, row) if row.step is None else ours
        if ours:
            found.append(row)
    return found


def ask_usage(cluster: SlurmCluster, record: Record) -> Usage | None:
    """Return the usage of a finished job from accounting; None if it is not recorded yet.

    Raise CommandError if the cluster has no accounting or does not answer.
    """
    used = sacct.summarise(ask_accounting(cluster, record))
    if used is None or used.peak_memory_mib is None:
        return None
    held_s = used.elapsed_s * used.cpus
    return Usage(
        elapsed_s=used.elapsed_s,
        cpu_s=used.cpu_efficiency * held_s if used.cpu_efficiency is not None else None,
        cpus=used.cpus,
        peak_memory_mib=used.peak_memory_mib,
        memory_mib=used.requested_memory_mib,
        gpus=used.gpus,
    )
