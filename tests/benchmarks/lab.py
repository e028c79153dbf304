"""A lab, compared with a script that uses `sbatch` and `ssh -L`, and with jupyter-forward.

    scripts/bench lab [--only start download] [--rounds 7] [--gigabytes 1] [--delay-ms 20]

The start is measured from the form's call until the page responds and a kernel started there has
run a cell. All candidates use one sshd on this machine, one private cluster and one JupyterLab.
Then a download from a lab is measured through its tunnel and through `ssh -L`, with the same
cipher. With a delay, all use one slow line with that round trip.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.benchmarks.cell import wait_for_phase
from tests.benchmarks.lab_download import download
from tests.benchmarks.lab_ground import Ground, ground
from tests.benchmarks.lab_ways import bare, jupyter_forward, lab
from tests.benchmarks.table import HEAD, Row, show, spread

PARTS = ("start", "download")
_FLOOR_AT_MOST = 1.2
_PEER_AT_MOST = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="the network's round trip")
    args = parser.parse_args()
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench") as folder,
        ground(Path(folder), args.delay_ms / 1000) as place,
    ):
        if "start" in args.only:
            rows += against_others(place, args.rounds)
        if "download" in args.only:
            rows.append(download(place, args.gigabytes, args.rounds))
    show("Ratios", [HEAD, *(row.cells() for row in rows)])
    return 0 if all(row.ok for row in rows) else 1


def against_others(place: Ground, rounds: int) -> list[Row]:
    taken = to_a_notebook(place, rounds)
    show("Medians, alternating", [(name, f"{spread(some)} s") for name, some in taken.items()])
    ours, floor, peer = (median(values) for values in taken.values())
    return [
        Row("form -> notebook", ours, "bare sbatch, ssh -L", floor, _FLOOR_AT_MOST),
        Row("form -> notebook", ours, "jupyter-forward", peer, _PEER_AT_MOST),
    ]


def to_a_notebook(place: Ground, rounds: int) -> dict[str, list[float]]:
    ways: dict[str, Callable[[], float]] = {
        "jupyter slurm lab": lambda: lab(place),
        "bare sbatch, ssh -L": lambda: bare(place),
        "jupyter-forward": lambda: jupyter_forward(place),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(-1, rounds):  # the first round is a warm-up
        for name, way in ways.items():
            wait_for_phase(max(turn, 0) / rounds)
            seconds = way()
            place.end_jobs()
            if turn >= 0:
                taken[name].append(seconds)
    return taken


if __name__ == "__main__":
    sys.exit(main())
