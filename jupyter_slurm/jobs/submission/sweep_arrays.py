"""The submission of a sweep as one job array, or as several if the cluster's limits require it.

Each array has its own token and is submitted exactly once, like a job. MaxArraySize limits an
array's indices, so a longer sweep has arrays with an offset. An array that exceeds the user's
submit limit is halved, and the rest waits until tasks have ended.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from jupyter_slurm.errors import ControllerError, JupyterSlurmError, RequestError
from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.kinds.kind import Files
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.array_tasks import live_arrays, live_tasks, with_states
from jupyter_slurm.jobs.records.registry import Record, TaskArray
from jupyter_slurm.jobs.submission.options import array_option, comment_token, slurm_name
from jupyter_slurm.jobs.submission.prepare import Submission
from jupyter_slurm.jobs.submission.submit import Submitter, sbatch_words
from jupyter_slurm.slurm import options, sbatch
from jupyter_slurm.slurm.rejections import is_dependency_problem, is_submit_limit
from jupyter_slurm.slurm.units import (
    format_array,
    format_memory,
    format_time,
    indices,
    parse_memory_mib,
    parse_time_s,
)
from jupyter_slurm.transport import Completed
from jupyter_slurm.wire import JobState, SweepJob, SweepSpec, new_id

_LONGEST_TEXT = 3000
"""The maximum length of --array in characters. sbatch accepts 4096."""
_SMALLEST_SHARE = 4
"""The minimum size of a split array, as a fraction (1/4) of the tasks in the queue. The rest waits
until that many tasks have ended. Otherwise each end of a task would start another array."""
_WAIT_S = 60.0
_TIMES = re.compile(r"(?=[0.]*[1-9])([0-9]{1,4}(?:\.[0-9]{1,3})?)x")
"""A pattern for a multiple of the tasks' limit, such as `2x`."""
_OURS = frozenset("array job-name comment dependency output open-mode chdir".split())


def plan(tasks: Iterable[int], size: int | None) -> list[TaskArray]:
    """Return the arrays for these tasks. `size` is MaxArraySize. If `size` is None, the indices do
    not change.

    >>> [(array.tasks, array.offset) for array in plan(range(25), 20)]
    [('0-19', 0), ('20-24', 20)]
    """
    by_offset: dict[int, list[int]] = {}
    for task in sorted(tasks):
        by_offset.setdefault(0 if size is None else task // size * size, []).append(task)
    return [
        TaskArray(token=new_id(), tasks=format_array(some), offset=offset)
        for offset, together in by_offset.items()
        for some in _short(together, offset)
    ]


def _short(tasks: list[int], offset: int) -> list[list[int]]:
    """Split the tasks until --array is short enough."""
    if len(format_array(task - offset for task in tasks)) <= _LONGEST_TEXT:
        return [tasks]
    middle = len(tasks) // 2
    return [*_short(tasks[:middle], offset), *_short(tasks[middle:], offset)]


def array_command(
    command: tuple[str, ...], array: TaskArray, max_running: int | None, after: str | None
) -> list[str]:
    """Return the sbatch command of one array. `command` is the command of the sweep. `after` is
    Slurm's ID of the array that must end first."""
    given = sbatch.options_of(command)
    tasks = format_array(task - array.offset for task in indices(array.tasks))
    name = given["job-name"].rpartition(".")[0]
    _, blank, words = given["comment"].partition(" ")
    dependency = None if array.base else given.get("dependency")
    if after is not None:
        # Alternatives (`?`) cannot be combined with another dependency. The previous array already
        # waits for the alternatives.
        together = dependency if dependency and "?" not in dependency else None
        dependency = ",".join(filter(None, (together, f"afterany:{after}")))
    of_array: dict[str, str | None] = {
        "array": array_option(tasks, max_running),
        "job-name": slurm_name(name, array.token),
        "comment": f"{comment_token(array.token)}{blank}{words}",
        "dependency": dependency,
        **array.options,
    }
    return sbatch.with_options(command, of_array, (str(array.offset), str(array.base)))


def without_met_dependency(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sbatch command for another array of a sweep that has started. The dependency of
    the sweep is already met, and Slurm may have forgotten the earlier jobs. Keep `aftercorr`, which
    applies to each task separately."""
    if "aftercorr" in sbatch.options_of(command).get("dependency", ""):
        return command
    return tuple(sbatch.with_options(command, {"dependency": None}, ()))


class SweepSubmitter(Submitter):
    """The submission of one sweep, until all its arrays are submitted."""

    _full_at: int | None = None
    """The number of tasks in the queue when the submit limit was reached."""
    _seen = -1
    """The job's revision at the last check of the submit limit."""
    _after: str | None = None
    """Slurm's ID of the array that must end before the next array starts."""
    refusal: JupyterSlurmError | None = None
    """The reason why a retry was not submitted."""
    on_sent: Callable[[], None] | None = None
    """A function to call after each submitted array. It starts the watch, since later arrays may
    wait for tasks to end."""

    def _step(self) -> bool:
        self._plan()
        while (array := self._unsent()) is not None:
            self._dir = self._folder_of(array)
            if not self._pursue():
                return False
            if self._registry.job(self._id).state.final or self._stop.is_set():
                return True
        self._cancel_sent()
        return True

    # --- the arrays ---

    @property
    def _record(self) -> Record:
        return self._registry.record(self._id)

    @property
    def _sweep(self) -> SweepJob:
        job = self._record.job
        assert isinstance(job, SweepJob)
        return job

    def _plan(self) -> None:
        record = self._record
        if record.arrays or not isinstance(record.spec, SweepSpec):
            return
        size = self._cluster.max_array_size() if record.spec.names_params else None
        first, *others = plan(indices(record.spec.tasks), size)
        arrays = (replace(first, token=self._id), *others)
        with self._registry.lock():
            if not self._record.job.state.final:
                self._registry.note(self._id, arrays=arrays)

    def _unsent(self) -> TaskArray | None:
        return next((one for one in self._record.arrays if one.slurm_id is None), None)

    def _put(self, array: TaskArray, *others: TaskArray) -> None:
        """Replace the first unsubmitted array, and insert others after it."""
        with self._registry.lock():  # a retry may add arrays
            arrays = self._record.arrays
            at = next(at for at, one in enumerate(arrays) if one.slurm_id is None)
            together = (*arrays[:at], array, *others, *arrays[at + 1 :])
            calls = sum(one.sbatch_calls for one in together)
            self._registry.note(self._id, arrays=together, sbatch_calls=calls)

    def _folder_of(self, array: TaskArray) -> JobDir:
        whole = JobDir(self._whole)
        return whole if array.token == self._id else whole.array(array.token)

    @property
    def _token(self) -> str:
        array = self._unsent()
        return self._id if array is None else array.token

    @property
    def _calls(self) -> int:
        array = self._unsent()
        return 0 if array is None else array.sbatch_calls

    def _note_calls(self, calls: int, **known: object) -> None:
        array = self._unsent()
        if array is not None:
            self._put(replace(array, sbatch_calls=calls))
        if known:
            self._registry.note(self._id, **known)

    # --- sbatch ---

    def _call_sbatch(self) -> bool:
        if not self._waited_for_room():
            return self._cancelled_meanwhile()
        if self._record.spec is not None:  # the first array, with all files
            return super()._call_sbatch()
        command = self._command(self._record.command)
        return self._called(lambda: self._deliver(command, {}))

    def _hand_over(self, submission: Submission, files: Files) -> Completed:
        return self._deliver(self._command(submission.sbatch), files)

    def _deliver(self, command: list[str], files: Files) -> Completed:
        with self._silence_told():
            return self._cluster.deliver(self._dir.path, files, sbatch.call_once(command))

    def _command(self, command: tuple[str, ...]) -> list[str]:
        array, job = self._unsent(), self._sweep
        assert array is not None
        before = live_arrays(self._record) if job.max_running is not None else []
        self._after = before[-1] if before else None
        if job.started_s is not None:
            command = without_met_dependency(command)
        return array_command(command, array, job.max_running, self._after)

    def _judge(self, done: Completed) -> bool:
        if done.returncode and is_submit_limit(sbatch_words(done)):
            return self._make_smaller()
        if done.returncode and self._after and is_dependency_problem(sbatch_words(done)):
            self._note_calls(0)
            raise ControllerError(
                f"Slurm has no record of the array {self._after}, which must end first.",
                hint="Wait. The sweep continues once the agent finds that the array has ended.",
            )
        return super()._judge(done)

    def _make_smaller(self) -> bool:
        """Halve the array that exceeds the submit limit, or let it wait."""
        array = self._unsent()
        assert array is not None
        array = replace(array, sbatch_calls=0)
        self._put(array)
        tasks, queued = indices(array.tasks), len(live_tasks(self._record))
        half = len(tasks) // 2
        if half >= max(1, queued // _SMALLEST_SHARE):
            self._put(*_halves(array, half))
            return True
        if not queued:  # other jobs use the whole limit
            raise ControllerError(
                "You have reached your submit limit.",
                hint="Wait. The sweep continues when other jobs have ended.",
            )
        self._full_at, self._seen = queued, -1
        return True

    def _waited_for_room(self) -> bool:
        """Wait until enough tasks have ended to submit another array, and split the array if it is
        too large. Return False if the sweep was cancelled or the agent stops."""
        if self._full_at is None:
            return True
        self._registry.clear_problem(self._id)
        while not self._registry.wait(self._has_news, _WAIT_S):
            pass
        if self._stop.is_set() or self._registry.closed or self._is_cancelled():
            return False
        room, array = self._full_at - len(live_tasks(self._record)), self._unsent()
        self._full_at = None
        if array is not None and 0 < room < len(indices(array.tasks)):
            self._put(*_halves(array, room))
        return True

    def _has_news(self) -> bool:
        if self._stop.is_set() or self._is_cancelled():
            return True
        if self._sweep.revision == self._seen:  # another job has changed
            return False
        self._seen = self._sweep.revision
        live = len(live_tasks(self._record))
        wanted = max(1, (self._full_at or 0) // _SMALLEST_SHARE)
        return not live or (self._full_at or 0) - live >= wanted

    def _settle(self, answer: str, warning: str | None = None) -> bool:
        with self._registry.lock():
            array, job = self._unsent(), self._sweep
            assert array is not None
            now_s = time.time()
            self._put(replace(array, slurm_id=answer, submitted_s=now_s))
            self._registry.note(self._id, spec=None)
            changes: dict[str, object] = {"arrays": (*job.arrays, answer)}
            if array.offset:
                changes["offsets"] = {**job.offsets, answer: array.offset}
            if job.slurm_id is None:
                changes |= {"slurm_id": answer, "submitted_s": now_s}
            if job.state is JobState.SUBMITTING:
                state = JobState.RUNNING if job.started_s is not None else JobState.PENDING
                changes |= {"state": state, "problem": None, "problem_since_s": None, "why": None}
            if warning and warning not in (job.warning or ""):
                changes["warning"] = joined(job.warning, warning, between="\n")
            self._registry.change(self._id, **changes)
        if self.on_sent is not None:
            self.on_sent()
        self._cancel_sent()
        return True

    # --- the end of the job ---

    def _is_cancelled(self) -> bool:
        job = self._sweep
        return job.cancel_requested_s is not None or job.stopped_s is not None

    def _cancelled_meanwhile(self) -> bool:
        if not any(one.sbatch_calls for one in self._record.arrays):
            return super()._cancelled_meanwhile()
        with self._registry.lock():
            if self._sweep.state.final:
                return True
            if not self._is_cancelled():
                return False
            self._drop_unsent("CANCELLED")
        return True

    def _drop_unsent(self, state: str) -> None:
        """Drop the arrays that were not sent to sbatch, and set their tasks to `state`."""
        record, job = self._record, self._sweep
        dropped = [one for one in record.arrays if not one.sbatch_calls]
        tasks = [task for one in dropped for task in indices(one.tasks)]
        kept = tuple(one for one in record.arrays if one.sbatch_calls)
        self._registry.note(self._id, arrays=kept, spec=None)
        states = with_states(job.tasks, dict.fromkeys(tasks, state))
        self._registry.change(self._id, tasks=states)

    def _cancel_sent(self) -> None:
        """Cancel arrays that were submitted during a cancellation. Raises ControllerError."""
        arrays = live_arrays(self._record)
        if self._is_cancelled() and arrays and not self._sweep.state.final:
            self._cluster.cancel(arrays)

    def _reject(self, error: JupyterSlurmError) -> bool:
        if self._sweep.slurm_id is None:
            return super()._reject(error)
        with self._registry.lock():
            array = self._unsent()
            is_retry = array is not None and array.base > 0
            if array is not None:
                self._put(replace(array, sbatch_calls=0))
            told = "The rest of the sweep was not submitted."
            if is_retry:
                self.refusal, told = error, "The failed tasks were not submitted again."
            warning = joined(self._sweep.warning, f"{told} {error.message}", between="\n")
            self._registry.change(self._id, warning=warning)
            self._drop_unsent("FAILED" if is_retry else "CANCELLED")
        return True


def retry_options(record: Record, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the options of sbatch for tasks that are submitted again. `2x` for `mem` or `time`
    doubles the last limit. Raises RequestError."""
    had = {**sbatch.options_of(record.command), **(record.arrays[-1].options)}
    found: dict[str, str] = {}
    for name, value in asked.items():
        if name in _OURS:
            raise RequestError(f"--{name} cannot be changed in a retry.", option=name)
        times = _TIMES.fullmatch(value.strip())
        try:
            if times is None or name not in ("mem", "time"):
                found[name] = options.check_option(name, value)
            elif name == "mem":
                found[name] = _more_memory(had, float(times[1]))
            else:
                found[name] = _more_time(had, record.job.limit_s, float(times[1]))
        except options.OptionError as exc:
            raise RequestError(exc.message, option=exc.option) from exc
    return found


def _more_memory(had: Mapping[str, str], times: float) -> str:
    given = had.get("mem")
    if not given or given == "0":
        raise RequestError(
            "Cannot multiply --mem, because the tasks do not set it.",
            hint="Give an amount, such as --mem 16G.",
            option="mem",
        )
    return format_memory(math.ceil(parse_memory_mib(given) * times))


def _more_time(had: Mapping[str, str], limit_s: int | None, times: float) -> str:
    given_s = parse_time_s(had["time"]) if "time" in had else limit_s
    if not given_s:
        raise RequestError(
            "The time limit of the tasks is unknown.",
            hint="Give a time, such as --time 2h.",
            option="time",
        )
    return format_time(math.ceil(given_s * times))


def sha256_of(path: str | None) -> str | None:
    """Return the SHA-256 of the parameters file; None without a file."""
    if path is None:
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _halves(array: TaskArray, count: int) -> tuple[TaskArray, TaskArray]:
    """Return an array of the first `count` tasks, and an array of the others."""
    tasks = indices(array.tasks)
    first, rest = format_array(tasks[:count]), format_array(tasks[count:])
    return replace(array, tasks=first), replace(array, token=new_id(), tasks=rest)
