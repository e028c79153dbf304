"""`jupyter slurm session start|stop|list`, and the session that `submit --session` means."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Sequence
from types import MappingProxyType

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.environment import with_values
from jupyter_slurm.cli.first_word import Commands, by_first_word
from jupyter_slurm.cli.jobs import cluster_name
from jupyter_slurm.cli.preview import preview_text
from jupyter_slurm.cli.say import note, say
from jupyter_slurm.cli.table import as_json, in_words_of_a_terminal, table
from jupyter_slurm.commands import sessions
from jupyter_slurm.errors import RequestError
from jupyter_slurm.job import placed
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.readable import duration
from jupyter_slurm.views import card
from jupyter_slurm.wire import Job, JobKind, new_id

_WAIT_S = 20.0
_USAGE = """\
usage: jupyter slurm session start [OPTIONS]   keep an allocation, and wait until it runs
       jupyter slurm session stop [NAME …]     end it (the newest of terminals)
       jupyter slurm session list [--json]     those that there are

NAME is that of a session started from a terminal, or the id of any.
OPTIONS are those of `submit`, and `--idle TIME`: it ends after so long without a cell (30m).
`jupyter slurm submit FILE --session [NAME]` and `%%slurm --session [NAME]` run in it.
"""


def session(args: Namespace, connect: Connect) -> int:
    return by_first_word("session", args.words, _COMMANDS, _USAGE, connect)


def _start(words: Sequence[str], connect: Connect) -> int:
    request, spec = sessions.start(
        with_values(words, os.environ, sessions.OWN), job_id=new_id(), notebook=None
    )
    cluster = request.cluster or cluster_name(Namespace(cluster=None))
    # No notebook names it, so it has a name of its own unless it was given one.
    spec = msgspec.structs.replace(spec, cluster=cluster, name=request.name or "session")
    spec = placed(spec)
    api = connect()
    if request.dry_run:
        say(preview_text(api.preview(spec)))
        return 0
    job = api.submit(spec)
    note(f"{card.title(job)} is {job.state}.\n")
    try:
        if not request.detach:
            job = _ready(api, job)
    except KeyboardInterrupt:
        note(f"\n{card.title(job)} goes on; `jupyter slurm session stop` ends it.\n")
        raise
    note(in_words_of_a_terminal(card.plain(job, time.time())) + "\n")
    say(f"{job.id}\n")
    return 1 if job.state.final else 0


def _ready(api: Api, job: Job) -> Job:
    """Once its process is there, or it has ended."""
    cursor = ""
    while job.python is None and not job.state.final:
        chunk = api.logs(job.id, cursor, wait_s=_WAIT_S)
        job, cursor = chunk.job, chunk.cursor
    return job


def _stop(words: Sequence[str], connect: Connect) -> int:
    api = connect()
    jobs, owner = api.jobs(), sessions.Owner(None)
    names, asked = sessions.take_cluster(words)
    cluster = cluster_name(Namespace(cluster=asked))
    meant = [sessions.named(jobs, name, owner, cluster) for name in names]
    for one in meant or [sessions.newest(jobs, owner, cluster)]:
        say(f"{card.told_to_end(api.cancel(one.id))}\n")
    return 0


def _list(words: Sequence[str], connect: Connect) -> int:
    if [word for word in words if word != "--json"]:
        raise RequestError("`session list` takes nothing but --json.")
    found = jobs_of(JobKind.SESSION, connect().jobs())
    if words:
        say(as_json(found))
    elif found:
        head = ["NAME", "ID", "SLURM", "CLUSTER", "STATE", "NODES", "ENDS"]
        say(table(head, [_row(job) for job in found]))
    else:
        say("You have no sessions: `jupyter slurm session start`\n")
    return 0


def _row(job: Job) -> list[str]:
    left_s = sessions.left_s(job, time.time())
    ends = job.why or "" if left_s is None else f"in {duration(left_s)} at the latest"
    return [
        job.name,
        job.id,
        job.slurm_id or "",
        job.cluster,
        job.state,
        ",".join(job.nodes),
        ends,
    ]


_COMMANDS: Commands = MappingProxyType({"start": _start, "stop": _stop, "list": _list})
