"""A cell of a session, compared with a cell of the local kernel.

    scripts/bench session [--rounds 21] [--pause 5]

Both run in one real ipykernel, through the real magics and agent, on a private cluster. The time is
from the request until the kernel is idle again, with and without pauses like a user's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from jupyter_slurm.client import connect
from tests.benchmarks.table import HEAD, Row, show, spread
from tests.cluster.plugin import running_cluster
from tests.magics.kernel import LOAD, Kernel, running_kernel

TARGET_MS = 50.0
LOCAL = "1 + 1"
IN_SESSION = f"%%slurm --session --fresh\n{LOCAL}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between cells")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        rows, lines = measured(Path(folder), args.rounds, args.pause)
    show("Medians, alternating", lines)
    show("What a session adds to a cell", [HEAD, *(row.cells() for row in rows)])
    return 0 if all(row.ok for row in rows) else 1


def measured(folder: Path, rounds: int, pause_s: float) -> tuple[list[Row], list[tuple[str, str]]]:
    """Measure on a private cluster."""
    with running_cluster(folder / "home", nodes=1, cpus=8) as cluster:
        os.environ.update(cluster.env)
        try:
            with running_kernel(dict(os.environ), folder) as kernel:
                return against_local(kernel, rounds, pause_s)
        finally:
            agent = psutil.Process(connect().status().pid)
            agent.terminate()
            agent.wait(30)


def against_local(
    kernel: Kernel, rounds: int, pause_s: float
) -> tuple[list[Row], list[tuple[str, str]]]:
    run(kernel, LOAD)
    run(kernel, "%slurm session start --runtime none")
    rows: list[Row] = []
    lines: list[tuple[str, str]] = []
    for how, times, gap_s in (
        ("at once", rounds, 0.0),
        (f"after {pause_s:g} s", max(3, rounds // 4), pause_s),
    ):
        taken: dict[str, list[float]] = {LOCAL: [], IN_SESSION: []}
        for cell in taken:
            run(kernel, cell)
        for _ in range(times):
            for cell, seconds in taken.items():
                time.sleep(gap_s)
                seconds.append(run(kernel, cell))
        local, ours = taken[LOCAL], taken[IN_SESSION]
        lines += [(f"local cell, {how}", f"{spread(local)} s")]
        lines += [(f"session cell, {how}", f"{spread(ours)} s")]
        added_ms = (median(ours) - median(local)) * 1000
        what = f"session cell above a local one, {how}"
        rows.append(Row(what, added_ms, "what it may take", TARGET_MS, 1.0, "ms"))
    run(kernel, "%slurm session stop")
    return rows, lines


def run(kernel: Kernel, cell: str) -> float:
    """Run a cell and return its seconds; a failing cell ends the benchmark."""
    began_s = time.perf_counter()
    reply = kernel.run(cell)
    taken_s = time.perf_counter() - began_s
    assert reply.content["status"] == "ok", reply.text + str(reply.content)
    return taken_s


if __name__ == "__main__":
    sys.exit(main())
