"""What QOS and associations allow a job, and what of it this user's jobs have already. PURE.

As slurmctld judges (src/slurmctld/acct_policy.c, resource_limits.html): the QOS of the partition,
that of the job, the user's association, the account; of one kind of limit the first that is set
counts. What one job alone is too much for is refused where a QOS says DenyOnLimit, else it waits
for ever; what others have now makes it wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jupyter_slurm.formatting import counted, duration, joined
from jupyter_slurm.jobs.preflight import phrases
from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.jobs.preflight.resources import Resources
from jupyter_slurm.slurm.units import format_time
from jupyter_slurm.wire import Association, ClusterInfo, InUse, Limits, Partition, Qos

_OPTIONS: Mapping[str, str] = {"cpu": "cpus-per-task", "node": "nodes", "mem": "mem"}
"""The option that asks for each; for GPUs of any type `gpus`."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """A QOS or account that sets limits, and what this user's jobs have of them."""

    name: phrases.Name
    limits: Limits
    jobs: int
    queued: int
    tres: Mapping[str, float]


def objections(
    job: Resources, info: ClusterInfo, partition: Partition | None
) -> Iterator[Objection]:
    """Yield objections. `partition`: where the job would go, as the cluster tells of it."""
    mine = _association(job, info, partition)
    owners, denies = _owners(job, info, partition, mine)
    enforced = "limits" in info.enforced
    certain = denies and enforced and not job.held
    yield from _too_long(job, owners, partition, certain=certain)
    alone = dict(_too_much(job, owners, certain=certain))
    yield from alone.values()
    if enforced:
        yield from _too_many(job, owners)
        yield from _must_wait(job, owners, alone)


def qos(job: Resources, info: ClusterInfo, partition: Partition | None) -> Qos | None:
    """Return the job's own QOS, as far as it is known."""
    name = _qos_of(job, info, _association(job, info, partition))
    return next((one for one in info.qos_limits if one.name == name), None)


# --- who sets limits -----------------------------------------------------------------------------


def _association(
    job: Resources, info: ClusterInfo, partition: Partition | None
) -> Association | None:
    """Return the user's association that the job would be of; None: that is not known."""
    mine = [one for one in info.associations if not one.whole]
    accounts = {one.account for one in mine}
    found = [
        one
        for one in mine
        if (one.account == job.account if job.account else one.default or len(accounts) == 1)
        and one.partition in (None, partition.name if partition else None)
    ]
    return max(found, key=lambda one: one.partition is not None, default=None)


def _qos_of(job: Resources, info: ClusterInfo, mine: Association | None) -> str | None:
    """Choose as src/slurmctld/job_mgr.c does, in _determine_and_validate_qos()."""
    if job.qos or mine is None:
        return job.qos or (info.qos[0] if len(info.qos) == 1 else None)
    if len(mine.qos) == 1:
        return mine.qos[0]
    return mine.default_qos or ("normal" if "normal" in mine.qos else None)


def _owners(
    job: Resources, info: ClusterInfo, partition: Partition | None, mine: Association | None
) -> tuple[list[_Owner], bool]:
    """Return the owners of limits, the first counting first; and whether one denies excess."""
    known = {one.name: one for one in info.qos_limits}
    own = known.get(_qos_of(job, info, mine) or "")
    theirs = known.get(partition.qos or "") if partition else None
    pair = [one for one in (theirs, own) if one is not None]
    if own is not None and own.over_partition:
        pair.reverse()
    pair = pair[:1] if pair[1:] == pair[:1] else pair
    owners = [_of_qos(one, info, partition) for one in pair]
    if mine is not None:
        whole = [one for one in info.associations if one.whole and one.account == mine.account]
        used = [one for one in info.in_use if one.account == mine.account]
        owners += [
            _owner(phrases.account(one.account, whole=one.whole), one, used)
            for one in (mine, *whole)
        ]
    return owners, any(one.denies for one in pair)


def _of_qos(qos: Qos, info: ClusterInfo, partition: Partition | None) -> _Owner:
    of_partition = {one.name for one in info.partitions if one.qos == qos.name}
    used = [one for one in info.in_use if one.qos == qos.name or one.partition in of_partition]
    where = partition.name if partition and partition.qos == qos.name else None
    return _owner(phrases.qos(qos.name, where), qos, used)


def _owner(name: phrases.Name, limits: Limits, used: list[InUse]) -> _Owner:
    tres: dict[str, float] = {}
    for one in used:
        for what, count in one.tres.items():
            tres[what] = tres.get(what, 0) + count
    return _Owner(
        name, limits, sum(one.jobs for one in used), sum(one.queued for one in used), tres
    )


# --- what the job asks for against it -------------------------------------------------------------


def _too_long(
    job: Resources, owners: list[_Owner], partition: Partition | None, *, certain: bool
) -> Iterator[Objection]:
    owner = next((one for one in owners if one.limits.limit_s is not None), None)
    if owner is None:
        return
    limit_s = owner.limits.limit_s or math.inf
    # Without --time it may have as much as the partition gives it.
    given_s = (partition.default_time_s or 0) if partition else 0
    if (job.limit_s if job.limit_s is not None else given_s) > limit_s:
        yield Objection(
            f"A job of {owner.name.within} can run for {duration(limit_s)}.",
            joined(
                f"Ask for --time {format_time(limit_s)} or less.",
                _else_waits(certain=certain),
            ),
            certain,
            option="time",
        )


def _too_much(
    job: Resources, owners: list[_Owner], *, certain: bool
) -> Iterator[tuple[str, Objection]]:
    """Yield, by TRES, why one job cannot have as much of it."""
    for tres, wanted in _wanted(job).items():
        limits = [
            (found[1], found[0].name.within)
            for kind in ("per_job", "per_user", "in_all")
            if (found := _first(owners, kind, tres))
        ]
        most, name = min(limits, key=lambda one: one[0], default=(math.inf, ""))
        if wanted > most:
            can, asked = phrases.amount(tres, most), phrases.amount(tres, wanted)
            yield (
                tres,
                Objection(
                    f"A job of {name} can have {can}, not {asked}.",
                    joined(
                        "Ask for less, or take another QOS or account.",
                        _else_waits(certain=certain),
                    ),
                    certain,
                    option=_OPTIONS.get(tres, "gpus"),
                ),
            )


def _too_many(job: Resources, owners: list[_Owner]) -> Iterator[Objection]:
    """Object to what is too much for the queue: sbatch refuses that, whatever the QOS."""
    for kind in ("queued_per_user", "queued_in_all"):
        owner = next((one for one in owners if getattr(one.limits, kind) is not None), None)
        most = getattr(owner.limits, kind) if owner else None
        if owner is None or most is None or owner.queued + job.tasks_of_array <= most:
            continue
        never = job.tasks_of_array > most
        yield Objection(
            _queue_full(owner, kind, most, never=never),
            "Submit fewer at once." if never else "Submit it when some of them have ended.",
            certain=never,
            passing=not never,
        )
        return


def _queue_full(owner: _Owner, kind: str, most: int, *, never: bool) -> str:
    each = " of a user" if kind == "queued_per_user" else ""
    have = "" if never else f", and you have {owner.queued}"
    return f"{owner.name.first} allows {counted(most, 'job')}{each} in the queue{have}."


def _must_wait(
    job: Resources, owners: list[_Owner], alone: Mapping[str, Objection]
) -> Iterator[Objection]:
    """Say what the job will wait for first: one sentence is enough."""
    for kind in ("per_user", "in_all"):
        for tres, wanted in _wanted(job).items():
            found = _first(owners, kind, tres)
            if found is None or tres in alone:
                continue
            owner, most = found
            have = owner.tres.get(tres, 0)
            if have and wanted and have + wanted > most:
                name = owner.name.within
                can, use = phrases.amount(tres, most), phrases.amount(tres, have)
                each = "a user" if kind == "per_user" else "in all"
                yield _waits(f"It will wait: {name} allows {can} {each}, and you use {use}.")
                return
    for kind in ("jobs_per_user", "jobs_in_all"):
        first = next((one for one in owners if getattr(one.limits, kind) is not None), None)
        most_jobs = getattr(first.limits, kind) if first else None
        if first is not None and most_jobs is not None and first.jobs >= most_jobs:
            name, can = first.name.within, counted(most_jobs, "running job")
            each = "of a user" if kind == "jobs_per_user" else "in all"
            yield _waits(f"It will wait: {name} allows {can} {each}, and you have {first.jobs}.")
            return


def _waits(sentence: str) -> Objection:
    return Objection(
        sentence,
        "It starts when some of that has ended.",
        certain=False,
        passing=True,
    )


def _first(owners: list[_Owner], kind: str, tres: str) -> tuple[_Owner, float] | None:
    return next(
        ((one, limits[tres]) for one in owners if tres in (limits := getattr(one.limits, kind))),
        None,
    )


def _wanted(job: Resources) -> dict[str, float]:
    wanted: dict[str, float] = {
        "cpu": job.cpus,
        "node": job.nodes,
        "gres/gpu": job.gpus,
        "mem": (job.memory_per_node_mib or 0) * job.nodes,
    }
    return wanted | {f"gres/gpu:{one.lower()}": job.gpus for one in job.gpu_types[:1]}


def _else_waits(*, certain: bool) -> str:
    return "" if certain else "Otherwise the job waits forever."
