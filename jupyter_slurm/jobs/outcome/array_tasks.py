"""States, ends and output files of array tasks. No I/O.

The agent stores each task's state (`Job.tasks`) and one pattern for all paths, because Slurm
forgets a task a few minutes after its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jupyter_slurm.formatting import joined
from jupyter_slurm.slurm import scontrol, states
from jupyter_slurm.slurm.scontrol import ControlRow
from jupyter_slurm.slurm.units import format_array, indices
from jupyter_slurm.wire import JobState
from jupyter_slurm.wire.state import state_word

if TYPE_CHECKING:
    from jupyter_slurm.jobs.records.registry import Record, TaskArray

MOST = 100_000
"""Maximum number of tasks to track one by one. A larger array is tracked as a whole."""
UNSEEN = "UNKNOWN"
_NAMED = 8
"""Maximum number of ranges of tasks to list in a message."""
_NUMBERS = re.compile(r"([0-9]+)")


def merged(known: Mapping[str, str], found: Iterable[tuple[str | None, str]]) -> dict[str, str]:
    """Return `Job.tasks`, updated from a listing of tasks (`3`, `5-8%2`, as Slurm writes them) and
    their states. A task is UNKNOWN if it is no longer listed and its end was never seen. Return {}
    for more than `MOST` tasks."""
    now: dict[int, str] = {}
    for text, state in found:
        for task in indices(text):
            now[task] = state
            if len(now) > MOST:
                return {}
    if not now:
        return dict(known)
    for state, text in known.items():
        kept = state if states.is_terminal(state) else UNSEEN
        for task in indices(text):
            now.setdefault(task, kept)
    by_state: dict[str, list[int]] = {}
    for task, state in now.items():
        by_state.setdefault(state, []).append(task)
    return {state: format_array(some) for state, some in sorted(by_state.items())}


def state_of(tasks: Mapping[str, str], task: int) -> str | None:
    """Return the task's state; None if the array does not contain the task."""
    return next((state for state, text in tasks.items() if task in indices(text)), None)


def have_run(tasks: Mapping[str, str]) -> bool:
    """Return whether a task has run to its end, which proves that the array has started."""
    return any(states.is_terminal(state) and state != "CANCELLED" for state in tasks)


def every(tasks: Mapping[str, str]) -> str:
    """Return the indices of all tasks in Slurm's notation."""
    return format_array(task for text in tasks.values() for task in indices(text))


def first(tasks: Mapping[str, str]) -> int | None:
    """Return the lowest index; None if the job is not an array."""
    return min((some[0] for some in map(indices, tasks.values()) if some), default=None)


def by_task(arrays: Iterable[TaskArray]) -> dict[int, TaskArray]:
    """Return the last array of each task."""
    return {task: array for array in arrays for task in indices(array.tasks)}


def states_of(tasks: Mapping[str, str]) -> dict[int, str]:
    """Return the state of each task of `Job.tasks`."""
    return {task: state for state, text in tasks.items() for task in indices(text)}


def runs(values: Iterable[tuple[int, str]]) -> dict[str, str]:
    """Group tasks by value, in the notation of --array.

    >>> runs([(0, "RUNNING"), (1, "RUNNING"), (2, "PENDING")])
    {'PENDING': '2', 'RUNNING': '0-1'}
    """
    found: dict[str, list[int]] = {}
    for task, value in values:
        found.setdefault(value, []).append(task)
    return {value: format_array(some) for value, some in sorted(found.items())}


def with_states(tasks: Mapping[str, str], changes: Mapping[int, str]) -> dict[str, str]:
    """Return `Job.tasks` with the new states in `changes`."""
    return runs({**states_of(tasks), **changes}.items())


def live_tasks(record: Record) -> list[int]:
    """Return the tasks that are or may be in the queue."""
    sent = {task for task, one in by_task(record.arrays).items() if one.sbatch_calls}
    return [t for t, s in states_of(record.job.tasks).items() if t in sent and not is_end(s)]


def live_arrays(record: Record) -> list[str]:
    """Return Slurm's IDs of the arrays with tasks in the queue."""
    arrays = by_task(record.arrays)
    live = {arrays[task].token for task in live_tasks(record)}
    return [one.slurm_id for one in record.arrays if one.slurm_id and one.token in live]


def failed_tasks(tasks: Mapping[str, str]) -> list[int]:
    """Return the tasks that ended without success."""
    return sorted(t for t, s in states_of(tasks).items() if is_end(s) and s != "COMPLETED")


def is_end(state: str) -> bool:
    """Return whether a task in this state has ended."""
    return states.is_terminal(state) or state == JobState.LOST


def paths(rows: Iterable[ControlRow]) -> dict[str, str]:
    """Return the output files of started tasks, by index."""
    return {
        row.array_task_id: row.stdout
        for row in rows
        if row.stdout and row.array_task_id and row.array_task_id.isdecimal()
    }


def pattern(rows: Iterable[ControlRow], stream: str = "StdOut") -> str | None:
    """Return the pattern of all tasks' paths for `stream` (`StdOut` or `StdErr`). It contains `{}`
    for a task's index, or `{:03}` for an index padded to three digits, and `{id}` for the task's
    own Slurm ID. Return None if the rows do not determine a pattern."""
    known: list[tuple[int, int, list[str]]] = []
    for row in rows:
        raw, task = scontrol.output_pattern(row.fields, stream), row.array_task_id or ""
        if raw and task:
            index = int(task if task.isdecimal() else scontrol.NO_TASK)
            known.append((index, int(row.slurm_id), _NUMBERS.split(raw)))
    if not known or len({len(parts) for _, _, parts in known}) != 1:
        return None
    tasks, ids, columns = zip(*known, strict=True)
    made = []
    for at, column in enumerate(zip(*columns, strict=True)):
        numbers = tuple(map(int, column)) if at % 2 else ()
        meant = []
        if numbers == tasks:
            width = max((len(part) for part in column if part.startswith("0")), default=0)
            meant.append(f"{{:0{width}}}" if width > 1 else "{}")
        if numbers == ids:
            meant.append("{id}")
        if len(set(column)) == 1 and numbers != (int(scontrol.NO_TASK),):
            meant.append(column[0].replace("{", "{{").replace("}", "}}"))
        if len(meant) != 1:
            return None
        made += meant
    return "".join(made)


def path(pattern: str, task: int, array_id: str, own_id: str | None) -> str | None:
    """Return the task's output file from `pattern`; None if the pattern contains the task's Slurm
    ID, but `own_id` is None."""
    if "{id}" in pattern and own_id is None:
        return None
    values = {"a": str(task), "A": array_id, **({"j": own_id} if own_id else {})}
    return scontrol.fill_in(pattern.format(task, id=own_id), values)


def failures(tasks: Mapping[str, str], codes: Mapping[str | None, int | None]) -> str | None:
    """Return a message about failed tasks, such as `Tasks 2, 5 failed: exit code 3.`, or None if
    all succeeded. `codes` contains the known exit codes by index."""
    by_end: dict[tuple[str, int | None], list[int]] = {}
    for state, text in tasks.items():
        for task in indices(text):
            code = codes.get(str(task)) if state == JobState.FAILED else None
            if state != JobState.COMPLETED:
                by_end.setdefault((state, code or None), []).append(task)
    return joined(*(_ended(some, *end) for end, some in by_end.items())) or None


def _ended(tasks: list[int], state: str, code: int | None) -> str:
    some = _named(tasks)
    if code is not None:
        return f"{some} failed: exit code {code}."
    if state == JobState.FAILED:
        return f"{some} failed."
    if state == UNSEEN:
        return f"{some} ended, but the outcome is unknown."
    return f"{some}: {state_word(state)}."


def _named(tasks: list[int]) -> str:
    parts = format_array(tasks).split(",")
    shown = ", ".join(parts[:_NAMED])
    if len(parts) > _NAMED:
        more = len(tasks) - sum(len(indices(part)) for part in parts[:_NAMED])
        return f"Tasks {shown} and {more} more"
    return f"{'Task' if len(tasks) == 1 else 'Tasks'} {shown}"
