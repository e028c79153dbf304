"""The tasks of a sweep, judged by the queue and the tasks' own files.

`verdict.py` judges the end of a task like the end of a job. Facts about the tasks are cached in
memory. The record contains only the tasks' states (`Job.tasks`); the next agent reads everything
else from the files again.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

from jupyter_slurm.errors import CommandError, FileAccessError
from jupyter_slurm.formatting import counted
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds.kind import SUCCEEDED
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.allocation import ask_rows
from jupyter_slurm.jobs.outcome.array_tasks import (
    by_task,
    is_end,
    live_arrays,
    runs,
    states_of,
)
from jupyter_slurm.jobs.outcome.result import (
    ExitFile,
    RunnerResult,
    StartedFile,
    parse_exit,
    parse_started,
    readable_result,
)
from jupyter_slurm.jobs.outcome.verdict import (
    Cause,
    Evidence,
    SlurmVerdict,
    Verdict,
    ended_by_itself,
    judge,
)
from jupyter_slurm.jobs.records.registry import JobRegistry, TaskArray
from jupyter_slurm.jobs.submission.dependencies import unmet
from jupyter_slurm.jobs.watching.queue_rows import bears_id, is_of_array, waits_for
from jupyter_slurm.slurm import sacct, scontrol
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.slurm.units import format_array, indices
from jupyter_slurm.transport import Span, limits
from jupyter_slurm.wire import (
    JobKind,
    JobState,
    SweepFailure,
    SweepJob,
    SweepTasks,
    Usage,
    state_word,
)

_AT_ONCE = 250
"""The number of tasks per read request."""
_FACT_BYTES = 4096
_TAIL_BYTES = 8192
_SLURM_OUT_BYTES = 1 << 20
_ABOUT = re.compile(r"(?:StepId=|JOB |STEP |[Jj]ob )([0-9]{1,10})(?![0-9])")
"""The raw ID of a task in a message of slurmstepd."""
_FAILURES = 20
"""The maximum number of different errors that are reported."""
_WAITS = frozenset("PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD".split())
_WITHOUT_CAUSE = frozenset(("COMPLETED", "FAILED"))
"""End states of tasks that leave an exit file, which may arrive late."""


class TaskEnd(NamedTuple):
    """The end of a task."""

    verdict: Verdict
    attempt: int
    node: str | None = None
    ended_s: float | None = None
    elapsed_s: float | None = None
    result: RunnerResult | None = None

    @property
    def state(self) -> str:
        return self.verdict.state.value


class _Files(NamedTuple):
    """The files of one attempt of a task."""

    attempt: int
    started: StartedFile | None
    exit: ExitFile | None
    result: RunnerResult | None


@dataclass(frozen=True, slots=True)
class _Row:
    """Slurm's facts about a task."""

    state: str
    why: str | None = None
    nodelist: str | None = None
    ended_s: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    cancelled_by: str | None = None


def count_failures(tasks: Mapping[str, str]) -> str:
    """Return a message with the numbers of failed tasks by state."""
    counts = {state: len(indices(text)) for state, text in tasks.items()}
    failed = {state: count for state, count in counts.items() if state != "COMPLETED"}
    text = f"{sum(failed.values())} of {counted(sum(counts.values()), 'task')} failed"
    if {*failed} == {"FAILED"}:
        return f"{text}."
    return f"{text} ({', '.join(f'{n} {state_word(state)}' for state, n in failed.items())})."


class SweepTable:
    """The tasks of one sweep. The table is thread-safe."""

    def __init__(self, registry: JobRegistry, cluster: SlurmCluster, job_id: str) -> None:
        self._registry = registry
        self._cluster = cluster
        self._id = job_id
        self._dir = JobDir(PurePosixPath(registry.job(job_id).job_dir))
        self._lock = threading.RLock()
        self._arrays: dict[int, TaskArray] = {}
        self._known_arrays: tuple[TaskArray, ...] = ()
        self._ends: dict[int, TaskEnd] = {}
        self._attempts: dict[int, int] = {}
        self._started: dict[int, StartedFile] = {}
        self._files: dict[int, _Files] = {}
        """Files of tasks without a known end."""
        self._rows: dict[int, _Row] = {}
        self._over_since_s: dict[int, float] = {}
        """The time when Slurm first reported a task's end, for each task without a verdict."""
        self._news_bytes = 0
        self._asked_s = 0.0
        self._params: dict[str, tuple[str, ...]] | None = None
        """The values of the parameters; None before they are read."""

    # --- news and listings ---

    def news(self) -> None:
        """Read the files of tasks that have just started or ended."""
        with self._lock:
            self._follow_arrays()
            read = self._cluster.transport.read
            data = read(self._dir.news, self._news_bytes, limits.FILE_BYTES) or b""
            whole = data[: data.rfind(b"\n") + 1]
            self._news_bytes += len(whole)
            told = (line.split(b" ")[0] for line in whole.splitlines())
            tasks = {int(word) for word in told if word.isdigit() and len(word) < 9}
            known = states_of(self._registry.job(self._id).tasks)
            self._look(task for task in sorted(tasks) if not is_end(known.get(task, "LOST")))
            self._publish()

    def listed(self, rows: Iterable[QueueRow], began_s: float) -> None:
        """Compare the tasks with a listing of the queue that began at `began_s`. `rows` are the
        sweep's rows."""
        with self._lock:
            self._follow_arrays()
            found, unread = self._rows_of(rows)
            self._rows = found
            known = states_of(self._registry.job(self._id).tasks)
            over = [
                task
                for task, array in self._arrays.items()
                if task not in self._ends
                and not is_end(known[task])
                and array.submitted_s is not None
                and array.submitted_s < began_s
                and array.token not in unread
                and (task not in found or is_end(found[task].state))
            ]
            requeued = [t for t in self._started if t in found and found[t].state in _WAITS]
            self._look([*over, *requeued])
            self._judge(over)
            self._publish()

    def _rows_of(self, rows: Iterable[QueueRow]) -> tuple[dict[int, _Row], set[str]]:
        """Return the rows of tasks, and the arrays with an unreadable row."""
        arrays = {one.slurm_id: one for one in self._known_arrays if one.slurm_id}
        found: dict[int, _Row] = {}
        unread: set[str] = set()
        for row in rows:
            array = arrays.get(row.whole_id)
            if array is None or not is_of_array(array, row):
                continue
            listed = indices(row.array_task_id)
            if not listed:
                unread.add(array.token)
            why = waits_for(row)["why"] if row.state in _WAITS else None
            known = _Row(row.state, str(why) if why else None, row.nodelist, row.end_s)
            for task in (index + array.offset for index in listed):
                if self._is_of(task, array):
                    found[task] = known
        return found, unread

    def _is_of(self, task: int, array: TaskArray) -> bool:
        return task in self._arrays and self._arrays[task].token == array.token

    def _follow_arrays(self) -> None:
        """Update the arrays, and forget the ends of tasks that were submitted again."""
        record = self._registry.record(self._id)
        if record.arrays == self._known_arrays:
            return
        before, self._arrays = self._arrays, by_task(record.arrays)
        self._known_arrays = record.arrays
        for task, array in self._arrays.items():
            if task in before and before[task].base != array.base:
                for known in (self._ends, self._started, self._files, self._rows):
                    known.pop(task, None)
                self._over_since_s.pop(task, None)
                self._attempts[task] = array.base

    # --- files ---

    def _look(self, tasks: Iterable[int]) -> None:
        """Read the files of these tasks, and note ends that their files prove."""
        for task, files in self._read([t for t in dict.fromkeys(tasks) if t not in self._ends]):
            if files.started is not None:
                self._started[task] = files.started
            verdict = ended_by_itself(self._evidence(files, None))
            if verdict is not None:
                self._ends[task] = _end(verdict, files)
                self._files.pop(task, None)
            else:
                self._files[task] = files

    def _read(self, tasks: Sequence[int]) -> Iterator[tuple[int, _Files]]:
        """Yield each task with the files of its newest attempt."""
        left = list(tasks)
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            again = []
            for task, is_newer, files in self._read_some(some):
                if is_newer:
                    again.append(task)
                else:
                    yield task, files
            left = again + left

    def _read_some(self, tasks: Sequence[int]) -> Iterator[tuple[int, bool, _Files]]:
        key = self._registry.store.key(self._registry.job(self._id)) or b""
        spans = []
        for task in tasks:
            folder, attempt = self._dir.task(task), self._attempt(task)
            spans += [
                Span(folder.started(attempt), 0, _FACT_BYTES),
                Span(folder.exit(attempt), 0, _FACT_BYTES),
                Span(folder.result(attempt), 0, limits.FILE_BYTES),
                Span(folder.started(attempt + 1), 0, _FACT_BYTES),
            ]
        read = iter(self._contents(spans))
        for task in tasks:
            started, ended, result, newer = (next(read) for _ in range(4))
            attempt = self._attempt(task)
            self._attempts[task] = attempt + 1 if newer else attempt
            yield (
                task,
                bool(newer),
                _Files(
                    attempt,
                    parse_started(started) if started else None,
                    parse_exit(ended) if ended else None,
                    readable_result(result, key),
                ),
            )

    def _contents(self, spans: Sequence[Span]) -> list[bytes | None]:
        try:
            return self._cluster.transport.read_many(spans)
        except FileAccessError:  # a path is not a file: ignore it
            return [self._content(span) for span in spans]

    def _content(self, span: Span) -> bytes | None:
        try:
            return self._cluster.transport.read(*span)
        except FileAccessError:
            return None

    def _attempt(self, task: int) -> int:
        base = self._arrays[task].base if task in self._arrays else 0
        return self._attempts.get(task, base)

    def attempts(self, task: int) -> int:
        """Return the number of attempts of the task."""
        if task not in self._attempts:
            with self._lock:
                self._follow_arrays()
                for _ in self._read([task]):
                    pass
        return self._attempt(task) + 1

    # --- the ends of tasks ---

    def _evidence(self, files: _Files, slurm: SlurmVerdict | None) -> Evidence:
        job = self._registry.job(self._id)
        return Evidence(
            kind=JobKind.SWEEP,
            runtime=job.runtime,
            started=files.started,
            exit=files.exit,
            result=files.result,
            slurm=slurm,
            cancel_requested=job.cancel_requested_s is not None,
        )

    def _judge(self, over: Iterable[int]) -> None:
        """Judge the tasks that Slurm reports as ended."""
        now_s, unknown, known = time.monotonic(), list[int](), dict[int, _Row | None]()
        patience_s = self._cluster.profile.lost_after_s
        for task in over:
            if task in self._ends:
                continue
            since_s = self._over_since_s.setdefault(task, now_s)
            row = self._rows.get(task)
            is_patient = now_s - since_s < patience_s
            if row is not None and not (row.state in _WITHOUT_CAUSE and self._lacks_exit(task)):
                known[task] = row
            elif not is_patient:
                unknown.append(task)
        if unknown and now_s - self._asked_s >= patience_s:
            self._asked_s = now_s
            told = self._ask(unknown)
            for task in unknown:
                row = told.get(task) or self._rows.get(task)
                if row is None or is_end(row.state):
                    known[task] = row
        self._settle(known)
        self._over_since_s = {t: s for t, s in self._over_since_s.items() if t not in self._ends}

    def _lacks_exit(self, task: int) -> bool:
        files = self._files.get(task)
        return files is None or files.exit is None

    def _settle(self, known: Mapping[int, _Row | None]) -> None:
        """Judge the tasks in `known` with Slurm's rows. The row is None for a task that Slurm does
        not report."""
        blank = {task: _Files(self._attempt(task), None, None, None) for task in known}
        found = {task: self._files.get(task) or files for task, files in blank.items()}
        logs = self._logs({task: one for task, one in found.items() if one.started})
        before = unmet(self._registry.record(self._id).asked, self._registry)
        for task, row in known.items():
            files = found[task]
            slurm = None if row is None else _slurm_verdict(row)
            slurm_out, log_tail = logs.get(task, ("", ""))
            evidence = replace(
                self._evidence(files, slurm), slurm_out=slurm_out, log_tail=log_tail, unmet=before
            )
            self._ends[task] = _end(judge(evidence), files, row)
            self._files.pop(task, None)

    def _logs(self, started: Mapping[int, _Files]) -> dict[int, tuple[str, str]]:
        """Return the lines of each task in the shared slurm.out, and the end of the task's log."""
        if not started:
            return {}
        [of_slurm] = self._contents([Span(self._dir.slurm_out, -_SLURM_OUT_BYTES)])
        lines = (of_slurm or b"").decode(errors="replace").splitlines()
        by_id: dict[str, list[str]] = {}
        for line in lines:
            for slurm_id in _ABOUT.findall(line):
                by_id.setdefault(slurm_id, []).append(line)
        found: dict[int, tuple[str, str]] = {}
        tasks = list(started)
        for at in range(0, len(tasks), _AT_ONCE):
            some = tasks[at : at + _AT_ONCE]
            paths = [self._dir.task(task).log(started[task].attempt) for task in some]
            tails = self._contents([Span(path, -_TAIL_BYTES) for path in paths])
            for task, tail in zip(some, tails, strict=True):
                file = started[task].started
                told = by_id.get(file.slurm_id, []) if file else []
                found[task] = ("\n".join(told), (tail or b"").decode(errors="replace"))
        return found

    def _ask(self, tasks: Sequence[int]) -> dict[int, _Row]:
        """Ask the controller and then accounting, once for each array, for the ends of these
        tasks."""
        wanted: dict[str, list[int]] = {}
        for task in tasks:
            wanted.setdefault(self._arrays[task].token, []).append(task)
        found: dict[int, _Row] = {}
        for array in self._known_arrays:
            some = wanted.get(array.token)
            if some and array.slurm_id:
                found |= self._by_controller(array, array.slurm_id)
                if any(task not in found for task in some):
                    found = {**self._by_accounting(array, array.slurm_id), **found}
        return found

    def _by_controller(self, array: TaskArray, slurm_id: str) -> dict[int, _Row]:
        return {
            task: _row_of(row)
            for row in ask_rows(self._cluster, slurm_id)
            if bears_id(array.token, row)
            for task in self._tasks_of(array, row.array_task_id)
        }

    def _by_accounting(self, array: TaskArray, slurm_id: str) -> dict[int, _Row]:
        try:
            rows = sacct.parse(self._cluster.ask(sacct.argv([slurm_id])))
        except CommandError:
            return {}
        return {
            task: _row_of(row, None if row.cancelled_by is None else str(row.cancelled_by))
            for row in rows
            if row.step is None and row.name.endswith(f".{array.token}")
            for task in self._tasks_of(array, row.slurm_id.partition("_")[2])
        }

    def _tasks_of(self, array: TaskArray, text: str | None) -> Iterator[int]:
        for index in indices(text):
            if self._is_of(index + array.offset, array):
                yield index + array.offset

    # --- the job ---

    def _state(self, task: int, known: Mapping[int, str]) -> str:
        if task in self._ends:
            return self._ends[task].state
        before = known[task]
        if is_end(before):
            return before
        row = self._rows.get(task)
        if row is not None and not is_end(row.state):
            return "RUNNING" if task in self._started and row.state in _WAITS else row.state
        if task in self._started or row is not None:
            return "RUNNING"
        return before if task in self._arrays else "PENDING"

    def _publish(self) -> None:
        """Update the job from the states of its tasks. Cancel the other tasks after `max_fails`
        failures."""
        with self._registry.lock():
            job = self._registry.job(self._id)
            assert isinstance(job, SweepJob)
            if job.state.final or job.state is JobState.SUBMITTING:
                return
            known = states_of(job.tasks)
            now = {task: self._state(task, known) for task in known}
            tasks = runs(now.items())
            ends = [state for state in now.values() if is_end(state)]
            if len(ends) == len(now):
                self._registry.change(job.id, tasks=tasks, **self._end_of_all(job, tasks))
                return
            changes = self._progress(job, now)
            self._registry.change(job.id, tasks=tasks, **changes)
            failed = sum(state not in ("COMPLETED", "CANCELLED") for state in ends)
            stops = job.max_fails is not None and failed >= job.max_fails
            if stops and job.stopped_s is None:
                job = self._registry.change(job.id, stopped_s=time.time())
            else:
                stops = False
        if stops:
            self._stop_rest()

    def _progress(self, job: SweepJob, now: Mapping[int, str]) -> dict[str, object]:
        """Return the fields of a job with unfinished tasks."""
        running = [t for t, state in now.items() if not is_end(state) and state not in _WAITS]
        begun_s = [one.time_s for one in self._started.values()]
        started_s = job.started_s or min(begun_s, default=None)
        nodes = {self._started[task].node for task in running if task in self._started}
        changes: dict[str, object] = {"nodes": tuple(sorted(nodes)), "started_s": started_s}
        if running or any(map(is_end, now.values())):
            changes |= {"state": JobState.RUNNING, "reason": None, "why": None, "advice": None}
            changes["start_estimate_s"] = None
        return changes

    def _end_of_all(self, job: SweepJob, tasks: Mapping[str, str]) -> dict[str, object]:
        """Return the fields of a job whose tasks have all ended."""
        ended_s = max((e.ended_s for e in self._ends.values() if e.ended_s), default=time.time())
        failed = {*tasks} - {"COMPLETED"}
        state, why = JobState.COMPLETED, SUCCEEDED
        if failed:
            state = JobState.CANCELLED if failed == {"CANCELLED"} else JobState.FAILED
            causes = {end.verdict.why for end in self._ends.values()}
            why = count_failures(tasks)
            if state is JobState.CANCELLED and job.cancel_requested_s is not None:
                why = Cause.CANCELLED_BY_YOU.why
            elif state is JobState.CANCELLED and len(causes) == 1:
                [why] = causes
        if job.stopped_s is not None:
            why = f"{why} Stopped by --max-fails {job.max_fails}."
        begun_s = [one.time_s for one in self._started.values()]
        started_s = job.started_s or min(begun_s, default=None)
        return {
            "state": state,
            "why": why,
            "advice": f"Submit the failed tasks again with `%slurm retry {job.id}`."
            if failed
            else None,
            "reason": None,
            "problem": None,
            "problem_since_s": None,
            "start_estimate_s": None,
            "started_s": started_s,
            "ended_s": ended_s,
            "erased_s": self._cluster.profile.storage.erased_s(job.job_dir, ended_s),
            "usage": self._usage(job, started_s, ended_s),
        }

    def _usage(self, job: SweepJob, started_s: float | None, ended_s: float) -> Usage | None:
        if started_s is None:
            return None
        results = [one.result for one in self._ends.values() if one.result]
        known = job.usage or Usage()
        return Usage(
            elapsed_s=max(0.0, ended_s - started_s),
            cpu_s=(sum(one.cpu_s for one in results) or None) if results else known.cpu_s,
            peak_memory_mib=max((one.peak_rss_mib for one in results), default=0.0) or None,
            cpus=known.cpus,
            memory_mib=known.memory_mib,
            gpus=known.gpus,
        )

    def _stop_rest(self) -> None:
        """Cancel the unfinished tasks after `max_fails` failures."""
        arrays = live_arrays(self._registry.record(self._id))
        if not arrays:
            return
        try:
            self._cluster.cancel(arrays)
        except CommandError:
            self._registry.change(self._id, stopped_s=None)  # the next listing retries
            raise

    # --- answers ---

    def ends(self) -> dict[int, TaskEnd]:
        """Return the ends of the tasks, including those that an earlier agent has seen."""
        with self._lock:
            self._follow_arrays()
            known = states_of(self._registry.job(self._id).tasks)
            unread = [t for t, state in known.items() if is_end(state) and t not in self._ends]
            self._look(unread)
            left = [task for task in unread if task not in self._ends]
            self._settle({t: None if known[t] == "LOST" else _Row(known[t]) for t in left})
            return dict(self._ends)

    def tasks(self) -> SweepTasks:
        """Return states, reasons, nodes and usage of all tasks."""
        ends = self.ends()
        with self._lock:
            job = self._registry.job(self._id)
            assert isinstance(job, SweepJob)
            if self._params is None:
                self._params = self._read_params() if job.names_params else {}
            states = states_of(job.tasks)
            order = sorted(states)
            nodes = {task: started.node for task, started in self._started.items()}
            nodes |= {task: end.node for task, end in ends.items() if end.node}
            # A task may have started since the listing.
            waits = {t: row.why for t, row in self._rows.items() if row.why and states[t] in _WAITS}
            reasons = {**waits, **{t: e.verdict.why for t, e in ends.items()}}
            bad = {t for t in order if t not in ends or ends[t].state != "COMPLETED"}
            results = [ends[task].result if task in ends else None for task in order]
            return SweepTasks(
                job=job,
                states=job.tasks,
                reasons=runs((t, why) for t, why in reasons.items() if t in bad),
                nodes=runs(nodes.items()),
                elapsed_s=tuple(ends[t].elapsed_s if t in ends else None for t in order),
                peak_mib=tuple((one.peak_rss_mib or None) if one else None for one in results),
                failures=_failures(ends),
                params=self._params,
            )

    def _read_params(self) -> dict[str, tuple[str, ...]]:
        """Return the values of the parameters as text; {} without a file."""
        [data] = self._contents([Span(self._dir.path / layout.PARAMS_TEXT, 0, limits.OUTPUT_BYTES)])
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(data or b"{}", type=dict[str, tuple[str, ...]])
        return {}


def _row_of(row: scontrol.ControlRow | sacct.AcctRow, cancelled_by: str | None = None) -> _Row:
    signal = row.exit_signal or None
    return _Row(row.state, None, row.nodelist, row.end_s, row.exit_code, signal, cancelled_by)


def _end(verdict: Verdict, files: _Files, row: _Row | None = None) -> TaskEnd:
    started, result = files.started, files.result
    ended_s = files.exit.time_s if files.exit else row.ended_s if row else None
    elapsed_s = None
    if result is not None:
        elapsed_s = result.ended_s - result.started_s
    elif started is not None and ended_s is not None:
        elapsed_s = max(0.0, ended_s - started.time_s)
    node = started.node if started else row.nodelist if row else None
    return TaskEnd(verdict, files.attempt, node, ended_s, elapsed_s, result)


def _slurm_verdict(row: _Row) -> SlurmVerdict:
    return SlurmVerdict(
        state=JobState(row.state),
        exit_code=row.exit_code,
        signal=row.signal,
        ended_s=row.ended_s,
        cancelled_by=row.cancelled_by,
        nodelist=row.nodelist,
    )


def _failures(ends: Mapping[int, TaskEnd]) -> tuple[SweepFailure, ...]:
    """Return the errors of failed tasks, the most frequent first."""
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for task, end in sorted(ends.items()):
        # If Slurm ended a task, its traceback does not show the cause.
        if end.result is not None and end.result.ename and end.state == "FAILED":
            found.setdefault((end.result.ename, end.result.traceback), []).append(task)
    frequent = sorted(found.items(), key=lambda one: -len(one[1]))[:_FAILURES]
    failures = []
    for (ename, traceback), some in frequent:
        result = ends[some[0]].result
        evalue = result.evalue if result and result.evalue else ""
        told = SweepFailure(
            tasks=format_array(some), ename=ename, evalue=evalue, traceback=traceback
        )
        failures.append(told)
    return tuple(failures)


class Sweeps:
    """The tables of the sweeps of one cluster."""

    def __init__(self, registry: JobRegistry, cluster: SlurmCluster) -> None:
        self._make: Callable[[str], SweepTable] = lambda job_id: SweepTable(
            registry, cluster, job_id
        )
        self._tables: dict[str, SweepTable] = {}
        self._lock = threading.Lock()

    def table(self, job_id: str) -> SweepTable:
        """Return the table of a sweep. Raises NotFoundError."""
        with self._lock:
            if job_id not in self._tables:
                self._tables[job_id] = self._make(job_id)
            return self._tables[job_id]

    def drop(self, job_id: str) -> None:
        """Drop the table of an ended sweep. A new table would read the files again."""
        with self._lock:
            self._tables.pop(job_id, None)
