"""Clusters over SSH, compared with OpenSSH and rsync: commands, submissions, tunnels, files.

    scripts/bench ssh [--only commands submissions tunnels files] [--ways near far jumped]
                      [--rounds 21] [--megabytes 256] [--gigabytes 1]

The sshds run on this machine: one directly, one with a round trip of 20 ms, and one behind a jump
host.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.ssh_commands import Slurm, commands, stand_in, submissions
from tests.benchmarks.ssh_files import (
    downloads,
    large_file,
    nothing_changed,
    small_files,
    uploads,
)
from tests.benchmarks.ssh_ground import WAYS, Ground, Way, ground
from tests.benchmarks.ssh_tunnels import narrow_line, tunnels
from tests.benchmarks.table import HEAD, Row, show
from tests.cluster.plugin import running_cluster

PARTS = ("commands", "submissions", "tunnels", "files")
_MEMORY = Path("/dev/shm")


def main() -> int:
    args = _arguments()
    with ground() as place:
        rows = [row for part in args.only for row in _part(part, place, args)]
    return 0 if all(row.ok for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    names = [way.alias for way in WAYS]
    parser.add_argument("--ways", nargs="+", choices=names, default=names)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--megabytes", type=int, default=256, help="megabytes through a tunnel")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the large file")
    return parser.parse_args()


def _part(part: str, place: Ground, args: argparse.Namespace) -> list[Row]:
    ways = [way for way in WAYS if way.alias in args.ways]
    measured: Iterator[tuple[str, list[Row]]]
    if part == "commands":
        measured = ((way.title, commands(place, way, 5 * args.rounds)) for way in ways)
    elif part == "submissions":
        measured = _submissions(place, ways, args.rounds)
    elif part == "tunnels":
        measured = _tunnels(place, ways, args.rounds, args.megabytes)
    else:
        measured = _files(place, ways, max(3, args.rounds // 4), args.gigabytes)
    rows: list[Row] = []
    for title, some in measured:
        show(f"{part}: {title}", [HEAD, *(row.cells() for row in some)])
        rows += some
    return rows


def _submissions(place: Ground, ways: list[Way], rounds: int) -> Iterator[tuple[str, list[Row]]]:
    (place.folder / "jobs").mkdir()
    quick = stand_in(place.folder)
    with running_cluster(place.folder / "home", nodes=1) as cluster:
        real = Slurm("a real sbatch", cluster.folder / "bin", {"SLURM_CONF": str(cluster.conf)})
        for way in ways:
            rows = [
                row for slurm in (quick, real) for row in submissions(place, way, slurm, rounds)
            ]
            yield way.title, rows


def _tunnels(
    place: Ground, ways: list[Way], rounds: int, megabytes: int
) -> Iterator[tuple[str, list[Row]]]:
    for way in ways:
        yield way.title, tunnels(place, way, rounds, megabytes)
    yield "a narrow line", narrow_line(place, 3)


def _files(
    place: Ground, ways: list[Way], rounds: int, gigabytes: float
) -> Iterator[tuple[str, list[Row]]]:
    with _room(gigabytes) as folder:
        small, large = small_files(folder), large_file(folder, gigabytes)
        for way in ways:
            yield (
                way.title,
                [
                    *uploads(place, way, "5,000 small files up", small, 0.4, rounds),
                    *uploads(place, way, f"{gigabytes:g} GB up", large, 0.6, rounds),
                    *downloads(place, way, "5,000 small files down", small, 0.7, rounds),
                    *downloads(place, way, f"{gigabytes:g} GB down", large, 0.7, rounds),
                    nothing_changed(place, way, small, rounds),
                ],
            )


@contextmanager
def _room(gigabytes: float) -> Iterator[Path]:
    """Return a folder, in memory if possible, so that the disk is not measured."""
    fits = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 3 * gigabytes * 1e9
    parent = _MEMORY if fits else None
    with tempfile.TemporaryDirectory(prefix="bench-ssh-", dir=parent) as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
