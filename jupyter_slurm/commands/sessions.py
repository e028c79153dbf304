"""PURE: sessions in words: which one a name means, how long one has left.

A session is a job (`JobKind.SESSION`) whose process runs cells as they come. No I/O, no clock, no
IPython.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.jobs.kinds import jobs_of, kind_of
from jupyter_slurm.readable import duration
from jupyter_slurm.wire import CellJob, Job, JobKind, JobState, Message, said, together

SOON_S = 300.0
"""How long before a session's end to warn of it."""
_FEW = 3
_NONE = {
    (True, True, True): Message.of(
        "There is no session `{name}` outside of notebooks on {cluster}."
    ),
    (True, True, False): Message.of("There is no session `{name}` outside of notebooks."),
    (True, False, True): Message.of("There is no session outside of notebooks on {cluster}."),
    (True, False, False): Message.of("There is no session outside of notebooks."),
    (False, True, True): Message.of("This notebook has no session `{name}` on {cluster}."),
    (False, True, False): Message.of("This notebook has no session `{name}`."),
    (False, False, True): Message.of("This notebook has no session on {cluster}."),
    (False, False, False): Message.of("This notebook has no session."),
}
"""By whether those of terminals are meant, a name, and a cluster was asked for."""
_START_ANOTHER = "`%slurm session start [OPTIONS]` starts one."


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of the sessions that a name, or none, means: a notebook, or without one all
    terminals. `started`: ids of more, for a kernel whose notebook is not known."""

    notebook: str | None
    started: frozenset[str] = frozenset()

    def has(self, job: Job) -> bool:
        return job.notebook == self.notebook or job.id in self.started


def named(jobs: Iterable[Job], name: str, owner: Owner, cluster: str | None = None) -> Job:
    """Return any session by its id, or the owner's of that name on the cluster (None: any): the
    newest that lives, else the newest. NotFoundError; RequestError: on several clusters.

    `jobs` are sorted newest first, as by `Api.jobs`.
    """
    sessions = jobs_of(JobKind.SESSION, jobs)
    if by_id := [job for job in sessions if job.id == name]:
        return by_id[0]
    found = [job for job in sessions if job.name == name]
    mine = [job for job in found if owner.has(job) and cluster in (None, job.cluster)]
    live = [job for job in mine if not job.state.final]
    if len({job.cluster for job in live}) > 1:
        told = _those(live, owner)
        raise RequestError(
            "`{name}` names {told}.", hint="Give the id of one, or --cluster.", name=name, told=told
        )
    if not mine:
        others = [job for job in found if not job.state.final]
        there = Message.of(
            "`{name}` is {those}: its id means it everywhere.",
            name=name,
            those=_those(others, owner),
        )
        raise NotFoundError(
            _none(owner, cluster, name),
            hint=there if others else "`%slurm session` lists those there are.",
        )
    return (live or mine)[0]


def newest(jobs: Iterable[Job], owner: Owner, cluster: str | None = None) -> Job:
    """Return the session that the owner started last on the cluster (None: any).
    NotFoundError."""
    sessions = jobs_of(JobKind.SESSION, jobs)
    mine = [job for job in sessions if owner.has(job) and cluster in (None, job.cluster)]
    if not mine:
        others = [job for job in sessions if not job.state.final]
        told = (
            Message.of("`{name}` is {those}.", name=job.name, those=_those([job], owner))
            for job in others[:_FEW]
        )
        raise NotFoundError(_none(owner, cluster), hint=together(_START_ANOTHER, *told))
    return mine[0]


def is_ready(job: Job) -> bool:
    """Tell whether the session's process runs."""
    return job.python is not None


def check_cluster(job: Job, cluster: str | None) -> None:
    """Raise RequestError if the session does not run on the cluster that the user named."""
    if cluster not in (None, job.cluster):
        raise RequestError(
            "The session {name} ({id}) runs on {cluster}, not on {wanted}.",
            hint="Leave out --cluster.",
            name=job.name,
            id=job.id,
            cluster=job.cluster,
            wanted=cluster,
        )


def ends(job: Job, now_s: float) -> str:
    """Return when it ends at the latest, or why it waits."""
    left = left_s(job, now_s)
    if left is None:
        return said(job.why or "")
    return said("in {span} at the latest", span=duration(left))


def _none(owner: Owner, cluster: str | None, name: str = "") -> Message:
    told = _NONE[owner.notebook is None, bool(name), bool(cluster)]
    return Message.of(told.text, name=name, cluster=cluster)


def _those(jobs: Sequence[Job], owner: Owner) -> str:
    """Return each session's id, owner and cluster, as text."""
    return ", ".join(
        said(
            "session {id} of {owner} on {cluster}",
            id=job.id,
            owner=_whose(job, owner),
            cluster=job.cluster,
        )
        for job in jobs[:_FEW]
    )


def _whose(job: Job, owner: Owner) -> str:
    if job.notebook is None:
        return said("a terminal")
    return said("this notebook") if job.notebook == owner.notebook else job.notebook


def left_s(job: Job, now_s: float) -> float | None:
    """Return how many seconds a session, a lab or a kernel that runs, or the session of a cell, has
    left at most. None: not known, or it has no end."""
    if isinstance(job, CellJob) and job.session is not None:
        return None if job.session_ends_s is None else job.session_ends_s - now_s
    if not kind_of(job).ends_by_request or job.state is not JobState.RUNNING:
        return None
    ends: list[float] = []
    if job.started_s is not None and job.limit_s is not None:
        ends.append(job.started_s + job.limit_s)
    if job.idle_since_s is not None and job.idle_s is not None:
        ends.append(job.idle_since_s + job.idle_s)
    return min(ends) - now_s if ends else None
