"""PURE: sessions in words: what starts one, which one a name means, how long one has left.

A session is a job (`JobKind.SESSION`) whose process runs cells as they come. The words after
`session start` are those of `%%slurm`, and `--idle`. No I/O, no clock, no IPython.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from jupyter_slurm import line
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.slurm.units import parse_time_s
from jupyter_slurm.wire import Job, JobKind, JobSpec, JobState

SOON_S = 300.0
"""When the end of a session is near enough to be told of."""
_IDLE_S = 1800
_ENDS = (JobKind.SESSION, JobKind.LAB, JobKind.KERNEL)
_NOT_FOR_A_SESSION = (
    "in out out-format fetch attach fresh on-interrupt wait no-raise session".split()
)
_START_ANOTHER = "`%slurm session start [OPTIONS]` starts one."


def start(
    words: Sequence[str], *, job_id: str, notebook: str | None
) -> tuple[line.Request, JobSpec]:
    """What the words after `session start` ask for. RequestError names the word that cannot be."""
    rest, idle_s = take_idle(words)
    for word in rest:
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and name in _NOT_FOR_A_SESSION:
            raise RequestError(f"--{name} belongs to the cells of a session, not to the session.")
    request = line.parse(rest)
    spec = line.spec(request, "", job_id=job_id, kind=JobKind.SESSION, notebook=notebook)
    return request, msgspec.structs.replace(spec, idle_s=idle_s or _IDLE_S)


def take_idle(words: Sequence[str]) -> tuple[list[str], int | None]:
    """The words without `--idle TIME`, and that time in seconds. None: it was not given."""
    rest: list[str] = []
    idle_s: int | None = None
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name != "--idle":
            rest.append(word)
            continue
        text = value if equals else next(left, "")
        try:
            asked_s = parse_time_s(text)
        except ValueError as exc:
            raise RequestError(f"--idle: {exc}") from exc
        if not asked_s:
            raise RequestError(f"--idle: `{text}` is no time after which anything could end.")
        idle_s = asked_s
    return rest, idle_s


def named(jobs: Iterable[Job], name: str) -> Job:
    """The session of that name or id: the newest that lives, else the newest. NotFoundError.

    `jobs` are given newest first, as by `Api.jobs`.
    """
    found = [job for job in jobs if job.kind is JobKind.SESSION and name in (job.id, job.name)]
    if not found:
        raise NotFoundError(
            f"There is no session `{name}`.", hint="`%slurm session` lists those there are."
        )
    return next((job for job in found if not job.state.final), found[0])


def newest(jobs: Iterable[Job], notebook: str | None) -> Job:
    """The session that this notebook has started last; without a notebook, any. NotFoundError."""
    sessions = [job for job in jobs if job.kind is JobKind.SESSION]
    mine = [job for job in sessions if notebook is None or job.notebook == notebook]
    if not mine:
        others = ", ".join(job.name for job in sessions if not job.state.final)
        raise NotFoundError(
            "This notebook has no session." if notebook else "There is no session.",
            hint=f"{_START_ANOTHER} There are: {others}." if others else _START_ANOTHER,
        )
    return mine[0]


def left_s(job: Job, now_s: float) -> float | None:
    """How long a session, a lab or a kernel that runs, or the session of a cell, has left at the
    most. None: that is not known, or there is no end to it."""
    if job.session is not None:
        return None if job.session_ends_s is None else job.session_ends_s - now_s
    if job.kind not in _ENDS or job.state is not JobState.RUNNING:
        return None
    ends: list[float] = []
    if job.started_s is not None and job.limit_s is not None:
        ends.append(job.started_s + job.limit_s)
    if job.idle_since_s is not None and job.idle_s is not None:
        ends.append(job.idle_since_s + job.idle_s)
    return min(ends) - now_s if ends else None
