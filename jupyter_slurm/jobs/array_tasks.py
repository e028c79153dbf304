"""PURE: the tasks of an array: which state each is in, and where it writes.

Of each a state is kept (`Job.tasks`) and one pattern for all paths: Slurm forgets tasks one by one,
minutes after each has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from jupyter_slurm.slurm import states
from jupyter_slurm.slurm.scontrol import ControlRow
from jupyter_slurm.slurm.units import format_array, indices

MOST = 100_000
"""Of an array with more tasks only the whole is followed."""
_UNSEEN = "UNKNOWN"
_NUMBERS = re.compile(r"([0-9]+)")


def merged(known: Mapping[str, str], found: Iterable[tuple[str | None, str]]) -> dict[str, str]:
    """Return `Job.tasks` after a listing that has told of these tasks (`3`, `5-8%2`, as Slurm
    writes them) that they are in these states. One that has gone from it unseen is UNKNOWN."""
    now: dict[int, str] = {}
    for text, state in found:
        for task in indices(text):
            now[task] = state
            if len(now) > MOST:
                return {}
    if not now:
        return dict(known)
    for state, text in known.items():
        kept = state if states.is_terminal(state) else _UNSEEN
        for task in indices(text):
            now.setdefault(task, kept)
    by_state: dict[str, list[int]] = {}
    for task, state in now.items():
        by_state.setdefault(state, []).append(task)
    return {state: format_array(some) for state, some in sorted(by_state.items())}


def state_of(tasks: Mapping[str, str], task: int) -> str | None:
    """Return the state that the task is in; None: the array has no such task."""
    return next((state for state, text in tasks.items() if task in indices(text)), None)


def first(tasks: Mapping[str, str]) -> int | None:
    """Return the lowest index; None: it is no array."""
    return min((some[0] for some in map(indices, tasks.values()) if some), default=None)


def path_of(rows: Iterable[ControlRow], task: int) -> str | None:
    """Return where the task writes, once it has begun."""
    return next((row.stdout for row in rows if row.array_task_id == str(task)), None)


def pattern(rows: Iterable[ControlRow]) -> str | None:
    """Return the path of every task, `{}` in the place of its index (`{:03}`: of three digits).
    None: these, of which there must be two, do not tell it."""
    paths = {
        int(row.array_task_id): _NUMBERS.split(row.stdout)
        for row in rows
        if row.stdout and (row.array_task_id or "").isdecimal() and row.array_task_id is not None
    }
    if len(paths) < 2 or len({len(parts) for parts in paths.values()}) != 1:
        return None
    made = []
    for at, column in enumerate(zip(*paths.values(), strict=True)):
        if len(set(column)) == 1:
            made.append(column[0].replace("{", "{{").replace("}", "}}"))
        elif at % 2 and all(int(part) == task for task, part in zip(paths, column, strict=True)):
            is_padded = any(part.startswith("0") and part != "0" for part in column)
            made.append(f"{{:0{max(map(len, column))}}}" if is_padded else "{}")
        else:
            return None  # the number is another's: `%j`
    text = "".join(made)
    return text if "{" in text else None
