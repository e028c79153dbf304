"""What a job uses over time: read where `node/usage.py` writes it, else as Slurm samples it.

Nothing is read, and nobody asked, but while somebody waits here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from jupyter_slurm.errors import (
    LoginNeededError,
    MalformedError,
    NotFoundError,
    NotMeasuredError,
    RequestError,
    TransportError,
)
from jupyter_slurm.foreign import LATEST_S, read_json
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.watching.slurm_samples import SlurmSamples
from jupyter_slurm.wire import Job, Problem, UsageChanges, UsageSample

_MOST_LINE_BYTES = 65_536
_CURSOR = re.compile(r"[0-9]{1,9}(:[0-9]{1,18}){2}")
_PIECE_BYTES = 1 << 20
_FIRST_AFTER_S = 30.0
"""So long after its start a job that measures itself has written a sample."""
_PAUSES_S = ((60.0, 2.0), (3600.0, 10.0))
"""Up to this age of the job its file is looked at so often, which is how often it is written to;"""
_LATER_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Cursor:
    attempt: int = 0
    offset: int = 0
    """In that attempt's file."""
    since_ms: int = 0
    """The time of Slurm's last sample."""

    def __str__(self) -> str:
        return f"{self.attempt}:{self.offset}:{self.since_ms}"


def parse_cursor(text: str) -> Cursor:
    """Parse a cursor. RequestError: it is not one of ours."""
    if not text:
        return Cursor()
    if not _CURSOR.fullmatch(text):
        raise RequestError("{text} is not a cursor of a job's usage.", text=repr(text[:100]))
    return Cursor(*map(int, text.split(":")))


def parse_samples(data: bytes) -> tuple[list[UsageSample], int]:
    """Return the samples in the whole lines of `data`, and how many bytes these are. Pass over a
    line that holds none: a full disk may have cut it."""
    whole = data[: data.rfind(b"\n") + 1]
    samples = []
    for line in whole.splitlines():
        try:
            sample = read_json(line, UsageSample, _MOST_LINE_BYTES)
        except MalformedError:
            continue
        if 0 <= sample.time_s <= LATEST_S:
            samples.append(sample)
    return samples, len(whole)


class Measured:
    def __init__(self, book: Book, clusters: Clusters) -> None:
        self._book = book
        self._clusters = clusters
        self._slurms = SlurmSamples()

    def usage(self, job_id: str, cursor: str = "", wait_s: float = 0.0) -> UsageChanges:
        position = parse_cursor(cursor)
        deadline_s = time.monotonic() + wait_s
        while True:
            job = self._book.job(job_id)
            changes = self._look(job, position)
            left_s = deadline_s - time.monotonic()
            if changes.samples or changes.end or left_s <= 0 or self._book.closed:
                return changes
            self._book.wait(self._changed_since(job), min(left_s, self._pause_s(job)))

    def _look(self, job: Job, position: Cursor) -> UsageChanges:
        samples: list[UsageSample] = []
        try:
            if kind_of(job).is_as_written:
                samples, position, problem = self._ask_slurm(job, position)
                whole = True
            else:
                samples, position, whole = self._read(job, position)
                problem = _without_samples(job) if position == Cursor() and not samples else None
        except LoginNeededError:
            raise  # nothing comes before a person has logged in
        except TransportError as exc:  # the way there is lost for now
            problem, whole = exc.problem(), False
        return UsageChanges(
            cursor=str(position),
            samples=tuple(samples),
            job=job,
            end=job.state.final and whole,
            problem=problem,
        )

    def _read(self, job: Job, position: Cursor) -> tuple[list[UsageSample], Cursor, bool]:
        """Return the samples from `position` on, the next position, and whether it is the end."""
        if job.started_s is None:
            return [], position, True
        measured = self._book.job(job.session) if job.session is not None else job
        folder = JobDir(PurePosixPath(measured.job_dir))
        transport = self._clusters.named(job.cluster).transport
        samples: list[UsageSample] = []
        while True:
            path = folder.usage(position.attempt)
            data = transport.read(path, position.offset, _PIECE_BYTES) or b""
            found, taken = parse_samples(data)
            if not taken and len(data) == _PIECE_BYTES:  # no sample is so long: it is passed over
                taken = len(data)
            samples += found
            position = replace(position, offset=position.offset + taken)
            if len(data) == _PIECE_BYTES or position.attempt >= measured.restarts:
                break
            position = replace(position, attempt=position.attempt + 1, offset=0)
        if job.session is not None:
            samples = [one for one in samples if _during(job, one)]
        return samples, position, len(data) < _PIECE_BYTES

    def _ask_slurm(
        self, job: Job, position: Cursor
    ) -> tuple[list[UsageSample], Cursor, Problem | None]:
        if job.started_s is None:
            return [], position, None
        since_s = position.since_ms / 1000.0
        samples, problem = self._slurms.after(self._clusters.named(job.cluster), job, since_s)
        if samples:
            position = replace(position, since_ms=round(samples[-1].time_s * 1000))
        return samples, position, problem

    def _changed_since(self, job: Job) -> Callable[[], bool]:
        """Return a test for `Book.wait`: the job began, ended, began again, or was forgotten."""

        def changed() -> bool:
            try:
                now = self._book.job(job.id)
            except NotFoundError:
                return True
            return now.state is not job.state or now.restarts != job.restarts

        return changed

    def _pause_s(self, job: Job) -> float:
        if kind_of(job).is_as_written:
            return self._slurms.due_in_s(job)
        age_s = time.time() - (job.started_s or job.state_since_s)
        return next((pause for until, pause in _PAUSES_S if age_s < until), _LATER_PAUSE_S)


def _during(job: Job, sample: UsageSample) -> bool:
    """Tell whether the sample, which is its session's, tells of this cell."""
    return (job.started_s or 0.0) <= sample.time_s <= (job.ended_s or sample.time_s)


def _without_samples(job: Job) -> Problem | None:
    """Return why a job that measures itself has no sample; None: it is too early to say."""
    if job.started_s is None:
        return None
    if job.state.final:
        message = "It had ended before anything was measured."
    elif time.time() - job.started_s < _FIRST_AFTER_S:
        return None
    else:
        message = "What it uses is not measured: is there a python3 on the node?"
    hint = "`python` in the cluster's profile names another."
    return NotMeasuredError(message, hint=None if job.state.final else hint).problem()
