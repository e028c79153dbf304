"""`%slurm WORD …`: one small function a word, in one table. What cells do is `cell.py`'s.

Each takes the session and the words behind its own, says or returns what is to be seen, and raises
RequestError for words that cannot be.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from jupyter_slurm.commands.line import parse
from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.job import cancel_each, read_whole_log
from jupyter_slurm.magics import image, lab, remote, sessions
from jupyter_slurm.magics.cell import attach, warn_ended_earlier
from jupyter_slurm.magics.frontend import in_place, say, warn
from jupyter_slurm.magics.manual import line_help
from jupyter_slurm.magics.session import Session
from jupyter_slurm.magics.shell import shell
from jupyter_slurm.magics.table import Table
from jupyter_slurm.readable import duration, moment
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.views import offer_text
from jupyter_slurm.views.card import headline, note, symbol
from jupyter_slurm.views.preview_text import MARKS
from jupyter_slurm.wire import Job, JobState, QueueEntry

Command = Callable[[Session, Sequence[str]], object]


def run(session: Session, words: Sequence[str]) -> object:
    """What `%slurm` shows for these words; none: the queue."""
    if not words:
        return show_queue(session)
    word, *rest = words
    command = COMMANDS.get(word)
    if command is None:
        near = suggest(word, tuple(COMMANDS))
        raise RequestError(
            f"`%slurm {word}`: there is no such word.",
            hint=f"Did you mean `%slurm {near}`?" if near in COMMANDS else "`%slurm help`",
        )
    return command(session, rest)


def show_queue(session: Session) -> object:
    """The live queue where a notebook can show it, else the jobs as a table."""
    if not in_place():
        return _jobs(session, ())
    from jupyter_slurm.magics.queue_widget import QueueWidget  # noqa: PLC0415 - loads ipywidgets

    return QueueWidget(session.agent, session.cluster)


def _jobs(session: Session, words: Sequence[str]) -> Table:
    _none_of(words, "jobs")
    jobs = session.api.jobs(session.used_cluster)
    unread = [check.sentence for check in session.api.status().checks]
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
        caption="\n".join(unread) or ("" if jobs else "No jobs yet."),
    )


def _note(job: Job) -> str:
    if not job.state.final:
        return note(job)
    if job.delivered or job.state is JobState.REJECTED:
        return "" if job.state is JobState.COMPLETED else job.why or ""
    return f"%slurm attach {job.id} brings its outcome"


def _queue(session: Session, words: Sequence[str]) -> Table:
    _none_of(words, "queue")
    entries = session.api.queue(session.cluster)
    now_s = time.time()
    return Table(
        ("Slurm", "User", "Name", "Partition", "State", "Time", "GPUs", "Node or reason", "ID"),
        tuple(_queue_row(entry, now_s) for entry in entries),
        caption="" if entries else "The queue is empty.",
    )


def _queue_row(entry: QueueEntry, now_s: float) -> tuple[str, ...]:
    waits = entry.why or entry.reason or ""
    if entry.start_estimate_s is not None:
        waits += f" (starts about {moment(entry.start_estimate_s, now_s)})"
    return (
        entry.slurm_id,
        entry.user,
        entry.name.removesuffix(f".{entry.id}"),
        entry.partition,
        entry.state,
        duration(entry.elapsed_s) if entry.elapsed_s else "",
        str(entry.gpus or ""),
        entry.nodes or waits,
        entry.id or "",
    )


def _info(session: Session, words: Sequence[str]) -> Table:
    info = session.api.cluster_info(remote.named_cluster(session, words, "info"))
    rows = offer_text.rows(info)
    # A column that says nothing here is none to look at.
    kept = [at for at in range(len(offer_text.HEAD)) if any(row[at] for row in rows)]
    return Table(
        tuple(offer_text.HEAD[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in rows),
        caption="\n".join(offer_text.lines(info, time.time())),
    )


def _clusters(session: Session, words: Sequence[str]) -> Table:
    _none_of(words, "clusters")
    return Table(
        ("Cluster", "Host", "Runtime", "Images", "From", "Problem"),
        tuple(
            (
                cluster.name + (" (default)" if cluster.default else ""),
                cluster.host or "this machine",
                cluster.runtime,
                ", ".join(cluster.images),
                cluster.origin,
                cluster.problem.message if cluster.problem else "",
            )
            for cluster in session.api.clusters()
        ),
    )


def _doctor(session: Session, words: Sequence[str]) -> None:
    """Says what works there; sentences, the good and the bad."""
    for check in session.api.doctor(remote.named_cluster(session, words, "doctor")):
        say(f"{MARKS[check.ok]} {check.sentence}")
        if check.hint:
            say(f"  {check.hint}")


def _use(session: Session, words: Sequence[str]) -> None:
    if not words or words[0].startswith("-"):
        raise RequestError("`%slurm use` needs a cluster: %slurm use CLUSTER [options]")
    cluster, *options = words
    known = [one.name for one in session.api.clusters()]
    if cluster not in known:
        near = suggest(cluster, tuple(known))
        raise RequestError(
            f"There is no cluster `{cluster}`.",
            hint=f"Did you mean `{near}`?" if near in known else f"There are: {', '.join(known)}.",
        )
    parse(options)
    session.use(cluster, options)
    say(f"Cells go to {cluster}" + (f" with {' '.join(options)}." if options else "."))


def _why(session: Session, words: Sequence[str]) -> None:
    job_id = _at_most_one(words, "why")
    if job_id is None:
        raise RequestError("`%slurm why` needs a job: %slurm why ID")
    job = session.api.why(job_id)
    warn_ended_earlier(job, job_id)
    session.show_card(job)


def _logs(session: Session, words: Sequence[str]) -> None:
    job_id, lines, path, task = _log_words(words)
    job = session.api.job(job_id)
    warn_ended_earlier(job, job_id)
    job_id = job.id
    if path is not None:
        with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
            for part in read_whole_log(session.api, job_id, task):
                file.write(part)
        say(f"Written to {path}.")
        return
    say(_last(session, job_id, lines, task))


def _last(session: Session, job_id: str, lines: int | None, task: int | None) -> str:
    """The last `lines` lines, or as much as a cell may hold (None)."""
    limit = session.output_limit_bytes
    kept: deque[str] = deque()
    size = left_out = 0
    for part in read_whole_log(session.api, job_id, task):
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
        warn(f"The first {left_out / 1e6:.1f} MB are left out: `%slurm logs {job_id} --to FILE`.")
    return text.removesuffix("\n")


def _log_words(words: Sequence[str]) -> tuple[str, int | None, Path | None, int | None]:
    usage = RequestError("`%slurm logs ID [--task N] [-n LINES] [--to FILE]`")
    job_id, lines, path, task = "", None, None, None
    rest = iter(words)
    for word in rest:
        if word == "-n":
            number = next(rest, "")
            if not number.isdecimal() or int(number) < 1:
                raise RequestError(f"-n takes a number of lines, not `{number}`.")
            lines = int(number)
        elif word == "--task":
            number = next(rest, "")
            if not number.isdecimal():
                raise RequestError(f"--task takes the index of a task, not `{number}`.")
            task = int(number)
        elif word == "--to":
            path = Path(next(rest, "") or "/").expanduser()
        elif job_id or word.startswith("-"):
            raise usage
        else:
            job_id = word
    if not job_id:
        raise usage
    return job_id, lines, path, task


def _attach(session: Session, words: Sequence[str]) -> None:
    attach(session, _at_most_one(words, "attach"))


def _each(verb: str, done: str | Callable[[Job], str]) -> Command:
    """A command that does the same to every job named; one that fails does not keep the others.
    `done`: what is said of one then, as it was before."""

    def command(session: Session, words: Sequence[str]) -> None:
        if not words:
            raise RequestError(f"`%slurm {verb}` needs jobs: %slurm {verb} ID …")
        call: Callable[[str], Job | None] = getattr(session.api, verb)
        failed: list[JupyterSlurmError] = []
        for job_id in words:
            try:
                told = done if isinstance(done, str) else done(session.api.job(job_id))
                job = call(job_id)
                say(f"{job_id}: {told}" + (f" ({job.state})" if job else ""))
            except JupyterSlurmError as exc:
                failed.append(exc)
                if len(words) > 1:
                    warn(f"{job_id}: {exc}")
        if failed:
            raise failed[-1]

    return command


def _cancel(session: Session, words: Sequence[str]) -> None:
    if not words:
        raise RequestError("`%slurm cancel` needs jobs: %slurm cancel ID …")
    failed: list[JupyterSlurmError] = []
    for job_id, told in cancel_each(session.api, words):
        if isinstance(told, str):
            say(told)
            continue
        failed.append(told)
        if len(words) > 1:
            warn(f"{job_id}: {told}")
    if failed:
        raise failed[-1]


def _put_back(before: Job) -> str:
    run = (
        f"its run of {duration(time.time() - before.started_s)}" if before.started_s else "its run"
    )
    where = f" on {', '.join(before.nodes)}" if before.nodes else ""
    return f"{run}{where} was ended, what it had not saved is lost; it is in the queue again"


def _help(_session: Session, words: Sequence[str]) -> None:
    _none_of(words, "help")
    say(line_help())


def _none_of(words: Sequence[str], command: str) -> None:
    if words:
        raise RequestError(f"`%slurm {command}` takes nothing behind it, not `{words[0]}`.")


def _at_most_one(words: Sequence[str], command: str) -> str | None:
    if len(words) > 1:
        raise RequestError(f"`%slurm {command}` takes one word, not `{' '.join(words)}`.")
    return words[0] if words else None


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "jobs": _jobs,
        "attach": _attach,
        "cancel": _cancel,
        "hold": _each("hold", "held"),
        "release": _each("release", "released"),
        "requeue": _each("requeue", _put_back),
        "why": _why,
        "logs": _logs,
        "forget": _each("forget", "forgotten"),
        "queue": _queue,
        "info": _info,
        "shell": shell,
        "clusters": _clusters,
        "doctor": _doctor,
        "login": remote.login,
        "logout": remote.logout,
        "connections": remote.connections,
        "push": remote.push,
        "pull": remote.pull,
        "tunnel": remote.tunnel,
        "tunnels": remote.tunnels,
        "image": image.command,
        "use": _use,
        "session": sessions.run,
        "lab": lab.run,
        "help": _help,
    }
)
