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
from jupyter_slurm.slurm import sprio, sshare
from jupyter_slurm.slurm.sprio import PriorityRow
from jupyter_slurm.slurm.sshare import ShareRow
from jupyter_slurm.wire import Job, JobPriority, JobState, Message, Priorities, Text, together

_LOW = 0.5
"""A fairshare factor (0 to 1) below this takes half of its weight from the job: then ask sshare
why."""


def of_mine(cluster: SlurmCluster, ours: Ours) -> Priorities:
    """Return all of this user's jobs that wait. `ours`: our records by Slurm's id."""
    rows = _rows(cluster)
    if rows is None:
        return Priorities(jobs=(), said=(_unweighted(cluster),))
    told = _told(rows, cluster.transport.user(), ours)
    none = Message.of("None of your jobs waits with a priority.")
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


def _unweighted(cluster: SlurmCluster) -> Text:
    return Message.of(
        "{name} does not weigh priorities (`PriorityType=priority/basic`): the jobs of a partition "
        "are tried in the order in which they came.",
        name=cluster.name,
    )


def _no_priority(job: Job) -> Text:
    none = Message.of(
        "Job {id} has no priority now, for it is {state}.", id=job.id, state=job.state
    )
    if job.state.final or job.slurm_id is None or job.state is not JobState.PENDING:
        return none
    waits = Message.of(
        "Job {id} has no priority now: Slurm gives one only to jobs that could start, not to those "
        "that are held or wait for another job or a time.",
        id=job.id,
    )
    return together(waits, job.why)


def _sum(one: JobPriority) -> Text:
    parts = sorted(one.given.items(), key=lambda part: -abs(part[1]))
    if parts:
        return Message.of(
            "Its priority in {partition} is {priority}: {given}.",
            partition=one.partition,
            priority=one.priority,
            given=", ".join(f"{name} {given:.0f}" for name, given in parts),
        )
    if one.priority > 1:
        return Message.of(
            "Its priority in {partition} is {priority}, which somebody has set (inferred: no "
            "factor gives anything to it).",
            partition=one.partition,
            priority=one.priority,
        )
    return Message.of(
        "Its priority in {partition} is {priority}: no factor gives anything to it.",
        partition=one.partition,
        priority=one.priority,
    )


def _place(one: JobPriority) -> Text:
    if one.before == 0:
        return Message.of(
            "None of the jobs that wait in {partition} and that Slurm shows you is before it.",
            partition=one.partition,
        )
    if one.before == 1:
        return Message.of(
            "One of the {waiting} jobs that wait in {partition} is before it.",
            waiting=one.waiting,
            partition=one.partition,
        )
    return Message.of(
        "{before} of the {waiting} jobs that wait in {partition} are before it.",
        before=one.before,
        waiting=one.waiting,
        partition=one.partition,
    )


def _fairshare(row: PriorityRow, mine: ShareRow | None) -> Text:
    gives = _of_most("fairshare", row) or Message.of("Fairshare gives nothing.")
    if mine is None:
        why = Message.of(
            "You or your account have used much of late (inferred); fairshare rises as Slurm "
            "forgets that use."
        )
    elif mine.used > mine.share:
        why = Message.of(
            "With the account `{account}` you have used {used} of late, and your share is {share}; "
            "fairshare rises as Slurm forgets that use.",
            account=mine.account,
            used=_percent(mine.used),
            share=_percent(mine.share),
        )
    else:
        why = Message.of(
            "With the account `{account}` you have used {used} of late, and your share is {share}: "
            "others in the account have used more than theirs (inferred).",
            account=mine.account,
            used=_percent(mine.used),
            share=_percent(mine.share),
        )
    return together(gives, why)


def _rest(row: PriorityRow) -> Iterator[Text]:
    if 0 < row.shares["age"] < 1:
        grows = Message.of("Age gives more the longer the job waits.")
        yield together(_of_most("age", row), grows)
    if row.given["nice"] < 0:
        yield Message.of(
            "The job's --nice takes {count} from its priority.",
            count=f"{-row.given['nice']:.0f}",
        )


def _of_most(factor: str, row: PriorityRow) -> Text | None:
    """Say what a factor gives of its weight; None: nothing, so that the weight is not known."""
    share = row.shares[factor]
    if not share:
        return None
    given, most = f"{row.given[factor]:.0f}", f"{row.given[factor] / share:.0f}"
    if factor == "age":
        return Message.of("Age gives {given} of at most {most}.", given=given, most=most)
    return Message.of("Fairshare gives {given} of at most {most}.", given=given, most=most)


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= 0.01 or not part else f"{100 * part:.2g} %"
