"""A call of a warm `js.Executor`, compared with a task of dask-jobqueue.

    scripts/bench executor [--rounds 101]

Each has one job of one CPU on the same node of a private cluster. The calls alternate, and are
measured from `submit` to the result.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import psutil

import jupyter_slurm as js
from jupyter_slurm.client import connect
from tests.benchmarks.rounds import alternating, seconds
from tests.benchmarks.table import HEAD, Row, show, spread
from tests.cluster.image import made_engines_python
from tests.cluster.plugin import running_cluster

TARGET = 1.0
THEIRS = Path(__file__).with_name("jobqueue.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=101)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench") as folder, ground(Path(folder)):
        ours, theirs = measured(Path(folder), args.rounds)
    lines = [("js.Executor, warm", f"{spread(ours)} s"), ("dask-jobqueue", f"{spread(theirs)} s")]
    row = Row(
        "warm call", median(ours) * 1000, "dask-jobqueue", median(theirs) * 1000, TARGET, "ms"
    )
    show("Medians, alternating", lines)
    show("Ratios", [HEAD, row.cells()])
    return 0 if row.ok else 1


@contextmanager
def ground(folder: Path) -> Iterator[None]:
    with running_cluster(folder / "home", nodes=1, cpus=8) as cluster:
        os.environ.update(cluster.env)
        try:
            yield
        finally:
            agent = psutil.Process(connect().status().pid)
            agent.terminate()
            agent.wait(30)


def measured(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    with js.Executor(warm=True, runtime="none") as executor, dask(folder) as task:
        call = partial(seconds, lambda: executor.submit(pow, 2, 3).result())
        taken = alternating({"ours": call, "theirs": task}, rounds)
    return taken["ours"], taken["theirs"]


@contextmanager
def dask(folder: Path) -> Iterator[Callable[[], float]]:
    """Run a dask-jobqueue cluster with one worker. Yield a function that runs a task and returns
    its seconds."""
    python = made_engines_python("jobqueue")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [str(python), str(THEIRS)], stdin=pipe, stdout=pipe, text=True, cwd=folder
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        assert stdout.readline() == "ready\n"

        def task() -> float:
            print(file=stdin, flush=True)
            return float(stdout.readline())

        yield task
        stdin.close()
        process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
