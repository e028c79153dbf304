"""`jupyter slurm session start|stop|list`, and the session that `submit --session` means."""

from __future__ import annotations

import time

import msgspec

from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.jobs import cluster_name
from jupyter_slurm.cli.preview import preview_text
from jupyter_slurm.cli.say import note, remark, say, tell
from jupyter_slurm.cli.table import as_json, table
from jupyter_slurm.commands import sessions
from jupyter_slurm.commands.arguments import Arguments, job_spec
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.job import placed, until_ready
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.views import card
from jupyter_slurm.wire import Job, JobKind, SessionSpec, new_id


def start(args: Arguments, connect: Connect) -> int:
    request, spec = job_spec(SessionSpec, args, job_id=new_id())
    spec = placed(msgspec.structs.replace(spec, cluster=request.cluster or cluster_name(None)))
    api = connect()
    if request.dry_run:
        say(preview_text(api.preview(spec)))
        return 0
    job = api.submit(spec)
    remark(f"{card.title(job)} is {job.state.word}.")
    try:
        if not request.detach:
            for chunk in until_ready(api, job, sessions.is_ready):
                job = chunk.job
    except KeyboardInterrupt:
        note("\n")
        remark(f"{card.title(job)} goes on; `jupyter slurm session stop` ends it.")
        raise
    remark(card.plain(job, time.time()))
    say(f"{job.id}\n")
    return 1 if job.state.final else 0


def stop(args: Arguments, connect: Connect) -> int:
    api = connect()
    jobs, owner = api.jobs(), sessions.Owner(None)
    cluster = cluster_name(args.cluster)
    meant = [sessions.named(jobs, name, owner, cluster) for name in args.names]
    for one in meant or [sessions.newest(jobs, owner, cluster)]:
        tell(card.told_to_end(api.cancel(one.id)))
    return 0


def listed(args: Arguments, connect: Connect) -> int:
    found = jobs_of(JobKind.SESSION, connect().jobs())
    if args.json:
        say(as_json(found))
    elif found:
        head = ["Name", "ID", "Slurm", "Cluster", "State", "Nodes", "Ends"]
        say(table(head, [_row(job) for job in found]))
    else:
        tell("You have no sessions: `jupyter slurm session start`")
    return 0


def _row(job: Job) -> list[str]:
    return [
        job.name,
        job.id,
        job.slurm_id or "",
        job.cluster,
        job.state.word,
        ",".join(job.nodes),
        sessions.ends(job, time.time()),
    ]


COMMANDS = by_words(session_start=start, session_stop=stop, session_list=listed)
