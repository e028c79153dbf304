"""The user's requests for a cluster's queue, history, priorities, and Slurm's own commands."""

from __future__ import annotations

import time
from bisect import bisect_left

from jupyter_slurm.errors import CommandError, RequestError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.watching.listing import Ours, rows_of, whole_array
from jupyter_slurm.jobs.watching.queue_rows import the_accounted
from jupyter_slurm.slurm import sacct, sprio, squeue, states
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.wire import CommandOutput, Job, JobPriority, ListedJob, Row

ASK_WAIT_S = 5.0
_MOST_DAYS = 366
_COMMANDS = (
    "squeue sinfo sacct scancel scontrol sprio sreport sshare sacctmgr sdiag sstat sbatch".split()
)


def rows(cluster: SlurmCluster, ours: Ours) -> list[Row]:
    """Return the jobs of all users. `ours` maps Slurm's IDs to our records."""
    listed = squeue.split(cluster.ask(squeue.all_argv()))
    return rows_of(listed, ours, cluster.transport.user(), cluster.name)


def history(cluster: SlurmCluster, days: float, ours: Ours) -> list[ListedJob]:
    """Return the user's jobs that ended in the last `days`, except ours; see `Api.history`. `ours`
    maps Slurm's IDs to our records."""
    if not 0 < days <= _MOST_DAYS:
        raise RequestError(f"Cannot list {days:g} days of history. The limit is {_MOST_DAYS} days.")
    since_s = time.time() - days * 86400
    argv = sacct.mine_argv(cluster.transport.user(), since_s)
    try:
        accounted = sacct.parse(cluster.ask(argv))
    except CommandError as exc:
        if sacct.is_disabled(str(exc)):
            return []
        raise
    # A requeued job has several records; the last record has the outcome.
    jobs = {row.slurm_id: row for row in accounted if row.step is None}
    ended = [row for row in jobs.values() if states.is_terminal(row.state)]
    others = [_listed_job(row, cluster.name) for row in ended if not _is_ours(row, ours)]
    arrays: dict[str, list[ListedJob]] = {}
    for job in others:
        arrays.setdefault((job.slurm_id or "").partition("_")[0], []).append(job)
    found = [
        whole_array(some, {}) if "_" in (some[0].slurm_id or "") else some[0]
        for some in arrays.values()
    ]
    late = [job for job in found if (job.ended_s or 0) >= since_s]
    return sorted(late, key=lambda job: job.ended_s or 0, reverse=True)


def _is_ours(row: sacct.AcctRow, ours: Ours) -> bool:
    whole_id = row.slurm_id.partition("_")[0].partition("+")[0]
    return the_accounted(row, ours.get(row.slurm_id) or ours.get(whole_id) or ()) is not None


def _listed_job(row: sacct.AcctRow, cluster: str) -> ListedJob:
    return ListedJob(
        cluster=cluster,
        slurm_id=row.slurm_id,
        mine=True,
        name=row.name,
        state=row.state,
        user=row.user,
        partition=row.partition,
        account=row.account,
        qos=row.qos,
        nodes=(row.nodelist,) if row.nodelist else (),
        node_count=row.node_count,
        gpus=row.gpus,
        submitted_s=row.submit_s,
        started_s=row.start_s,
        ended_s=row.end_s,
        limit_s=int(row.limit_s) if row.limit_s is not None else None,
    )


def priorities(cluster: SlurmCluster, job: Job) -> list[JobPriority]:
    """Return a waiting job's priority in each of its partitions; [] if Slurm does not report a
    priority now."""
    rows = sprio.parse(cluster.ask(sprio.argv()))
    found = []
    for row in (one for one in rows if one.slurm_id == job.slurm_id):
        turns = sorted(_turn(one) for one in rows if one.partition == row.partition)
        found.append(
            JobPriority(
                slurm_id=row.slurm_id,
                partition=row.partition,
                priority=row.priority,
                before=bisect_left(turns, _turn(row)),
                waiting=len(turns),
                given={name: given for name, given in row.given.items() if given},
            )
        )
    return found


def _turn(row: sprio.PriorityRow) -> tuple[int, int]:
    """Return a sort key for Slurm's order in a partition. At equal priority the smaller ID comes
    first (sort_job_queue2() in job_scheduler.c)."""
    return (-row.priority, int(row.slurm_id))


def command(cluster: SlurmCluster, argv: list[str]) -> CommandOutput:
    """Run a Slurm command as written. Raise RequestError if it is not a Slurm command, or if the
    profile forbids commands."""
    if not argv or argv[0] not in _COMMANDS:
        word = argv[0] if argv else ""
        near = suggest(word, _COMMANDS)
        raise RequestError(
            f"{word!r} is not a Slurm command that jupyter-slurm can run.",
            hint=f"Did you mean `{near}`?" if near else f"Use one of: {', '.join(_COMMANDS)}.",
        )
    if not cluster.profile.allow_commands:
        raise RequestError(
            f"The profile of {cluster.name} does not allow Slurm's own commands.",
            hint=f"Set `allow_commands = true` in {cluster.profile.origin}.",
        )
    done = cluster.run_as_written(argv)
    return CommandOutput(
        argv=tuple(argv),
        returncode=done.returncode,
        stdout=done.stdout.decode(errors="replace"),
        stderr=done.stderr.decode(errors="replace"),
    )
