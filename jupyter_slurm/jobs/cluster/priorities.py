"""Which of this user's jobs wait, what gives them their priority, and what would change it.

Asked when somebody asks: one sprio for all jobs; one sshare too where fairshare lowers a job's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress

from jupyter_slurm.errors import CommandError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.watching.listing import Ours
from jupyter_slurm.readable import joined
from jupyter_slurm.slurm import sprio, sshare
from jupyter_slurm.slurm.sprio import PriorityRow
from jupyter_slurm.slurm.sshare import ShareRow
from jupyter_slurm.wire import Job, JobPriority, JobState, Priorities

_LOW = 0.5
"""A fairshare factor (0 to 1) below this takes half of its weight from the job: then ask sshare
why."""


def of_mine(cluster: SlurmCluster, ours: Ours) -> Priorities:
    """Return all of this user's jobs that wait. `ours`: our records by Slurm's id."""
    rows = _rows(cluster)
    if rows is None:
        return Priorities(jobs=(), said=(_unweighted(cluster),))
    told = _told(rows, cluster.transport.user(), ours)
    none = "None of your jobs waits with a priority."
    return Priorities(jobs=tuple(told), said=() if told else (none,))


def of_job(cluster: SlurmCluster, job: Job, ours: Ours) -> Priorities:
    """Return one job of this user's, with sentences that tell where it stands and why."""
    if job.slurm_id is None or job.state.final:
        return Priorities(jobs=(), said=(_no_priority(job),))
    rows = _rows(cluster)
    if rows is None:
        return Priorities(jobs=(), said=(_unweighted(cluster),))
    told = [one for one in _told(rows, cluster.transport.user(), ours) if one.id == job.id]
    if not told:
        return Priorities(jobs=(), said=(_no_priority(job),))
    row = next(one for one in rows if one.slurm_id == told[0].slurm_id)
    places = [sentence for one in told for sentence in (_sum(one), _place(one))]
    weighed = any(one.given["fairshare"] for one in rows)
    low = weighed and row.shares["fairshare"] < _LOW
    fairshare = [_fairshare(row, _my_share(cluster, row))] if low else []
    return Priorities(jobs=tuple(told), said=(*places, *fairshare, *_rest(row)))


def _rows(cluster: SlurmCluster) -> list[PriorityRow] | None:
    """Return the jobs that wait; None: the cluster weighs no priorities."""
    try:
        return sprio.parse(cluster.ask(sprio.argv()))
    except CommandError as exc:
        if sprio.is_unweighted(exc.detail or ""):
            return None
        raise


def _told(rows: Sequence[PriorityRow], user: str, ours: Ours) -> list[JobPriority]:
    order: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        order.setdefault(row.partition, []).append(_turn(row))
    for turns in order.values():
        turns.sort()
    mine = sorted((row for row in rows if row.user == user), key=_turn)
    return [_entry(row, order[row.partition], ours) for row in mine]


def _turn(row: PriorityRow) -> tuple[int, int]:
    """Return what jobs of a partition are tried in the order of: of two with the same priority
    Slurm takes the one with the smaller id (sort_job_queue2() in job_scheduler.c)."""
    return (-row.priority, int(row.slurm_id))


def _entry(row: PriorityRow, turns: Sequence[tuple[int, int]], ours: Ours) -> JobPriority:
    live = (one.job for one in ours.get(row.slurm_id, ()) if not one.job.state.final)
    job = next(live, None)
    return JobPriority(
        slurm_id=row.slurm_id,
        partition=row.partition,
        priority=row.priority,
        before=bisect_left(turns, _turn(row)),
        waiting=len(turns),
        given={name: given for name, given in row.given.items() if given},
        id=job.id if job else None,
        name=job.name if job else None,
    )


def _my_share(cluster: SlurmCluster, row: PriorityRow) -> ShareRow | None:
    """Return what the user was meant to have with the job's account; None: that is not known."""
    with suppress(CommandError):  # the sentence does without
        rows = sshare.parse(cluster.ask(sshare.mine_argv()))
        mine = [one for one in rows if row.account in (None, one.account)]
        return mine[0] if len(mine) == 1 else None
    return None


def _unweighted(cluster: SlurmCluster) -> str:
    return (
        f"{cluster.name} does not weigh priorities (`PriorityType=priority/basic`): the jobs of a "
        "partition are tried in the order in which they came."
    )


def _no_priority(job: Job) -> str:
    none = f"Job {job.id} has no priority now, for it is {job.state}."
    if job.state.final or job.slurm_id is None or job.state is not JobState.PENDING:
        return none
    waits = (
        f"Job {job.id} has no priority now: Slurm gives one only to jobs that could start, not to "
        "those that are held or wait for another job or a time."
    )
    return joined(waits, job.why)


def _sum(one: JobPriority) -> str:
    parts = sorted(one.given.items(), key=lambda part: -abs(part[1]))
    if parts:
        return (
            f"Its priority in {one.partition} is {one.priority}: "
            f"{', '.join((f'{name} {given:.0f}' for name, given in parts))}."
        )
    if one.priority > 1:
        return (
            f"Its priority in {one.partition} is {one.priority}, which an administrator set "
            "(inferred: no factor gives anything to it)."
        )
    return f"Its priority in {one.partition} is {one.priority}: no factor gives anything to it."


def _place(one: JobPriority) -> str:
    if one.before == 0:
        return (
            f"None of the jobs that wait in {one.partition} and that Slurm shows you is before it."
        )
    if one.before == 1:
        return f"One of the {one.waiting} jobs that wait in {one.partition} is before it."
    return f"{one.before} of the {one.waiting} jobs that wait in {one.partition} are before it."


def _fairshare(row: PriorityRow, mine: ShareRow | None) -> str:
    gives = _of_most("fairshare", row) or "Fairshare gives nothing."
    if mine is None:
        why = (
            "You or your account have used much of late (inferred); fairshare rises as Slurm "
            "forgets that use."
        )
    elif mine.used > mine.share:
        why = (
            f"With the account `{mine.account}` you have used {_percent(mine.used)} of late, and "
            f"your share is {_percent(mine.share)}; fairshare rises as Slurm forgets that use."
        )
    else:
        why = (
            f"With the account `{mine.account}` you have used {_percent(mine.used)} of late, and "
            f"your share is {_percent(mine.share)}: others in the account have used more than "
            "theirs (inferred)."
        )
    return joined(gives, why)


def _rest(row: PriorityRow) -> Iterator[str]:
    if 0 < row.shares["age"] < 1:
        grows = "Age gives more the longer the job waits."
        yield joined(_of_most("age", row), grows)
    if row.given["nice"] < 0:
        yield f"The job's --nice takes {-row.given['nice']:.0f} from its priority."


def _of_most(factor: str, row: PriorityRow) -> str | None:
    """Say what a factor gives of its weight; None: nothing, so that the weight is not known."""
    share = row.shares[factor]
    if not share:
        return None
    given, most = f"{row.given[factor]:.0f}", f"{row.given[factor] / share:.0f}"
    if factor == "age":
        return f"Age gives {given} of at most {most}."
    return f"Fairshare gives {given} of at most {most}."


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= 0.01 or not part else f"{100 * part:.2g} %"
