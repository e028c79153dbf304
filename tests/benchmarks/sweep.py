"""Twenty tasks and all their results, by `js.map` and by a cell with --sweep, compared with
submitit. The grid of 10,000 tasks in Chromium (`sweep_grid.py`).

    scripts/bench sweep [--only tasks grid] [--rounds 7] [--updates 100]

The candidates alternate on a private cluster. Each submits one job array. The time is from the
submission to the last result.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from statistics import median

from IPython.core.interactiveshell import InteractiveShell

import jupyter_slurm as js
from tests.benchmarks.cell import ground, run_cell, shell_with_magics, wait_for_phase
from tests.benchmarks.rounds import alternating, seconds
from tests.benchmarks.sweep_grid import grid
from tests.benchmarks.table import HEAD, Row, show, spread

PARTS = ("tasks", "grid")
TARGET = 0.5
TASKS = 20
CELL = f"%%slurm --fresh --runtime none --sweep x=range({TASKS}) --out y\ny = x**2"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=100, help="of the grid, up to 110")
    args = parser.parse_args()
    ok = True
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        if "tasks" in args.only:
            ok = against_submitit(folder, args.rounds)
        if "grid" in args.only:
            ok = grid(folder / "g", args.rounds, args.updates) and ok
    return 0 if ok else 1


def against_submitit(folder: Path, rounds: int) -> bool:
    """Print the tables, and return whether we are fast enough."""
    with ground(folder):
        taken = measured(shell_with_magics(), folder, rounds)
    *ours, theirs = taken
    rows = [
        Row(f"{name}, {TASKS} tasks", median(taken[name]), theirs, median(taken[theirs]), TARGET)
        for name in ours
    ]
    show("Medians, alternating", [(name, f"{spread(values)} s") for name, values in taken.items()])
    show("Ratios", [HEAD, *(row.cells() for row in rows)])
    return all(row.ok for row in rows)


def measured(shell: InteractiveShell, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each candidate. The seconds of the other tool come last."""
    ways: dict[str, Callable[[], float]] = {
        "js.map": partial(seconds, with_map),
        "%%slurm --sweep": lambda: run_cell(shell, CELL),
        "submitit, map_array": partial(seconds, lambda: with_submitit(folder / "submitit")),
    }
    return alternating(ways, rounds, wait_for_phase)


def with_map() -> None:
    with redirect_stdout(StringIO()):  # closes the job's card
        found = js.map(pow, range(TASKS), [2] * TASKS, runtime="none")
    assert found == [x**2 for x in range(TASKS)]


def with_submitit(folder: Path) -> None:
    import submitit  # needs Slurm at import

    executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
    executor.update_parameters(timeout_min=5)
    jobs = executor.map_array(pow, range(TASKS), [2] * TASKS)
    assert [job.result() for job in jobs] == [x**2 for x in range(TASKS)]


if __name__ == "__main__":
    sys.exit(main())
