"""GPU loads of our running jobs, for viewers of the queue.

The last lines of all jobs' measurements (`node/usage.py`) are read in one round trip, at most twice
a minute. `usage.py` reads the history of a single job.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from jupyter_slurm.errors import MalformedError, TransportError
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.transport import Span, Transport
from jupyter_slurm.untrusted_json import read_json
from jupyter_slurm.wire import Job, JobState, UsageSample

_EVERY_S = 30.0
_AFTER_ERROR_S = 300.0
_MOST_FILES = 16
"""The maximum number of files to read. On a login node, each file starts two short-lived
processes."""
_LINE_BYTES = 8192
_FRESH_S = 600.0
"""The maximum age of a sample. A job of many days writes one sample per hour."""


class GpuLoads:
    """A cache of the loads. Not thread-safe."""

    def __init__(self) -> None:
        self._known: Mapping[str, float] = {}
        self._due_s = float("-inf")

    def read(self, transport: Transport, jobs: Iterable[Job]) -> Mapping[str, float]:
        """Return the mean load, 0 to 1, of the GPUs of each job that measures them, by job ID. The
        loads are cached for half a minute."""
        if time.monotonic() < self._due_s:
            return self._known
        spans = _spans(jobs)
        try:
            contents = transport.read_many([span for _, span in spans]) if spans else []
        except TransportError:
            self._known, self._due_s = {}, time.monotonic() + _AFTER_ERROR_S
            return self._known
        busy: dict[str, list[float]] = {}
        for (job_id, _), content in zip(spans, contents, strict=True):
            busy.setdefault(job_id, []).extend(_utilisations(content or b""))
        self._known = {one: round(sum(all_) / len(all_), 2) for one, all_ in busy.items() if all_}
        self._due_s = time.monotonic() + _EVERY_S
        return self._known


def _spans(jobs: Iterable[Job]) -> list[tuple[str, Span]]:
    """Return the last bytes of each measurement file as a span, with the job's ID. Leave out
    arrays, since their tasks do not share a file."""
    found = []
    for job in jobs:
        measures = job.state is JobState.RUNNING and job.gpus and not kind_of(job).is_raw_script
        if job.slurm_id is None or job.tasks or not measures:
            continue
        folder = JobDir(PurePosixPath(job.job_dir))
        for node in range(max(1, len(job.nodes))):
            path = folder.usage(job.restarts, node)
            found.append((job.id, Span(path, -_LINE_BYTES, _LINE_BYTES)))
    return found[:_MOST_FILES]


def _utilisations(content: bytes) -> list[float]:
    last = content[: content.rfind(b"\n")].rpartition(b"\n")[2]
    try:
        sample = read_json(last, UsageSample, _LINE_BYTES)
    except MalformedError:
        return []
    is_fresh = sample.time_s > time.time() - _FRESH_S
    return [one.utilisation for one in sample.gpus if is_fresh and one.utilisation is not None]
