"""Sessions: the look-up by name, and the text about a session's end. No I/O.

A session is a job (`JobKind.SESSION`) whose process runs cells on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.formatting import duration, joined
from jupyter_slurm.views.card import left_s
from jupyter_slurm.wire import Job, JobKind, SessionJob

_FEW = 3
_START_ANOTHER = "Start one with `%slurm session start [OPTIONS]`."


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of sessions: a notebook, or all terminals (None). `started` contains the IDs of
    additional sessions, for a kernel with an unknown notebook. An Executor owns the sessions that
    it started."""

    notebook: str | None
    started: frozenset[str] = frozenset()

    def has(self, job: Job) -> bool:
        if isinstance(job, SessionJob) and job.for_executor:
            return False
        return job.notebook == self.notebook or job.id in self.started


def named(jobs: Iterable[Job], name: str, owner: Owner, cluster: str | None = None) -> Job:
    """Return the session with this ID, or the owner's session with this name on the cluster. Prefer
    sessions that have not ended, then the newest session. `cluster` is None for all clusters.
    `jobs` are sorted newest first, like the result of `Api.jobs`. Raise NotFoundError if no session
    matches, RequestError if sessions on several clusters match.
    """
    sessions = [job for job in jobs if job.kind is JobKind.SESSION]
    if by_id := [job for job in sessions if job.id == name]:
        return by_id[0]
    found = [job for job in sessions if job.name == name]
    mine = [job for job in found if owner.has(job) and cluster in (None, job.cluster)]
    live = [job for job in mine if not job.state.final]
    if len({job.cluster for job in live}) > 1:
        told = _those(live, owner)
        raise RequestError(f"`{name}` is the name of {told}.", hint="Use the ID, or --cluster.")
    if not mine:
        others = [job for job in found if not job.state.final]
        there = f"`{name}` is {_those(others, owner)}. Use the ID."
        raise NotFoundError(
            _none(owner, cluster, name),
            hint=there if others else "List sessions with `%slurm session`.",
        )
    return (live or mine)[0]


def newest(jobs: Iterable[Job], owner: Owner, cluster: str | None = None) -> Job:
    """Return the owner's newest session on the cluster, or on any cluster if `cluster` is None.
    Raises NotFoundError."""
    sessions = [job for job in jobs if job.kind is JobKind.SESSION]
    mine = [job for job in sessions if owner.has(job) and cluster in (None, job.cluster)]
    if not mine:
        others = [job for job in sessions if not job.state.final]
        told = (f"`{job.name}` is {_those([job], owner)}." for job in others[:_FEW])
        raise NotFoundError(_none(owner, cluster), hint=joined(_START_ANOTHER, *told))
    return mine[0]


def is_ready(job: Job) -> bool:
    """Return whether the session's process has started."""
    return job.python is not None


def check_cluster(job: Job, cluster: str | None) -> None:
    """Raise RequestError if the session is not on the named cluster."""
    if cluster not in (None, job.cluster):
        raise RequestError(
            f"The session {job.name} ({job.id}) runs on {job.cluster}, not on {cluster}.",
            hint="Omit --cluster.",
        )


def ends(job: Job, now_s: float) -> str:
    """Return the latest time of the job's end, or the reason why the job waits."""
    left = left_s(job, now_s)
    if left is None:
        return job.why or ""
    return f"in {duration(left)} at the latest"


def _none(owner: Owner, cluster: str | None, name: str = "") -> str:
    called = f" `{name}`" if name else ""
    on = f" on {cluster}" if cluster else ""
    if owner.notebook is None:
        return f"Found no session{called} outside of notebooks{on}."
    return f"This notebook has no session{called}{on}."


def _those(jobs: Sequence[Job], owner: Owner) -> str:
    """Return each session's ID, owner and cluster as text."""
    return ", ".join(
        f"session {job.id} of {_whose(job, owner)} on {job.cluster}" for job in jobs[:_FEW]
    )


def _whose(job: Job, owner: Owner) -> str:
    if isinstance(job, SessionJob) and job.for_executor:
        return "an Executor"
    if job.notebook is None:
        return "a terminal"
    return "this notebook" if job.notebook == owner.notebook else job.notebook
