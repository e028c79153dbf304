"""The table of a sweep's results: a DataFrame, or a list of dicts without pandas."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jupyter_slurm.errors import SweepError, VariableError
from jupyter_slurm.slurm.units import format_array, indices
from jupyter_slurm.wire import Result, SweepFailure, SweepJob, SweepTasks

_SHOWN_TASKS = 5
"""Number of tasks to show with their parameters for each failure."""
_LONGEST_VALUE = 60
"""Maximum number of characters of a parameter in a message."""

Row = dict[str, Any]


def table(result: Result, tasks: SweepTasks, failed: dict[str, str]) -> list[Row]:
    """Return a row for each task, with parameters, outputs, state and usage. Add the outputs that
    cannot be read to `failed`, with the reason."""
    job = tasks.job
    order = sorted(task for text in tasks.states.values() for task in indices(text))
    folder = None if result.variables is None else Path(result.variables)
    parameters = _parameters(job, folder)
    states, reasons, nodes = map(_by_task, (tasks.states, tasks.reasons, tasks.nodes))
    rows = []
    for at, task in enumerate(order):
        given = parameters.get(task, dict.fromkeys(job.names_params))
        rows.append(
            {
                **given,
                **dict.fromkeys(job.names_out),
                **_outputs(job, folder, task, failed),
                "task": task,
                "state": states[task],
                "reason": reasons.get(task, ""),
                "node": nodes.get(task, ""),
                "elapsed_s": _at(tasks.elapsed_s, at),
                "peak_mib": _at(tasks.peak_mib, at),
            }
        )
    return rows


def outcome(
    result: Result, tasks: SweepTasks, failed: dict[str, str]
) -> tuple[list[Row], SweepError | None]:
    """Return the rows from `table` and the exception from `error`."""
    rows = table(result, tasks, failed)
    return rows, error(tasks, rows)


def as_frame(rows: list[Row], job_id: str) -> object:
    """Return the rows as a DataFrame if pandas is installed, with the job's ID in `attrs`."""
    if importlib.util.find_spec("pandas") is None:
        return rows
    pandas: Any = importlib.import_module("pandas")  # slow, and only sweeps need it
    frame = pandas.DataFrame(rows)
    frame.attrs["job"] = job_id
    return cast("object", frame)


def error(tasks: SweepTasks, rows: list[Row]) -> SweepError | None:
    """Return the error for a sweep with failed tasks, with the table of all tasks; None if all
    tasks succeeded."""
    failed = [row for row in rows if row["state"] != "COMPLETED"]
    if not failed:
        return None
    job = tasks.job
    by_task = {row["task"]: row for row in rows}
    lines = list(_failures(tasks.failures, job, by_task))
    raised = {task for one in tasks.failures for task in indices(one.tasks)}
    for reason, text in tasks.reasons.items():
        others = [task for task in indices(text) if task not in raised]
        if others:
            lines += [
                f"{_task_names(others)}: {reason}",
                *_parameter_lines(others, job, by_task),
                "",
            ]
    found = SweepError(
        f"{len(failed)} of {len(rows)} tasks failed.",
        hint=f"Submit them again with `%slurm retry {job.id}`; add --mem for more memory.",
        traceback=tuple(lines),
        job_id=job.id,
    )
    found.table = as_frame(rows, job.id)
    return found


def _failures(
    failures: tuple[SweepFailure, ...], job: SweepJob, rows: dict[int, Row]
) -> Iterator[str]:
    """Yield the tracebacks, each with the parameters of its tasks."""
    for one in failures:
        tasks = list(indices(one.tasks))
        yield f"{_task_names(tasks)}: {one.ename}"
        yield from _parameter_lines(tasks, job, rows)
        yield from one.traceback or (f"{one.ename}: {one.evalue}",)
        yield ""


def _parameter_lines(tasks: list[int], job: SweepJob, rows: dict[int, Row]) -> Iterator[str]:
    if not job.names_params:
        return
    for task in tasks[:_SHOWN_TASKS]:
        words = (f"{name}={_brief(rows[task].get(name))}" for name in job.names_params)
        yield f"  {task}: {', '.join(words)}"
    if len(tasks) > _SHOWN_TASKS:
        yield f"  and {len(tasks) - _SHOWN_TASKS} more"


def params_as_text(rows: Sequence[Mapping[str, object]]) -> dict[str, list[str]]:
    """Return the values of each parameter as text, in the order of the tasks."""
    return {name: [_brief(row[name]) for row in rows] for name in rows[0]}


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _task_names(tasks: list[int]) -> str:
    return f"Task{'s' if len(tasks) > 1 else ''} {format_array(tasks)}"


def _parameters(job: SweepJob, folder: Path | None) -> dict[int, Row]:
    """Return the parameters of each task."""
    path = folder and folder / "params.vars"
    if path is None or not job.names_params or not path.exists():
        return {}
    from jupyter_slurm.variables import read_variables  # noqa: PLC0415

    found, unread = read_variables(path)
    if unread:
        name, why = next(iter(unread.items()))
        raise VariableError(f"Cannot read the parameters of task {name}: {why}.")
    return {int(task): dict(value) for task, value in found.items() if isinstance(value, dict)}


def _outputs(job: SweepJob, folder: Path | None, task: int, failed: dict[str, str]) -> Row:
    """Return the variables of one task."""
    path = folder and folder / f"{task}.vars"
    if path is None or not path.exists():
        return {}
    from jupyter_slurm.variables import read_variables  # noqa: PLC0415

    found, unread = read_variables(path, job.names_out, job.out_format)
    for name, why in unread.items():
        failed.setdefault(f"{name} of task {task}", why)
    return found


def _by_task(by_value: dict[str, str]) -> dict[int, str]:
    return {task: value for value, text in by_value.items() for task in indices(text)}


def _at(values: tuple[float | None, ...], at: int) -> float | None:
    return values[at] if at < len(values) else None
