"""`%slurm WORD …`: one small function for each command. What cells do is `cell.py`'s.

Each takes the state of the magics and what it is asked, and says or returns what is to be seen.
Which words there are, and what they take, is said by `commands/table.py`.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from jupyter_slurm.commands.arguments import Arguments, find, read_arguments
from jupyter_slurm.commands.command import since_s
from jupyter_slurm.commands.line import parse
from jupyter_slurm.commands.shell import command_line
from jupyter_slurm.commands.shell import parse as parse_shell
from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.job import forget_each, forgetting, read_whole_log, steer_each, unfetched
from jupyter_slurm.magics import image, lab, remote, sessions
from jupyter_slurm.magics.cell import attach, run_image, warn_ended_earlier
from jupyter_slurm.magics.frontend import in_place, say, warn
from jupyter_slurm.magics.manual import line_help
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.magics.table import Table
from jupyter_slurm.readable import counted, duration, moment
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.views import offer_text, priority_text, spending_text
from jupyter_slurm.views.card import has_unseen_output, headline, note, symbol
from jupyter_slurm.views.preview_text import MARKS
from jupyter_slurm.wire import ActionVerb, Job, JobState, QueueEntry, state_word


def _shell(state: MagicsState, args: Arguments) -> None:
    """Open a shell in the terminal that IPython runs in. A notebook has no terminal: show what to
    type in one."""
    before = state.with_defaults(())
    wanted = parse_shell(args, before)
    if in_place():
        words = command_line(args, before)
        say(f"A notebook has no terminal. Open one and type `{words}`.")
        return
    # Front ends otherwise share only the Api; here they share all that is done with it.
    from jupyter_slurm.cli.shell import prepared  # noqa: PLC0415

    argv = prepared(state.api, wanted, wanted.request.cluster)
    interrupted = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the shell
    try:
        subprocess.run(argv, check=False)
    finally:
        signal.signal(signal.SIGINT, interrupted)


Command = Callable[[MagicsState, Arguments], object]


def run(state: MagicsState, words: Sequence[str]) -> object:
    """Return what `%slurm` shows for these words; without words, the queue."""
    if not words:
        return show_queue(state)
    command, behind = find(list(words), "notebook")
    return COMMANDS[command.name](state, read_arguments(command, behind, "notebook"))


def show_queue(state: MagicsState) -> object:
    """Return the live queue if the front end is a notebook that can show it, else the jobs as a
    table."""
    if not in_place():
        return _jobs(state, Arguments(cluster=None))
    from jupyter_slurm.magics.queue_widget import QueueWidget  # noqa: PLC0415 - loads ipywidgets

    return QueueWidget(state.agent, state.cluster)


def _jobs(state: MagicsState, args: Arguments) -> Table:
    jobs = state.api.jobs(args.cluster or state.used_cluster)
    unread = [check.sentence for check in state.api.status().checks]
    now_s = time.time()
    return Table(
        ("ID", "Name", "Cluster", "Slurm", "State", "Node", "Note"),
        tuple(
            (
                job.id,
                job.name,
                job.cluster,
                job.slurm_id or "",
                f"{symbol(job.state)} {headline(job, now_s)}",
                ", ".join(job.nodes),
                _note(job),
            )
            for job in jobs
        ),
        caption="\n".join(filter(None, (*unread, _to_fetch(jobs))))
        or ("" if jobs else "No jobs yet."),
    )


def _note(job: Job) -> str:
    told = "" if job.state is JobState.COMPLETED else note(job)
    return told or ("not fetched" if has_unseen_output(job) else "")


def _to_fetch(jobs: Sequence[Job]) -> str:
    """Say once for all rows how to show output that has not been fetched."""
    unseen = [job for job in jobs if has_unseen_output(job)]
    if not unseen:
        return ""
    shown = "it" if len(unseen) == 1 else "that of the newest"
    return (
        f"The output of {counted(len(unseen), 'job')} has not been fetched. `%slurm attach "
        f"{unseen[0].id}` shows {shown}."
    )


def show_priorities(state: MagicsState) -> Table:
    """Return what `%sprio` without arguments shows: this user's waiting jobs."""
    told = state.api.priorities(state.cluster)
    columns, rows = priority_text.table(told)
    return Table(columns, tuple(rows), caption="\n".join(told.said))


def _queue(state: MagicsState, args: Arguments) -> Table:
    entries = state.api.queue(args.cluster or state.cluster)
    now_s = time.time()
    return Table(
        ("Slurm", "User", "Name", "Partition", "State", "Time", "GPUs", "Node or reason", "ID"),
        tuple(_queue_row(entry, now_s) for entry in entries),
        caption="" if entries else "The queue is empty.",
    )


def _queue_row(entry: QueueEntry, now_s: float) -> tuple[str, ...]:
    waits = entry.why or entry.reason or ""
    if entry.start_estimate_s is not None:
        at = moment(entry.start_estimate_s, now_s)
        waits += f" (starts about {at})"
    return (
        entry.slurm_id,
        entry.user,
        entry.name.removesuffix(f".{entry.id}"),
        entry.partition,
        state_word(entry.state),
        duration(entry.elapsed_s) if entry.elapsed_s else "",
        str(entry.gpus or ""),
        entry.nodes or waits,
        entry.id or "",
    )


def _info(state: MagicsState, args: Arguments) -> Table:
    info = state.api.cluster_info(args.cluster or state.cluster)
    rows = offer_text.rows(info)
    # Leave out a column that says nothing here.
    kept = [at for at in range(len(offer_text.HEAD)) if any(row[at] for row in rows)]
    return Table(
        tuple(offer_text.HEAD[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in rows),
        caption="\n".join(offer_text.lines(info, time.time())),
    )


def _usage(state: MagicsState, args: Arguments) -> Table:
    since = None if args.since is None else since_s(args.since, time.time())
    told = state.api.spending(args.cluster or state.cluster, since)
    rows = tuple(spending_text.rows(told))
    return Table(spending_text.head(told), rows, caption="\n".join(spending_text.lines(told)))


def _clusters(state: MagicsState, _args: Arguments) -> Table:
    return Table(
        ("Cluster", "Host", "Runtime", "Images", "From", "Problem"),
        tuple(
            (
                f"{cluster.name} (default)" if cluster.default else cluster.name,
                cluster.host or "this machine",
                cluster.runtime,
                ", ".join(cluster.images),
                cluster.origin,
                cluster.problem.message if cluster.problem else "",
            )
            for cluster in state.api.clusters()
        ),
    )


def _doctor(state: MagicsState, args: Arguments) -> None:
    """Say in sentences what works on the cluster and what does not."""
    for check in state.api.doctor(args.cluster or state.cluster):
        say(f"{MARKS[check.ok]} {check.sentence}")
        if check.hint:
            say(f"  {check.hint}")


def _use(state: MagicsState, args: Arguments) -> None:
    cluster, options = args.name, args.words
    known = [one.name for one in state.api.clusters()]
    if cluster not in known:
        near = suggest(cluster, tuple(known))
        raise RequestError(
            f"There is no cluster `{cluster}`.",
            hint=f"Did you mean `{near}`?" if near in known else f"There are: {', '.join(known)}.",
        )
    parse(options)
    state.use(cluster, options)
    say(
        f"Cells go to {cluster} with {' '.join(options)}." if options else f"Cells go to {cluster}."
    )


def _why(state: MagicsState, args: Arguments) -> None:
    """Show the job's card; with `--priority`, say what its priority is made of."""
    job = state.api.job(args.id) if args.priority else state.api.why(args.id)
    warn_ended_earlier(job, args.id)
    if args.priority:
        say("\n".join(state.api.priorities(job_id=job.id).said))
    else:
        state.show_card(job)


def _logs(state: MagicsState, args: Arguments) -> None:
    job = state.api.job(args.id)
    warn_ended_earlier(job, args.id)
    job_id, task = job.id, args.task
    if args.to is not None:
        path = Path(args.to).expanduser()
        with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
            for part in read_whole_log(state.api, job_id, task):
                file.write(part)
        say(f"Written to {path}.")
        return
    say(_last(state, job_id, args.lines, task))


def _last(state: MagicsState, job_id: str, lines: int | None, task: int | None) -> str:
    """Return the last `lines` lines, or as much as a cell may hold (None)."""
    limit = state.output_limit_bytes
    kept: deque[str] = deque()
    size = left_out = 0
    for part in read_whole_log(state.api, job_id, task):
        kept.append(part)
        size += len(part)
        while size - len(kept[0]) >= limit:
            left_out += len(kept[0])
            size -= len(kept.popleft())
    text = "".join(kept)
    left_out += max(0, len(text) - limit)
    text = text[-limit:]
    if lines is not None:
        return "\n".join(text.rstrip("\n").split("\n")[-lines:])
    if left_out:
        warn(
            f"The first {left_out / 1e6:.1f} MB are left out. `%slurm logs {job_id} --to FILE` "
            "saves the whole log."
        )
    return text.removesuffix("\n")


def _attach(state: MagicsState, args: Arguments) -> None:
    attach(state, args.id)


def _steer(verb: ActionVerb, state: MagicsState, args: Arguments) -> None:
    _report_each(steer_each(state.api, verb, args.ids))


def _forget(state: MagicsState, args: Arguments) -> None:
    if not args.yes and (jobs := unfetched(state.api, args.ids)):
        raise RequestError(forgetting(jobs), hint="Add --yes to forget them anyway.")
    _report_each(forget_each(state.api, args.ids))


def _report_each(outcomes: Iterable[tuple[str, str | JupyterSlurmError]]) -> None:
    """Say what became of each job, then raise an error if one failed; a failure does not stop the
    others."""
    told = list(outcomes)
    failed = [one for _, one in told if isinstance(one, JupyterSlurmError)]
    for word, one in told:
        if isinstance(one, str):
            say(one)
        elif len(told) > 1:
            warn(f"{word}: {one}")
    if failed:
        raise failed[-1]


def _help(_session: MagicsState, _args: Arguments) -> None:
    say(line_help())


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "clusters list": _clusters,
        "doctor": _doctor,
        "use": _use,
        "run": run_image,
        "shell": _shell,
        "attach": _attach,
        "jobs": _jobs,
        "queue": _queue,
        "info": _info,
        "usage": _usage,
        "logs": _logs,
        "why": _why,
        "cancel": partial(_steer, "cancel"),
        "hold": partial(_steer, "hold"),
        "release": partial(_steer, "release"),
        "requeue": partial(_steer, "requeue"),
        "forget": _forget,
        "help": _help,
        **sessions.COMMANDS,
        **lab.COMMANDS,
        **remote.COMMANDS,
        **image.COMMANDS,
    }
)
