"""A job's usage over time, on a real Slurm."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path, PurePosixPath

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.watching.usage import parse_cursor
from jupyter_slurm.wire import Job, JobKind, JobState, UsageChanges, UsageSample
from tests.jobs.conftest import Site, spec

HOLDS = """\
import time
held = bytearray(150 << 20)
while True:
    sum(range(100_000))
    time.sleep(0.01)
"""
SCRIPT = "#!/bin/sh\n#SBATCH --output=/dev/null\nexec sleep 600\n"
SHORT = "#!/bin/sh\n:"
"""A program that ends before it is measured. Python may start too slowly for this."""
PATIENCE_S = 60.0


def watched(site: Site, job_id: str, count: int, cursor: str = "") -> tuple[list[UsageSample], str]:
    """Return the next samples, at least `count`, and the cursor after them."""
    samples: list[UsageSample] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(samples) < count:
        left_s = deadline_s - time.monotonic()
        assert left_s > 0, samples
        changes = site.service.usage(job_id, cursor, left_s)
        samples += changes.samples
        cursor = changes.cursor
    return samples, cursor


def to_the_end(site: Site, job_id: str, cursor: str = "") -> list[UsageChanges]:
    found: list[UsageChanges] = []
    while not found or not found[-1].end:
        found.append(site.service.usage(job_id, found[-1].cursor if found else cursor, PATIENCE_S))
    return found


def command_counts(site: Site) -> Counter[str]:
    """Return the count of each Slurm command."""
    counts: Counter[str] = Counter()
    for name, count in site.service.status().commands.items():
        counts[name.rpartition(" ")[2]] += count
    return counts


def test_running_cell_is_measured_and_each_sample_is_sent_once(site: Site) -> None:
    job = site.service.submit(spec(HOLDS))
    first, cursor = watched(site, job.id, 1)
    begins = list(takewhile(lambda sample: sample.memory_mib <= 150, first))
    while len(begins) == len(first):  # Python starts slowly on a busy machine
        more, cursor = watched(site, job.id, 1, cursor)
        begins += takewhile(lambda sample: sample.memory_mib <= 150, more)
        first += more
    second, cursor = watched(site, job.id, 1, cursor)
    assert second[0].time_s > first[-1].time_s
    at_work = [*first[len(begins) :], *second]
    assert all(sample.memory_mib > 150 and sample.cpus > 0 for sample in at_work)
    assert watched(site, job.id, 2)[0][: len(first)] == first
    site.service.cancel(job.id)
    site.wait(job.id)
    rest = to_the_end(site, job.id, cursor)
    assert all(changes.problem is None for changes in rest)
    assert rest[-1].job.state is JobState.CANCELLED
    assert not command_counts(site)["sstat"]


def test_short_job_reports_that_no_samples_exist(site: Site) -> None:
    [changes] = to_the_end(site, site.run(SHORT, kind=JobKind.PROGRAM).id)
    assert changes.samples == ()
    assert changes.problem is not None
    assert changes.problem.code == "not-measured"
    assert "before" in str(changes.problem.message)


def write_lines(job: Job, at: int, times: Iterable[int], **more: object) -> None:
    """Append samples to the file of a job's node, as node/usage.py does."""
    path = Path(JobDir(PurePosixPath(job.job_dir)).usage(0, at))
    with path.open("a") as file:
        for time_s in times:
            line = {"time_s": time_s, "cpus": 1, "memory_mib": 2, "gpus": [], **more}
            file.write(json.dumps(line) + "\n")


def test_samples_contain_the_name_of_their_node(site: Site) -> None:
    job = site.run(SHORT, kind=JobKind.PROGRAM)
    site.service._registry.change(job.id, nodes=("n1", "n2", "n3"))
    write_lines(job, 0, [10, 20])  # the format before samples named their node
    write_lines(job, 1, [11, 21], node="n2")
    [changes] = to_the_end(site, job.id)
    named = [(sample.time_s, sample.node) for sample in changes.samples]
    assert named == [(10, "n1"), (11, "n2"), (20, "n1"), (21, "n2")]
    write_lines(job, 1, [31], node="n2")
    write_lines(job, 2, [32], node="<b>\n" * 999)  # files can contain anything
    later = site.service.usage(job.id, changes.cursor)
    assert [(one.time_s, one.node) for one in later.samples] == [(31, "n2"), (32, "n3")]
    assert site.service.usage(job.id, later.cursor).samples == ()


def test_sstat_runs_once_for_all_viewers(site: Site) -> None:
    job = site.service.submit(spec(SCRIPT, kind=JobKind.SCRIPT))
    site.wait(job.id, JobState.RUNNING)
    assert not command_counts(site)["sstat"]
    for _ in range(5):
        site.service.usage(job.id)
    assert command_counts(site)["sstat"] == 1
    site.service.cancel(job.id)


@pytest.mark.parametrize("text", ["x", "1:2", "-1:0:0", "0:0:" + "9" * 5000])
def test_foreign_cursor_is_rejected(text: str) -> None:
    with pytest.raises(RequestError, match="not a usage cursor"):
        parse_cursor(text)
