"""A cluster's queue, history and priorities, and Slurm's own commands, when the user asks."""

from __future__ import annotations

import time
from bisect import bisect_left

from jupyter_slurm.errors import CommandError, RequestError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.watching.listing import Ours
from jupyter_slurm.jobs.watching.queue_rows import entry_of, the_accounted, the_same
from jupyter_slurm.slurm import sacct, sprio, squeue, states
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.wire import CommandOutput, Job, JobPriority, QueueEntry

ASK_WAIT_S = 5.0
_MOST_DAYS = 366
_COMMANDS = (
    "squeue sinfo sacct scancel scontrol sprio sreport sshare sacctmgr sdiag sstat sbatch".split()
)


def entries(cluster: SlurmCluster, ours: Ours) -> list[QueueEntry]:
    """Return the jobs of all users. `ours`: our records by Slurm's ID."""
    rows = squeue.parse(cluster.ask(squeue.all_argv()))
    user = cluster.transport.user()
    found = []
    for row in rows:
        is_mine = row.user == user
        known = ours.get(row.slurm_id) or ours.get(row.whole_id) or ()
        found.append(entry_of(row, the_same(row, known if is_mine else ()), is_mine=is_mine))
    return found


def history(cluster: SlurmCluster, days: float, ours: Ours) -> list[QueueEntry]:
    """Return what `Api.history` does. `ours`: our records by Slurm's id."""
    if not 0 < days <= _MOST_DAYS:
        raise RequestError(f"Cannot list {days:g} days of history.")
    since_s = time.time() - days * 86400
    argv = sacct.mine_argv(cluster.transport.user(), since_s)
    try:
        rows = sacct.parse(cluster.ask(argv))
    except CommandError as exc:
        if sacct.is_disabled(str(exc)):
            return []
        raise
    # A job that was requeued has several records: the last one says how it ended.
    jobs = {row.slurm_id: row for row in rows if row.step is None}
    ended = [row for row in jobs.values() if states.is_terminal(row.state)]
    found = [_ended_entry(row, ours) for row in ended if (row.end_s or 0) >= since_s]
    return sorted(found, key=lambda entry: entry.ended_s or 0, reverse=True)


def _ended_entry(row: sacct.AcctRow, ours: Ours) -> QueueEntry:
    array_id, in_array, _ = row.slurm_id.partition("_")
    whole_id = array_id.partition("+")[0]
    job = the_accounted(row, ours.get(row.slurm_id) or ours.get(whole_id) or ())
    return QueueEntry(
        slurm_id=row.slurm_id,
        state=row.state,
        name=row.name,
        user=row.user or "",
        partition=row.partition or "",
        array_id=array_id if in_array else None,
        account=row.account,
        qos=row.qos,
        nodes=row.nodelist,
        node_count=row.node_count,
        gpus=row.gpus,
        submitted_s=row.submit_s,
        started_s=row.start_s,
        ended_s=row.end_s,
        elapsed_s=row.elapsed_s,
        limit_s=int(row.limit_s) if row.limit_s is not None else None,
        id=job.id if job else None,
    )


def priorities(cluster: SlurmCluster, job: Job) -> list[JobPriority]:
    """Return a waiting job's priority in each of its partitions; []: it has none now."""
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
    """Return a key that sorts the jobs of a partition as Slurm does: of two with the same priority
    the smaller ID comes first (sort_job_queue2() in job_scheduler.c)."""
    return (-row.priority, int(row.slurm_id))


def command(cluster: SlurmCluster, argv: list[str]) -> CommandOutput:
    """Run a Slurm command as written. RequestError: it is not Slurm's, or forbidden."""
    if not argv or argv[0] not in _COMMANDS:
        word = argv[0] if argv else ""
        near = suggest(word, _COMMANDS)
        raise RequestError(
            f"{word!r} is not a Slurm command that can run from here.",
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
