"""Commands that look at clusters and jobs, and those that end them.

Each asks the agent and shows its answer; `submit.py` has those that wait for a job.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from functools import partial
from textwrap import TextWrapper

from jupyter_slurm.cli import follow
from jupyter_slurm.cli.command import Command, Connect
from jupyter_slurm.cli.dialogue import Dialogue
from jupyter_slurm.cli.say import note, remark, say, tell
from jupyter_slurm.cli.table import as_json, in_words_of_a_terminal, table
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words, since_s
from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.job import forget_each, forgetting, steer_each, unfetched
from jupyter_slurm.readable import duration, visible, width
from jupyter_slurm.views import card, offer_text, spending_text
from jupyter_slurm.views.preview_text import MARKS
from jupyter_slurm.wire import ActionVerb, Check, Job, QueueEntry, state_word


def cluster_name(asked: str | None) -> str | None:
    """Return the cluster that the words or else this shell's environment name. None: the
    default."""
    return asked or os.environ.get("JUPYTER_SLURM_CLUSTER") or None


def doctor(args: Arguments, connect: Connect) -> int:
    """Print the checks; return 1 when something is wrong."""
    checks = connect().doctor(cluster_name(args.cluster))
    if args.json:
        say(as_json(checks))
    else:
        tell("\n".join(map(check_text, checks)))
    return 1 if any(check.ok is False for check in checks) else 0


def jobs(args: Arguments, connect: Connect) -> int:
    api = connect()
    known = api.jobs(args.cluster)
    for check in api.status().checks:
        remark(check_text(check))
    if args.json:
        say(as_json(known))
    elif known:
        head = ["ID", "Slurm", "Cluster", "Name", "State", "Time", "Nodes", "Note"]
        say(table(head, [_job_row(job) for job in known]))
    else:
        tell("You have no jobs here.")
    return 0


def info(args: Arguments, connect: Connect) -> int:
    """Print a table if the terminal is wide enough for it, else lines."""
    told = connect().cluster_info(cluster_name(args.cluster))
    if args.json:
        say(as_json(told))
        return 0
    columns = shutil.get_terminal_size().columns
    text = table(offer_text.HEAD, offer_text.rows(told))
    if max(map(width, text.splitlines()), default=0) > columns:
        lines = [line for one in offer_text.fitted(told, columns) for line in one]
        text = "".join(f"{visible(line)}\n" for line in lines)
    below = [visible(line) for line in offer_text.lines(told, time.time())]
    wrap = TextWrapper(width=columns, subsequent_indent="    ", break_on_hyphens=False)
    say("\n".join([text, *("\n".join(wrap.wrap(line)) for line in below)]) + "\n")
    return 0


def usage(args: Arguments, connect: Connect) -> int:
    since = None if args.since is None else since_s(args.since, time.time())
    told = connect().spending(cluster_name(args.cluster), since)
    if args.json:
        say(as_json(told))
        return 0
    rows = table(spending_text.head(told), spending_text.rows(told)) if told.spent else ""
    say(rows + "".join(f"{visible(line)}\n" for line in spending_text.lines(told)))
    return 0


def queue(args: Arguments, connect: Connect) -> int:
    entries = connect().queue(cluster_name(args.cluster))
    if args.json:
        say(as_json(entries))
    elif entries:
        head = ["Slurm", "ID", "User", "Partition", "Name", "State", "Time", "GPUs", "Nodes", "Why"]
        say(table(head, [_queue_row(entry) for entry in entries]))
    else:
        tell("The queue is empty.")
    return 0


def logs(args: Arguments, connect: Connect) -> int:
    """Print the job's stdout and stderr in order; with `--follow`, until the job ends."""
    api = connect()
    job = api.job(args.id)
    note_ended_earlier(job, args.id)
    if args.follow:
        follow.print_all_text(api, job, args.task)
    else:
        follow.print_text(api, job, args.task)
    return 0


def note_ended_earlier(job: Job, word: str) -> None:
    if told := card.ended_earlier(job, word, time.time()):
        remark(told)


def why(args: Arguments, connect: Connect) -> int:
    """Print the job as Slurm tells it now; with `--priority`, what its priority is made of."""
    api = connect()
    job = api.job(args.id) if args.priority else api.why(args.id)
    note_ended_earlier(job, args.id)
    if args.priority:
        told = api.priorities(job_id=job.id)
        if args.json:
            say(as_json(told))
        else:
            tell("\n".join(told.said))
    elif args.json:
        say(as_json(job))
    else:
        tell(card.plain(job, time.time()))
    return 0


def steer(verb: ActionVerb, args: Arguments, connect: Connect) -> int:
    return _report_each(steer_each(connect(), verb, args.ids))


def forget(args: Arguments, connect: Connect) -> int:
    """Forget jobs. Ask first where that loses something."""
    api = connect()
    if not args.yes and (jobs := unfetched(api, args.ids)):
        told = forgetting(jobs)
        if not sys.stdin.isatty():
            raise RequestError(told, hint="Add --yes to forget them anyway.")
        if not Dialogue(asks=True).wanted(f"{told} Forget them?"):
            return 1
    return _report_each(forget_each(api, args.ids))


def _report_each(outcomes: Iterable[tuple[str, str | JupyterSlurmError]]) -> int:
    failed = False
    for job_id, told in outcomes:
        if isinstance(told, JupyterSlurmError):
            failed = True
            note(f"{job_id}: {told}\n")
        else:
            tell(told)
    return 1 if failed else 0


def check_text(check: Check) -> str:
    """Return a line for the check, and one for its hint."""
    hint = f"\n    {check.hint}" if check.hint else ""
    return f"{MARKS[check.ok]} {check.sentence}{hint}"


def _job_row(job: Job) -> list[str]:
    begun_s = job.started_s or job.submitted_s or job.created_s
    note = in_words_of_a_terminal(job.problem.message if job.problem else card.note(job))
    return [
        job.id,
        job.slurm_id or "",
        job.cluster,
        job.name,
        job.state.word,
        duration((job.ended_s or time.time()) - begun_s),
        ",".join(job.nodes),
        note,
    ]


def _queue_row(entry: QueueEntry) -> list[str]:
    return [
        entry.slurm_id,
        entry.id or "",
        entry.user,
        entry.partition,
        entry.name,
        state_word(entry.state),
        duration(entry.elapsed_s) if entry.elapsed_s else "",
        str(entry.gpus or ""),
        entry.nodes or "",
        in_words_of_a_terminal(entry.why or entry.reason or ""),
    ]


COMMANDS: Mapping[str, Command] = by_words(
    doctor=doctor,
    jobs=jobs,
    queue=queue,
    info=info,
    usage=usage,
    logs=logs,
    why=why,
    cancel=partial(steer, "cancel"),
    hold=partial(steer, "hold"),
    release=partial(steer, "release"),
    requeue=partial(steer, "requeue"),
    forget=forget,
)
