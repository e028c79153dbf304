"""The evidence of a job's end for `verdict.py`, first from the job's files, then from Slurm."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, repeat
from pathlib import PurePosixPath

from jupyter_slurm.errors import (
    CommandError,
    ControllerError,
    FileAccessError,
    NotAFileError,
    NotFoundError,
    TransportError,
)
from jupyter_slurm.formatting import visible
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import PROGRESS_BYTES
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome import array_tasks
from jupyter_slurm.jobs.outcome.allocation import (
    ask_accounting,
    ask_jobs,
    note_outputs,
    note_paths,
)
from jupyter_slurm.jobs.outcome.result import (
    RunnerResult,
    exit_of,
    parse_exit,
    parse_started,
    readable_result,
)
from jupyter_slurm.jobs.outcome.verdict import (
    Evidence,
    SessionEnd,
    SlurmVerdict,
    Verdict,
    ended_by_itself,
    judge,
    measured,
)
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission import login_node
from jupyter_slurm.jobs.submission.dependencies import unmet
from jupyter_slurm.jobs.watching.queue_rows import state_named
from jupyter_slurm.slurm import sinfo, states
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.transport import Span, limits
from jupyter_slurm.wire import CellJob, Job, JobState, Usage

_TAIL_BYTES = 8192
_OF_PROLOG = frozenset((JobState.CANCELLED, JobState.FAILED))
_PROLOG = re.compile(r"prolog|launch", re.IGNORECASE)
"""A pattern for the Reason of a node that Slurm has drained after a failed Prolog
(src/slurmd/slurmd/req.c, src/slurmctld/job_mgr.c)."""
_SAME_MOMENT_S = 10.0
_PAUSES_S = (0.25, 0.5, 1.0, 2.0, 3.0)
"""The pauses between requests to the controller. They grow because many jobs may end at once."""


class Ending:
    """The end of one job, which `run()` judges and records in a thread of its own."""

    def __init__(
        self,
        registry: JobRegistry,
        cluster: SlurmCluster,
        job: Job,
        row: QueueRow | None,
        stop: threading.Event,
    ) -> None:
        self._registry = registry
        self._cluster = cluster
        self._job = job
        self._row = row
        self._stop = stop
        self._dir = JobDir(PurePosixPath(job.job_dir))
        self._slurm_goes_on = False

    def run(self) -> bool:
        """Judge and record the job's end. Return False if the job has not ended, as after a
        requeue, or if the agent is stopping."""
        evidence = self._files(slurm=None)
        verdict = ended_by_itself(evidence)
        if verdict is None:
            if not self._goes_to_its_end():
                return True
            session = self._end_of_its_session(evidence)
            try:
                slurm = None if self._job.session is not None else self._slurm_verdict(evidence)
                slurm = slurm and self._with_failed_nodes(slurm, evidence)
            except _GoesOnError as exc:
                self._put_back(exc)
                return False
            except _StoppedError:
                return False
            evidence = self._files(slurm=slurm, session=session)
            verdict = (login_node.judge if self._job.on_login else judge)(evidence)
        self._record(verdict, evidence)
        return True

    def record_if_clear(self) -> bool:
        """Record the end, without waiting, if the job's own files prove it. Return whether they
        prove it."""
        evidence = self._files(slurm=None)
        verdict = ended_by_itself(evidence)
        if verdict is not None:
            self._record(verdict, evidence)
        return verdict is not None

    def record_unstarted(self) -> None:
        """Record the end of a job that never started (`is_unstarted`), without reading files or
        asking Slurm, because thousands of jobs may end at once."""
        job = self._registry.job(self._job.id)
        evidence = Evidence(
            kind=job.kind,
            runtime=job.runtime,
            slurm=self._from_row(),
            cancel_requested=job.cancel_requested_s is not None,
            unmet=self._unmet(),
        )
        self._record(judge(evidence), evidence)

    def _goes_to_its_end(self) -> bool:
        """Mark the job FINISHING. Return False if it has already ended, e.g. because its session
        rejected the cell."""
        with self._registry.lock():
            if self._registry.job(self._job.id).state.final:
                return False
            self._registry.change(self._job.id, state=JobState.FINISHING)
        return True

    def _put_back(self, told: _GoesOnError) -> None:
        with self._registry.lock():
            job = self._registry.job(self._job.id)
            if job.restarts >= told.restarts:  # the job's files may have reported the restart
                self._registry.change(job.id, state=told.state)
                return
            on_requeue = kind_of(job).on_requeue(job)
            changes = {"state": JobState.REQUEUED, "restarts": told.restarts, "nodes": ()}
            self._registry.change(job.id, **changes, **on_requeue)

    # --- evidence ---

    def _files(self, slurm: SlurmVerdict | None, session: SessionEnd | None = None) -> Evidence:
        job, folder = self._job, self._dir
        facts = [
            # A file above the size limit is damaged, and therefore ignored.
            Span(folder.exit(job.restarts), 0, limits.FILE_BYTES),
            Span(folder.started(job.restarts), 0, limits.FILE_BYTES),
            Span(folder.result(job.restarts), 0, limits.FILE_BYTES),
        ]
        progress = kind_of(job).progress_file(job, folder)
        if progress is not None:
            facts.append(Span(progress, -PROGRESS_BYTES))
        tails = [Span(path, -_TAIL_BYTES) for path in (folder.log(job.restarts), folder.slurm_out)]
        if job.session is not None:  # the log and slurm.out belong to the session
            tails = []
        read = self._cluster.transport.read_many
        try:
            found = read([*facts, *tails])
        except NotAFileError:  # the job replaced a file: ignore that file
            found = [self._read(span) for span in [*facts, *tails]]
        except FileAccessError:  # the log and slurm.out are optional
            found = read(facts)
        exit_bytes, started_bytes, result_bytes, *told = found[: len(facts)]
        log, slurm_out = found[len(facts) :] or (None, None)
        started = parse_started(started_bytes) if started_bytes else None
        result = readable_result(result_bytes, self._registry.store.key(self._job))
        exit_file = parse_exit(exit_bytes) if exit_bytes else None
        if exit_file is None and result is not None and job.session is not None:
            exit_file = exit_of(result)  # the session is about to write it
        return Evidence(
            kind=job.kind,
            runtime=job.runtime,
            started=started,
            exit=exit_file,
            result=result,
            slurm=slurm,
            slurm_goes_on=self._slurm_goes_on,
            session=session,
            progress=b"".join(filter(None, told)),
            idle_s=job.idle_s,
            slurm_out=_text(slurm_out),
            unstarted_claim=started is None and exit_bytes is None and self._has_claimed(),
            folder_gone=exit_bytes is None and not self._cluster.transport.exists(self._dir.path),
            log_tail=_text(log),
            limit_passed=bool(
                started and job.limit_s and time.time() > started.time_s + job.limit_s
            ),
            cancel_requested=self._registry.job(job.id).cancel_requested_s is not None,
            unmet=self._unmet(),
        )

    def _unmet(self) -> str | None:
        """Describe a job of `--after` whose end prevents this job from starting; return None if
        nothing prevents it."""
        asked = self._registry.record(self._job.id).asked
        return unmet(asked, self._registry) if asked is not None and asked.after else None

    def _has_claimed(self) -> bool:
        """Return whether the job's own script has claimed the attempt. Batch scripts and cells of
        sessions do not claim attempts."""
        job = self._job
        if kind_of(job).is_raw_script or job.session is not None:
            return False
        return self._cluster.transport.exists(self._dir.claim(job.restarts))

    def _read(self, span: Span) -> bytes | None:
        try:
            return self._cluster.transport.read(*span)
        except NotAFileError:
            return None

    def _end_of_its_session(self, evidence: Evidence) -> SessionEnd | None:
        """Return the session's end if it is the cause of this cell's end. Return None for another
        cause, or for a job that is not a session's cell."""
        session_id = self._job.session
        if session_id is None or (evidence.exit is not None and evidence.exit.signal != "TERM"):
            return None
        try:
            self._registry.wait(
                lambda: self._registry.job(session_id).state.final,
                self._cluster.profile.exit_grace_s,
            )
            session = self._registry.job(session_id)
        except NotFoundError:
            return SessionEnd(state=JobState.LOST, why="The session's record is missing.")
        if not session.state.final:
            return None
        return SessionEnd(
            state=session.state, why=session.why or f"The session is {session.state}."
        )

    # --- Slurm's verdict ---

    def _slurm_verdict(self, evidence: Evidence) -> SlurmVerdict | None:
        """Return Slurm's verdict; wait while Slurm cleans up. Return None if Slurm has forgotten
        the job, or still runs the job although an exit file exists."""
        deadline_s = time.monotonic() + self._cluster.profile.exit_grace_s
        pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        if evidence.exit is not None and self._row is None and self._job.slurm_id is not None:
            # The script has just ended, so wait briefly for Slurm.
            self._pause(next(pauses))
        while True:
            try:
                answer = self._ask_controller()
                if answer is not None:
                    return answer
                return self._ask_accounting()
            except _NotYetError as exc:
                if time.monotonic() > deadline_s:
                    listed = self._from_row()
                    if listed is None and evidence.exit is None:  # no source reports the job's end
                        raise _GoesOnError(self._job.restarts, exc.state) from None
                    self._slurm_goes_on = listed is None
                    return listed
            except (ControllerError, TransportError) as exc:
                self._registry.note_problem(self._job.id, exc)
            self._pause(next(pauses))

    def _with_failed_nodes(self, slurm: SlurmVerdict, evidence: Evidence) -> SlurmVerdict:
        """Return the verdict with the nodes that failed at the job's end, or the node whose Prolog
        failed. After a failed Prolog, Slurm cancels the job without a reason. If the node was
        already starting the job, the state is FAILED with exit code 1."""
        unknown = slurm.cancelled_by is None and not evidence.cancel_requested
        of_prolog = slurm.state in _OF_PROLOG and unknown and evidence.started is None
        if not of_prolog and slurm.state is not JobState.NODE_FAIL:
            return slurm
        if slurm.nodelist is None or slurm.ended_s is None or slurm.tasks is not None:
            return slurm
        try:
            rows = sinfo.parse_reasons(self._cluster.ask(sinfo.reasons_argv(slurm.nodelist)))
        except CommandError:
            return slurm
        near = [r for r in rows if abs((r.since_s or 0.0) - slurm.ended_s) <= _SAME_MOMENT_S]
        if not of_prolog:
            return replace(slurm, lost_nodes=tuple(sorted({visible(row.name) for row in near})))
        for row in near:
            if _PROLOG.search(row.reason):
                return replace(slurm, failed_node=(row.name, visible(row.reason)))
        return slurm

    def _pause(self, pause_s: float) -> None:
        if self._stop.wait(pause_s):
            raise _StoppedError

    def _ask_controller(self) -> SlurmVerdict | None:
        """Return the controller's verdict. If the controller has forgotten the job, return the
        verdict from the job's last row in squeue, or None. Raise _NotYetError or _GoesOnError if
        the job has not ended."""
        if self._job.slurm_id is None:
            return None
        try:
            rows = ask_jobs(self._cluster, self._registry.record(self._job.id))
        except ControllerError:
            raise
        except CommandError as exc:
            raise ControllerError(exc.message, hint=exc.hint, detail=exc.detail) from exc
        self._registry.clear_problem(self._job.id)
        if not rows:
            return self._from_row()
        note_outputs(self._registry, self._job.id, rows[0].stdout, rows[0].stderr)
        note_paths(self._registry, self._job.id, rows)
        tasks = self._note_tasks([(row.array_task_id, row.state) for row in rows])
        unfinished = [row for row in rows if not states.is_terminal(row.state)]
        if unfinished:
            restarts = unfinished[0].requeues or 0
            if restarts > self._job.restarts:
                raise _GoesOnError(restarts)
            raise _NotYetError(state_named(unfinished[0].state))
        if array_tasks.UNSEEN in tasks and (known := self._ask_accounting()) is not None:
            return known
        worst = max(rows, key=lambda row: row.state != "COMPLETED")
        of_all = SlurmVerdict(
            state=JobState(worst.state),
            exit_code=worst.exit_code,
            signal=worst.exit_signal or None,
            ended_s=worst.end_s,
            nodelist=worst.nodelist,
        )
        codes = {row.array_task_id: row.exit_code for row in rows}
        return _with_tasks(of_all, tasks, codes)

    def _note_tasks(self, found: list[tuple[str | None, str]]) -> dict[str, str]:
        """Update and return the states of an array's tasks."""
        with self._registry.lock():
            tasks = array_tasks.merged(self._registry.job(self._job.id).tasks, found)
            return self._registry.change(self._job.id, tasks=tasks).tasks

    def _ask_accounting(self) -> SlurmVerdict | None:
        """Return the verdict of accounting; None if accounting does not report the job's end."""
        if self._job.slurm_id is None:
            return None
        try:
            known = ask_accounting(self._cluster, self._registry.record(self._job.id))
        except CommandError:
            return None
        rows = [row for row in known if row.step is None]
        if not rows:
            return None
        # With `sacct -D`, the last of several records is the newest. Each array task has its own
        # records.
        latest = {row.slurm_id: row for row in rows}.values()
        if not all(states.is_terminal(row.state) for row in latest):
            return None
        indices = {row.slurm_id.partition("_")[2] or None: row for row in latest}
        tasks = self._note_tasks([(index, row.state) for index, row in indices.items()])
        row = max(latest, key=lambda row: row.state != "COMPLETED")
        of_all = SlurmVerdict(
            state=JobState(row.state),
            exit_code=row.exit_code,
            signal=row.exit_signal or None,
            ended_s=row.end_s,
            cancelled_by=str(row.cancelled_by) if row.cancelled_by is not None else None,
            nodelist=row.nodelist,
        )
        codes = {index: row.exit_code for index, row in indices.items()}
        return _with_tasks(of_all, tasks, codes)

    def _from_row(self) -> SlurmVerdict | None:
        if self._row is None or not states.is_terminal(self._row.state):
            return None
        return SlurmVerdict(
            state=JobState(self._row.state),
            ended_s=self._row.end_s,
            nodelist=self._row.nodelist,
        )

    # --- the record ---

    def _record(self, verdict: Verdict, evidence: Evidence) -> None:
        with self._registry.lock():
            job = self._registry.job(self._job.id)
            if not job.state.final:
                self._enter(job, verdict, evidence)

    def _enter(self, job: Job, verdict: Verdict, evidence: Evidence) -> None:
        started_s = evidence.started.time_s if evidence.started else job.started_s
        if evidence.slurm is not None and evidence.slurm.failed_node is not None:
            started_s = None  # squeue shows RUNNING while a node prepares for the job
        ended_s = evidence.exit.time_s if evidence.exit else None
        if self._row is not None and ended_s is None:
            ended_s = self._row.end_s
        ended_s = ended_s or time.time()
        usage = _usage(job, evidence.result, started_s, ended_s)
        self._registry.change(
            job.id,
            state=verdict.state,
            why=measured(verdict.why, usage),
            advice=verdict.advice,
            warning=verdict.warning or job.warning,
            exit_code=verdict.exit_code,
            signal=verdict.signal,
            inferred=verdict.inferred,
            reason=None,
            problem=None,
            problem_since_s=None,
            start_estimate_s=None,
            **kind_of(job).at_end,
            **_ranks(job, evidence.result),
            **(evidence.started.known(job) if evidence.started else {}),
            started_s=started_s,
            ended_s=ended_s,
            erased_s=self._cluster.profile.storage.erased_s(job.job_dir, ended_s),
            usage=usage,
        )


def is_unstarted(job: Job, row: QueueRow) -> bool:
    """Return whether the job's row proves that the job was cancelled while it waited."""
    by_itself = job.session is None and not job.on_login and not job.tasks
    never_ran = job.started_s is None and job.restarts == 0 and row.nodelist is None
    return by_itself and never_ran and row.state == "CANCELLED" and row.array_job_id is None


def _with_tasks(
    last: SlurmVerdict, tasks: Mapping[str, str], codes: Mapping[str | None, int | None]
) -> SlurmVerdict:
    """Return Slurm's verdict on an array, based on all of its tasks. If Slurm has forgotten a
    failed task, the task's exit code is unknown."""
    if not tasks:
        return last
    state = last.state
    if state is JobState.COMPLETED:
        bad = next((one for one in tasks if one not in ("COMPLETED", array_tasks.UNSEEN)), None)
        state = JobState(bad) if bad else JobState.LOST if array_tasks.UNSEEN in tasks else state
    exit_code = last.exit_code if state is last.state else None
    # If all failed tasks were cancelled, keep Slurm's verdict, because it may name the user who
    # cancelled them.
    all_cancelled = {"COMPLETED", "CANCELLED"}.issuperset(tasks)
    return replace(
        last,
        state=state,
        exit_code=exit_code,
        tasks=None if all_cancelled else array_tasks.failures(tasks, codes),
    )


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


class _NotYetError(Exception):
    """Slurm reports `state` and has not finished ending the job."""

    def __init__(self, state: JobState) -> None:
        super().__init__(state)
        self.state = state


class _StoppedError(Exception):
    """The agent is stopping. The next agent judges the job."""


class _GoesOnError(Exception):
    """The job has not ended. Slurm reports `state`, or has requeued the job with a higher
    `restarts`."""

    def __init__(self, restarts: int, state: JobState = JobState.RUNNING) -> None:
        super().__init__(restarts, state)
        self.restarts = restarts
        self.state = state


def _ranks(job: Job, result: RunnerResult | None) -> dict[str, int]:
    """Return the field `ranks` for a cell on many nodes; {} for other jobs, or without a result."""
    if isinstance(job, CellJob) and job.launch and result:
        return {"ranks": result.ranks}
    return {}


def _usage(
    job: Job, result: RunnerResult | None, started_s: float | None, ended_s: float
) -> Usage | None:
    if started_s is None:
        return None
    known = job.usage or Usage()
    return Usage(
        elapsed_s=max(0.0, ended_s - started_s),
        cpu_s=(result.cpu_s or None) if result else known.cpu_s,
        peak_memory_mib=(result.peak_rss_mib or None) if result else known.peak_memory_mib,
        cpus=known.cpus,
        memory_mib=known.memory_mib,
        gpus=known.gpus,
    )
