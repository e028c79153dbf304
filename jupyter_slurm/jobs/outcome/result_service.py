"""A job's output after a cursor, and its result. Variables are returned as a local file. If the
transport had to copy the file, the copy is removed after use."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import (
    CommandError,
    ConfigError,
    FileAccessError,
    JobLostError,
    JupyterSlurmError,
    LoginNeededError,
    NotFoundError,
    RequestError,
    TransportError,
)
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome import array_tasks, sweep_results
from jupyter_slurm.jobs.outcome.allocation import (
    ask_accounting,
    ask_jobs,
    error_path,
    known_path,
    note_paths,
)
from jupyter_slurm.jobs.outcome.logs import Chunk, Cursor, LogReader, parse_cursor
from jupyter_slurm.jobs.outcome.result import (
    RunnerResult,
    RunnerVariables,
    check_asked,
    parse_result,
)
from jupyter_slurm.jobs.outcome.sweep_tasks import SweepTable
from jupyter_slurm.jobs.records.registry import JobRegistry, Record
from jupyter_slurm.transport import Transport
from jupyter_slurm.variables import check_signature
from jupyter_slurm.wire import (
    CellJob,
    Gathered,
    Hello,
    Job,
    JobState,
    LogChunk,
    Result,
    Show,
    Stream,
    SweepJob,
    SweepTasks,
)

_RESULT_PATIENCE_S = 20.0
_RESULT_PAUSE_S = 1.0
_GATHER_S = 0.01
"""Seconds to hold back an answer in case the job ends, so that a short cell needs only one answer.
"""
_FOLLOWED_S = 2.0
"""Seconds for which a log counts as fully read after a reader has reached its end. Text that the
job adds within this time gets its arrival time.
"""
_SILENT = "the result does not mention it"
_KEPT_S = {
    "*.fetched*": 7 * 24 * 3600.0,
    "*.vars": 24 * 3600.0,
    "*.params.json": 24 * 3600.0,
}
"""Seconds to keep undelivered variables, and inputs of jobs that a client may still submit."""


class _End(NamedTuple):
    attempt: int
    offset: int
    seen_s: float
    """The time of the read, in seconds on the monotonic clock."""


class ResultService:
    def __init__(self, registry: JobRegistry, clusters: Clusters) -> None:
        self._registry = registry
        self._clusters = clusters
        self._copies: dict[str, list[Path]] = {}
        """Local copies by job ID."""
        self._ends: dict[tuple[str, int | None], tuple[_End, ...]] = {}
        """The ends of logs that readers have recently reached, by job ID and task."""

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        position = parse_cursor(cursor)
        is_new = self._has_just_ended(job_id, task, position)
        deadline_s = time.monotonic() + wait_s
        while True:
            count = self._registry.change_count
            try:
                time_s = int(time.time()) if is_new else 0
                job, chunk, show = self._read_log(job_id, position, budget_bytes, task, time_s)
            except LoginNeededError:
                raise
            except TransportError:
                # The connection dropped, which `Job.problem` reports.
                job, show = self._registry.job(job_id), "text"
                chunk = Chunk(deque(), position, complete=False)
            news = chunk.outputs or chunk.skipped_bytes or job.revision != position.revision
            left_s = deadline_s - time.monotonic()
            if job.state.final or left_s <= 0 or self._registry.closed:
                break
            if news:
                if self._registry.wait(
                    lambda: self._registry.is_over(job_id), min(left_s, _GATHER_S)
                ):
                    continue
                break
            if not self._registry.wait(self._registry.changed_since(count), left_s):
                break
            is_new = chunk.complete
        if chunk.complete:
            self._note_end(job, task, chunk.cursor)
        following = replace(chunk.cursor, revision=job.revision)
        return LogChunk(
            job=job,
            outputs=tuple(chunk.outputs),
            cursor=str(following),
            skipped_bytes=chunk.skipped_bytes,
            more=not chunk.complete,
            end=job.state.final and chunk.complete,
            show=show,
        )

    def _has_just_ended(self, job_id: str, task: int | None, position: Cursor) -> bool:
        """Return whether the log ended at or before `position` a moment ago, so that later text is
        new."""
        now_s, there = time.monotonic(), (position.attempt, position.log)
        ends = self._ends.get((job_id, task), ())
        return any(
            (end.attempt, end.offset) <= there and now_s - end.seen_s < _FOLLOWED_S for end in ends
        )

    def _note_end(self, job: Job, task: int | None, end: Cursor) -> None:
        if job.state.final:
            self._ends.pop((job.id, task), None)
        else:
            now_s = time.monotonic()
            before = self._ends.get((job.id, task), ())
            recent = (one for one in before if now_s - one.seen_s < _FOLLOWED_S)
            self._ends[job.id, task] = (*recent, _End(end.attempt, end.log, now_s))

    def _read_log(
        self, job_id: str, position: Cursor, budget_bytes: int | None, task: int | None, time_s: int
    ) -> tuple[Job, Chunk, Show]:
        """Read the job, then its log, so that the output of a final job is complete. `time_s` is
        the time of the log's text after `position`; 0 if unknown."""
        record = self._registry.record(job_id)
        job = record.job
        if job.transfer is not None:  # not submitted yet: no output
            return job, Chunk(deque(), position), "text"
        cluster = self._clusters.named(job.cluster)
        transport = cluster.transport
        folder = JobDir(PurePosixPath(job.job_dir))
        path, errors, heading = record.stdout_path, record.stderr_path, ""
        rank, attempts = _rank(job, task), job.restarts + 1
        if isinstance(job, SweepJob):
            if task is None:  # the tasks have no common log
                return job, Chunk(deque(), position), "text"
            self._check_task(job, task)
            folder, attempts, task = folder.task(task), self._table(job).attempts(task), None
        elif rank is None and (job.tasks or task is not None):
            path, errors, heading = self._log_of_task(record, cluster, task)
        reader = LogReader(transport, folder, kind_of(job), path, errors, rank or 0)
        chunk = reader.read(position, attempts, budget_bytes, time_s)
        if heading and not position.log and chunk.outputs:
            chunk.outputs.appendleft(Stream(name="stderr", text=heading))
        hellos = [output for output in chunk.outputs if isinstance(output, Hello)]
        if hellos:
            chunk.outputs = deque(o for o in chunk.outputs if not isinstance(o, Hello))
            told = {"python": hellos[-1].python, "python_path": hellos[-1].executable}
            self._registry.change(job.id, **told)
            # Return the job as it was before reading. If it has ended since, it may have more
            # output.
            job = msgspec.structs.replace(job, **told)
        return job, chunk, cluster.profile.show

    def _check_task(self, job: SweepJob, task: int) -> None:
        if array_tasks.state_of(job.tasks, task) is None:
            raise RequestError(
                f"The sweep {job.id} has no task {task}.",
                hint=f"Use one of {array_tasks.every(job.tasks)}.",
            )

    def _log_of_task(
        self, record: Record, cluster: SlurmCluster, task: int | None
    ) -> tuple[str | None, str | None, str]:
        """Return the output file, the error file and the heading of an array task. The output file
        is None if the task has not started. The error file is None if it is the output file. The
        heading is "" if `task` is given."""
        job, heading = record.job, ""
        if not job.tasks or not kind_of(job).is_raw_script:
            raise RequestError(f"Job {job.id} is not a known array, so it has no task {task}.")
        if task is None:
            task = array_tasks.first(job.tasks)
            heading = f"[Task {task} of an array; `--task N` shows another task.]\n"
        state = None if task is None else array_tasks.state_of(job.tasks, task)
        if task is None or state is None:
            raise RequestError(
                f"The array {job.slurm_id} has no task {task}.",
                hint=f"Use one of {array_tasks.every(job.tasks)}.",
            )
        if state == JobState.PENDING:
            return None, None, heading
        path = known_path(record, task) or self._ask_path(record, cluster, task)
        if path is None:
            raise RequestError(
                f"The output file of task {task} of job {job.slurm_id} is unknown.",
                hint="See the --output file of the script, or "
                f"slurm-{job.slurm_id}_{task}.out in the folder of the submission.",
            )
        return path, error_path(record, task), heading

    def _ask_path(self, record: Record, cluster: SlurmCluster, task: int) -> str | None:
        """Return the task's output file; None if unknown. Ask the controller. If it has forgotten
        the task, look up the task's ID in accounting."""
        job = record.job
        note_paths(self._registry, job.id, ask_jobs(cluster, record))
        if (path := known_path(record, task)) is not None or record.task_stdout is None:
            return path
        try:
            rows = ask_accounting(cluster, record)
        except CommandError:
            return None
        wanted = f"{job.slurm_id}_{task}"
        own_id = next((row.raw_id for row in rows if row.slurm_id == wanted), None)
        return array_tasks.path(record.task_stdout, task, job.slurm_id or "", own_id)

    def result(self, job_id: str) -> Result:
        job = self._registry.job(job_id)
        if not job.state.final:
            raise RequestError(f"Job {job.id} is still {job.state}.")
        if job.state is JobState.LOST:
            raise JobLostError(job.why or "The end of the job is unknown.", hint=job.advice)
        deadline_s = time.monotonic() + _RESULT_PATIENCE_S
        while True:
            try:
                return self._read_result(job)
            except (LoginNeededError, FileAccessError):
                raise
            except TransportError:
                # The job has ended and its result is safe. The connection may be restored soon.
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or self._registry.wait(lambda: False, min(left_s, _RESULT_PAUSE_S)):
                    raise

    def readable(self, jobs: Iterable[Job]) -> tuple[Result, ...]:
        """Return the results of ended jobs, except those that cannot be read now."""
        found = []
        for job in jobs:
            with suppress(JupyterSlurmError):
                if job.state is not JobState.LOST:
                    found.append(self._read_result(job))
        return tuple(found)

    def sweep(self, job_id: str) -> SweepTasks:
        """Return the tasks of a sweep. Raise RequestError if the job is not a sweep."""
        return self._table(self._registry.job(job_id)).tasks()

    def _table(self, job: Job) -> SweepTable:
        if not isinstance(job, SweepJob):
            raise RequestError(f"Job {job.id} is not a sweep.")
        return self._clusters.watch(self._clusters.named(job.cluster)).sweeps.table(job.id)

    def _read_sweep(self, job: SweepJob) -> Result:
        """Return the result of a sweep, with a folder of variables."""
        record, key = self._registry.record(job.id), self._registry.store.key(job)
        if key is None or job.slurm_id is None:
            return Result(job=job, status="none")
        transport = self._clusters.named(job.cluster).transport
        self._copies.setdefault(job.id, []).append(sweep_results.fetched_folder(job.id))
        folder, failed = sweep_results.fetch(transport, record, self._table(job).ends(), key)
        is_well = job.state is JobState.COMPLETED
        return Result(
            job=job,
            status="ok" if is_well else "error",
            variables=str(folder),
            names=job.names_out,
            failed=failed,
        )

    def _read_result(self, job: Job) -> Result:
        if isinstance(job, SweepJob):
            return self._read_sweep(job)
        folder = JobDir(PurePosixPath(job.job_dir))
        transport = self._clusters.named(job.cluster).transport
        data = transport.read(folder.result(job.restarts))
        key = self._registry.store.key(job)
        if data is None or key is None:
            return Result(job=job, status="none")
        found = parse_result(data, key)
        names, failed = _variables(found, job.names_out)
        path = self._fetched(transport, job, found.variables, folder.variables(job.restarts), key)
        gathered = []
        for rank, one in enumerate(found.gathered):
            check_asked([*one.names, *one.failed], job.names_gather)
            failed |= {f"{name} of rank {rank}": why for name, why in one.failed.items()}
            there = self._fetched(transport, job, one, folder.gathered(job.restarts, rank), key)
            gathered.append(Gathered(variables=there, names=one.names))
        return Result(
            job=job,
            status=found.status,
            ename=found.ename,
            evalue=found.evalue,
            traceback=tuple(found.traceback),
            interrupted_by=found.interrupted_by,
            variables=path,
            names=names,
            failed=failed,
            gathered=tuple(gathered),
        )

    def _fetched(
        self,
        transport: Transport,
        job: Job,
        told: RunnerVariables | None,
        there: PurePosixPath,
        key: bytes,
    ) -> str | None:
        """Return the local path of a file of variables; None without variables. Raise
        SignatureError if the job did not write this content."""
        if told is None or not told.names:
            return None
        path = transport.fetch(there, told.bytes)
        if path != Path(there):
            self._copies.setdefault(job.id, []).append(path)
        check_signature(path, key, told.hmac)
        return str(path)

    def served(self, job_id: str) -> None:
        """Remove the copies made by `result` for this job, and the table of an ended sweep."""
        for copy in self._copies.pop(job_id, ()):
            _remove(copy)
        job = self._registry.job(job_id)
        if isinstance(job, SweepJob) and job.state.final:
            with suppress(NotFoundError, ConfigError):  # the cluster's profile was removed
                self._clusters.watch(self._clusters.named(job.cluster)).sweeps.drop(job_id)


def _rank(job: Job, task: int | None) -> int | None:
    """Return the requested rank; None if the job has no ranks. Raises RequestError."""
    if not isinstance(job, CellJob) or not job.ranks or task is None:
        return None
    if task >= job.ranks:
        raise RequestError(
            f"Job {job.id} has no rank {task}.",
            hint=f"Use a rank from 0 to {job.ranks - 1}.",
        )
    return task


def _variables(
    found: RunnerResult, asked: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the names of the returned variables, and the reasons for missing variables. Raise
    SignatureError for unrequested variables."""
    told = found.variables
    names = told.names if told else ()
    failed = dict(told.failed) if told else {}
    check_asked([*names, *failed], asked)
    if found.status == "ok":
        failed |= {name: _SILENT for name in asked if name not in names and name not in failed}
    return names, failed


def remove_old_files(unsent: Collection[str]) -> None:
    """Remove the files of earlier processes. Remove copies after a week. After a day, remove the
    variables of clients that were killed before they submitted. `unsent` contains the names of the
    files that recorded jobs still need."""
    now_s = time.time()
    for pattern, kept_s in _KEPT_S.items():
        try:
            found = list(places.spool_dir().glob(pattern))
        except (ConfigError, OSError):  # the call that needs the folder raises the error
            return
        for path in found:
            with suppress(OSError):  # removed by another process, or not a file
                if path.name not in unsent and path.stat().st_mtime < now_s - kept_s:
                    _remove(path)


def _remove(copy: Path) -> None:
    """Remove a copied file, or the folder of a sweep's variables."""
    if copy.is_dir():
        shutil.rmtree(copy, ignore_errors=True)
    else:
        copy.unlink(missing_ok=True)
