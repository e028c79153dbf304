"""What a job uses over time, as whoever looks is told it, on the real Slurm."""

from __future__ import annotations

import time
from collections import Counter
from itertools import takewhile
from pathlib import Path, PurePosixPath

import pytest

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.watching.usage import parse_cursor
from jupyter_slurm.wire import JobKind, JobState, UsageChanges, UsageSample
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
"""Has ended before it is measured; a Python may take long enough to start on a busy machine."""
PATIENCE_S = 60.0


def watched(site: Site, job_id: str, count: int, cursor: str = "") -> tuple[list[UsageSample], str]:
    """The next samples, `count` or more of them, and the cursor behind them."""
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
    """How often each of Slurm's commands was run."""
    counts: Counter[str] = Counter()
    for name, count in site.service.status().commands.items():
        counts[name.rpartition(" ")[2]] += count
    return counts


def test_a_running_cell_is_measured_and_every_sample_comes_once(site: Site) -> None:
    job = site.service.submit(spec(HOLDS))
    first, cursor = watched(site, job.id, 1)
    begins = list(takewhile(lambda sample: sample.memory_mib <= 150, first))
    while len(begins) == len(first):  # a busy machine takes its time to start a Python
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


def test_one_that_waits_has_no_samples_and_that_is_no_problem(site: Site) -> None:
    job = site.service.submit(spec("1", options={"hold": ""}))
    changes = site.service.usage(job.id)
    assert (changes.samples, changes.end, changes.problem) == ((), False, None)
    site.service.cancel(job.id)
    assert to_the_end(site, job.id)[-1].problem is None


def test_one_that_was_too_short_says_so(site: Site) -> None:
    [changes] = to_the_end(site, site.run(SHORT, kind=JobKind.PROGRAM).id)
    assert changes.samples == ()
    assert changes.problem is not None
    assert changes.problem.code == "not-measured"
    assert "before" in str(changes.problem.message)


def test_the_samples_of_all_attempts_follow_each_other(site: Site) -> None:
    job = site.run(SHORT, kind=JobKind.PROGRAM)
    line = '{"time_s": %d, "cpus": 1, "memory_mib": 2, "gpus": []}\n'
    for attempt in range(3):
        path = Path(JobDir(PurePosixPath(job.job_dir)).usage(attempt))
        path.write_text(line % (10 * attempt) + line % (10 * attempt + 1))
    site.service._book.change(job.id, restarts=2)
    [changes] = to_the_end(site, job.id)
    assert [sample.time_s for sample in changes.samples] == [0, 1, 10, 11, 20, 21]
    assert site.service.usage(job.id, changes.cursor).samples == ()


def test_a_cell_of_a_session_has_the_samples_of_its_time(site: Site) -> None:
    session = site.service.submit(spec("", kind=JobKind.SESSION, idle_s=600))
    site.wait(session.id, JobState.RUNNING)
    watched(site, session.id, 1)
    cell = site.service.submit(spec(HOLDS, session=session.id))
    samples, _ = watched(site, cell.id, 1)
    started_s = site.service.job(cell.id).started_s
    assert started_s is not None
    assert all(sample.time_s >= started_s for sample in samples)
    site.service.cancel(session.id)


def test_slurm_is_asked_once_for_all_who_look_at_a_batch_script(site: Site) -> None:
    job = site.service.submit(spec(SCRIPT, kind=JobKind.SCRIPT))
    site.wait(job.id, JobState.RUNNING)
    assert not command_counts(site)["sstat"]
    for _ in range(5):
        site.service.usage(job.id)
    assert command_counts(site)["sstat"] == 1
    site.service.cancel(job.id)


@pytest.mark.parametrize("text", ["x", "1:2", "1:2:3:4", "-1:0:0", "0:-1:0", "0:0:" + "9" * 5000])
def test_a_cursor_that_is_none_of_ours_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="not a cursor"):
        parse_cursor(text)


def test_of_no_job_nothing_is_told(site: Site) -> None:
    with pytest.raises(NotFoundError):
        site.service.usage("nosuch")
