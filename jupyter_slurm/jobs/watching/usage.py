"""A job's usage over time, from `node/usage.py` on each of its nodes or from Slurm's samples.

Data is read only while a caller waits.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import PurePosixPath

from msgspec import structs

from jupyter_slurm.errors import (
    LoginNeededError,
    MalformedError,
    NotFoundError,
    NotMeasuredError,
    RequestError,
    TransportError,
)
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.watching.slurm_samples import SlurmSamples
from jupyter_slurm.transport import Span
from jupyter_slurm.untrusted_json import LATEST_S, read_json
from jupyter_slurm.wire import Job, Problem, UsageChanges, UsageSample

_MOST_LINE_BYTES = 65_536
_MOST_NODES = 256
"""Maximum number of nodes to read. A thousand files would make each read slow."""
_CURSOR = re.compile(
    rf"[0-9]{{1,9}}:[0-9]{{1,18}}(,[0-9]{{1,18}}){{0,{_MOST_NODES - 1}}}:[0-9]{{1,18}}"
)
_NODE = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_PIECE_BYTES = 1 << 20
"""Maximum bytes to read at a time, from the files of all nodes together."""
_FIRST_AFTER_S = 30.0
"""Maximum seconds from the start of a job that measures itself to its first sample."""
_PAUSES_S = ((60.0, 2.0), (3600.0, 10.0))
"""Pairs of a job's maximum age and the seconds between reads, as in `node/usage.py`."""
_LATER_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class UsageCursor:
    attempt: int = 0
    offsets: tuple[int, ...] = (0,)
    """Positions in the files of the attempt, one per node. Missing positions are 0."""
    since_ms: int = 0
    """The time of Slurm's last sample."""

    def __str__(self) -> str:
        return f"{self.attempt}:{','.join(map(str, self.offsets))}:{self.since_ms}"

    @property
    def is_start(self) -> bool:
        return not (self.attempt or any(self.offsets) or self.since_ms)


def parse_cursor(text: str) -> UsageCursor:
    """Parse a cursor. Raise RequestError if it is invalid."""
    if not text:
        return UsageCursor()
    if not _CURSOR.fullmatch(text):
        raise RequestError(f"{text[:100]!r} is not a usage cursor.")
    attempt, offsets, since_ms = text.split(":")
    return UsageCursor(int(attempt), tuple(map(int, offsets.split(","))), int(since_ms))


def parse_samples(data: bytes) -> tuple[list[UsageSample], int]:
    """Return the samples in the complete lines of `data`, and the size of these lines. Skip invalid
    lines, since a full disk may have cut a line."""
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
    def __init__(self, registry: JobRegistry, clusters: Clusters) -> None:
        self._registry = registry
        self._clusters = clusters
        self._slurms = SlurmSamples()

    def usage(self, job_id: str, cursor: str = "", wait_s: float = 0.0) -> UsageChanges:
        position = parse_cursor(cursor)
        deadline_s = time.monotonic() + wait_s
        while True:
            job = self._registry.job(job_id)
            changes = self._look(job, position)
            left_s = deadline_s - time.monotonic()
            if changes.samples or changes.end or left_s <= 0 or self._registry.closed:
                return changes
            self._registry.wait(self._changed_since(job), min(left_s, self._pause_s(job)))

    def _look(self, job: Job, position: UsageCursor) -> UsageChanges:
        samples: list[UsageSample] = []
        try:
            if kind_of(job).is_raw_script:
                samples, position, problem = self._ask_slurm(job, position)
                whole = True
            else:
                samples, position, whole = self._read(job, position)
                problem = _without_samples(job) if position.is_start and not samples else None
        except LoginNeededError:
            raise  # no data before the user logs in
        except TransportError as exc:  # the connection dropped
            problem, whole = exc.problem(), False
        return UsageChanges(
            cursor=str(position),
            samples=tuple(samples),
            job=job,
            end=job.state.final and whole,
            problem=problem,
        )

    def _read(self, job: Job, position: UsageCursor) -> tuple[list[UsageSample], UsageCursor, bool]:
        """Return the samples starting at `position`, the next position, and whether all data was
        read."""
        if job.started_s is None:
            return [], position, True
        measured = self._registry.job(job.session) if job.session is not None else job
        samples: list[UsageSample] = []
        while True:
            found, position, whole = self._read_attempt(measured, position)
            samples += found
            if not whole or position.attempt >= measured.restarts:
                break
            position = UsageCursor(position.attempt + 1)
        if job.session is not None:
            samples = [one for one in samples if _during(job, one)]
        return samples, position, whole

    def _read_attempt(
        self, job: Job, position: UsageCursor
    ) -> tuple[list[UsageSample], UsageCursor, bool]:
        """Return the result of `_read` for one attempt, from a piece of each node's file."""
        folder = JobDir(PurePosixPath(job.job_dir))
        count = max(1, min(len(job.nodes), _MOST_NODES), len(position.offsets))
        offsets = [*position.offsets, *repeat(0, count - len(position.offsets))]
        piece_bytes = _PIECE_BYTES // count
        spans = [
            Span(folder.usage(position.attempt, node), offset, piece_bytes)
            for node, offset in enumerate(offsets)
        ]
        samples: list[UsageSample] = []
        whole = True
        for node, data in enumerate(self._clusters.named(job.cluster).transport.read_many(spans)):
            found, taken = parse_samples(data or b"")
            if data is not None and len(data) == piece_bytes:
                whole = False
                taken = taken or piece_bytes  # skip a line that is longer than any sample
            offsets[node] += taken
            name = job.nodes[node] if node < len(job.nodes) else ""
            samples += (_named(one, name) for one in found)
        samples.sort(key=lambda one: one.time_s)
        return samples, replace(position, offsets=tuple(offsets)), whole

    def _ask_slurm(
        self, job: Job, position: UsageCursor
    ) -> tuple[list[UsageSample], UsageCursor, Problem | None]:
        if job.started_s is None:
            return [], position, None
        since_s = position.since_ms / 1000.0
        samples, problem = self._slurms.after(self._clusters.named(job.cluster), job, since_s)
        if samples:
            position = replace(position, since_ms=round(samples[-1].time_s * 1000))
        return samples, position, problem

    def _changed_since(self, job: Job) -> Callable[[], bool]:
        """Return a condition for `wait` that is true once the job has started, ended, restarted or
        been forgotten."""

        def changed() -> bool:
            try:
                now = self._registry.job(job.id)
            except NotFoundError:
                return True
            return now.state is not job.state or now.restarts != job.restarts

        return changed

    def _pause_s(self, job: Job) -> float:
        if kind_of(job).is_raw_script:
            return self._slurms.due_in_s(job)
        age_s = time.time() - (job.started_s or job.state_since_s)
        return next((pause for until, pause in _PAUSES_S if age_s < until), _LATER_PAUSE_S)


def _named(sample: UsageSample, node: str) -> UsageSample:
    """Return the sample with its node's name, by default `node`. Before a requeue the job may have
    run on other nodes."""
    return sample if _NODE.fullmatch(sample.node) else structs.replace(sample, node=node)


def _during(job: Job, sample: UsageSample) -> bool:
    """Return whether a sample of the session was taken while this cell ran."""
    return (job.started_s or 0.0) <= sample.time_s <= (job.ended_s or sample.time_s)


def _without_samples(job: Job) -> Problem | None:
    """Return the reason why samples of a job that measures itself are missing; None before a sample
    is due."""
    if job.started_s is None:
        return None
    if job.state.final:
        message = "The job ended before the first sample."
    elif time.time() - job.started_s < _FIRST_AFTER_S:
        return None
    else:
        message = "Usage is not measured. The node may lack python3."
    hint = "Set `python` in the cluster's profile."
    return NotMeasuredError(message, hint=None if job.state.final else hint).problem()
