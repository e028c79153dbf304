"""The time to cancel thousands of jobs in one call, and by `scancel -u`.

    scripts/bench cancel [--jobs 2000] [--rounds 3]

It uses a real Slurm with held jobs, each submitted separately. In our measurement they are jobs of
this package, and `Api.control_jobs` cancels them. The call returns once Slurm has answered for all.
The benchmark also reports the time until all records show the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest

from jupyter_slurm.jobs.records.registry import Record
from jupyter_slurm.wire import JobKind, JobState
from tests.benchmarks.rounds import alternating, seconds
from tests.benchmarks.table import HEAD, Row, show, spread
from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.jobs.conftest import Site, spec
from tests.specs import known

_AT_MOST = 1.2
_CONF = ("MaxJobCount=100000", "MinJobAge=30")
"""Settings of Slurm for the many ended jobs that each round leaves behind."""
_SUBMITTERS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    settled: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="bc") as name,
        running_cluster(Path(name) / "slurm", nodes=1, cpus=2, extra_conf=_CONF) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        site = Site(cluster, Path(name) / "home", patch)
        ways: dict[str, Callable[[], float]] = {
            "ours": lambda: by_us(site, args.jobs, settled),
            "scancel": lambda: by_scancel(cluster, args.jobs),
        }
        taken = alternating(ways, args.rounds)
        site.service.close()
    row = Row(
        f"{args.jobs:,} jobs cancelled in one call",
        median(taken["ours"]),
        "scancel -u",
        median(taken["scancel"]),
        _AT_MOST,
    )
    show("Many jobs cancelled", [HEAD, row.cells()])
    for way, times_s in [*taken.items(), ("ours, until each record tells its end", settled[1:])]:
        sys.stdout.write(f"  {way}: {spread(times_s)} s\n")
    return 0 if row.ok else 1


def by_us(site: Site, count: int, settled: list[float]) -> float:
    specs = [spec("1").id for _ in range(count)]
    names = [(f"--comment=jslurm:{one}", f"--job-name=n.{one}") for one in specs]
    slurm_ids = held(site.cluster, names)
    for job_id, slurm_id in zip(specs, slurm_ids, strict=True):
        job = known(
            id=job_id,
            cluster=site.cluster.name,
            kind=JobKind.CELL,
            state=JobState.PENDING,
            slurm_id=slurm_id,
            submitted_s=time.time(),
        )
        site.service._registry.add(Record(job=job, spec=None))
    began_s = time.perf_counter()
    took_s = seconds(lambda: cancelled(site, specs))
    for job_id in specs:
        assert site.wait(job_id).state is JobState.CANCELLED
    settled.append(time.perf_counter() - began_s)
    for job_id in specs:
        site.service._registry.remove(job_id)
    return took_s


def cancelled(site: Site, job_ids: list[str]) -> None:
    assert site.service.control_jobs("cancel", job_ids) == []


def by_scancel(cluster: SlurmCluster, count: int) -> float:
    held(cluster, [()] * count)
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    return seconds(lambda: cluster.run("scancel", "-u", user))


def held(cluster: SlurmCluster, options: Sequence[tuple[str, ...]]) -> list[str]:
    with ThreadPoolExecutor(_SUBMITTERS) as pool:
        script = "#!/bin/sh\n"
        held = ("--hold", "--output=/dev/null")
        return list(pool.map(lambda own: cluster.submit(*held, *own, stdin=script), options))


if __name__ == "__main__":
    sys.exit(main())
