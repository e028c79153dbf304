"""`shell`: a terminal on a node, in a job that is submitted for it or in one that runs.

It waits for the job and reports its end. commands/shell.py reads the words; console.py has the
terminal.
"""

from __future__ import annotations

import os
import sys
import time
from typing import cast

import msgspec

from jupyter_slurm.api import Api, Terminals
from jupyter_slurm.cli import console, follow
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.console import How, TerminalEnd
from jupyter_slurm.cli.jobs import cluster_name
from jupyter_slurm.cli.say import note, remark
from jupyter_slurm.cli.terminal import Terminal
from jupyter_slurm.commands import shell
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.commands.shell import Shell
from jupyter_slurm.errors import ForwardError, RequestError
from jupyter_slurm.job import placed, until_ready
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.readable import duration, moment
from jupyter_slurm.views import card
from jupyter_slurm.wire import Job, JobState, Message, filled, new_id, said, together

_WAIT_S = 20.0
_TICK_S = 2.0
_END_S = 10.0
"""How long the news of a job's end may take after its terminal has ended."""
_LOST = 255
"""The exit code of ssh for a lost connection."""


def run(args: Arguments, connect: Connect) -> int:
    wanted = shell.parse(args)
    cluster = wanted.request.cluster or cluster_name(None)
    return open_shell(connect(), wanted, cluster)


def open_shell(api: Api, wanted: Shell, cluster: str | None) -> int:
    """Open the shell in this process's terminal; return its exit code, 0 if the user left it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RequestError(
            "A shell needs a terminal, and stdin is not one.",
            hint="Run a program without one: `jupyter slurm submit FILE`.",
        )
    job_id = wanted.job_id
    job = submitted(api, wanted, cluster) if job_id is None else api.job(job_id)
    if job_id is not None and job.state.final:
        raise RequestError(
            "Job {id} has ended: it is {state}.", id=job.id, state=Message(job.state.word)
        )
    try:
        job = _running(api, job)
    except KeyboardInterrupt:
        if job_id is None:
            api.cancel(job.id)
            note("\n")
            remark("{job} is being cancelled.", job=card.title(job))
        raise
    if job.state.final:
        return _ended(api, job)
    try:
        sock = cast("Terminals", api).terminal(wanted.terminal(job.id))
    except (ForwardError, RequestError):
        if job_id is None and (job := _settled(api, job)).state.final:
            return _ended(api, job)
        raise
    note(f"{_welcome(job, wanted.node, time.time())}\n")
    sys.stderr.flush()
    outcome = console.lend(sock, sys.stdin.fileno(), sys.stdout.fileno(), os.environ)
    keep_s = None if job_id is not None else wanted.spec(job.id).keep_s
    return _after(api, job, outcome, keep_s)


def submitted(api: Api, wanted: Shell, cluster: str | None) -> Job:
    """Submit the job of this terminal."""
    spec = placed(wanted.spec(new_id()))
    return api.submit(msgspec.structs.replace(spec, cluster=cluster))


def _running(api: Api, job: Job) -> Job:
    """Return the job once it runs or has ended; show why it waits, and its set-up's output."""
    terminal = Terminal(sys.stdout, sys.stderr)
    wait_s = _TICK_S if terminal.live else _WAIT_S
    try:
        terminal.progress(job)
        for chunk in until_ready(api, job, _runs, lambda _: wait_s):
            job = chunk.job
            if kind_of(job).has_terminal:
                for output in chunk.outputs:
                    terminal.output(output)
            terminal.progress(job)
    finally:
        terminal.close()
    return job


def _runs(job: Job) -> bool:
    return job.state is JobState.RUNNING and bool(job.nodes)


def _welcome(job: Job, node: str | None, now_s: float) -> str:
    where = said("{job}, node {node}", job=card.title(job), node=node or job.nodes[0])
    if node is None and len(job.nodes) > 1:
        where += said(" and {count} more", count=len(job.nodes) - 1)
    if job.limit_s is not None and job.started_s is not None:
        where += said(", until {time}", time=moment(job.started_s + job.limit_s, now_s))
    return f"[{where}; {said('~. at the beginning of a line leaves')}]"


def _after(api: Api, job: Job, outcome: TerminalEnd, keep_s: float | None) -> int:
    """Say what became of the terminal, and return the exit code."""
    is_kept = kind_of(job).has_terminal
    which = outcome.which
    again = f"`jupyter slurm shell --job {job.id}`"
    if outcome.how is How.ABSENT:
        raise shell.absent(which.others)
    if outcome.how is How.EXITED:
        if is_kept and which.others:
            others = ", ".join(map(str, which.others))
            remark(
                "{job} goes on: {again}; its other terminals: {others}.",
                job=card.title(job),
                again=again,
                others=others,
            )
        elif is_kept:
            api.delivered(job.id)
        return outcome.status or 0
    if outcome.how is How.LOST:
        note("\n")
        remark("The terminal is lost: nothing comes from there any more.")
        job = _settled(api, job)
        if job.state.final:
            if is_kept:
                follow.print_text(api, job)
            return _ended(api, job)
    happened = {
        How.LEFT: Message.of("Left."),
        How.TAKEN: Message.of("Another terminal has taken this one over."),
    }.get(outcome.how)
    if is_kept:
        if which.others:
            again = f"`jupyter slurm shell --job {job.id} --terminal {which.number}`"
        goes_on = filled(
            "The shell runs on in {job}: {again} comes back to it."
            if keep_s is None
            else "The shell runs on in {job}: {again} comes back to it within {span}.",
            {"job": card.title(job), "again": again, "span": duration(keep_s or 0.0)},
        )
    else:
        goes_on = Message.of(
            "The shell ends; {job} goes on: {again}", job=card.title(job), again=again
        )
    note("\n")
    remark(together(happened, goes_on))
    return 0 if outcome.how is How.LEFT else _LOST


def _settled(api: Api, job: Job) -> Job:
    """Return the job after waiting long enough for news of its end; ask only the agent."""
    give_up_s = time.monotonic() + _END_S
    while True:
        cursor = api.changes().cursor
        job = api.job(job.id)
        left_s = give_up_s - time.monotonic()
        if job.state.final or job.problem is not None or left_s <= 0:
            return job
        api.changes(cursor, left_s)


def _ended(api: Api, job: Job) -> int:
    result = api.result(job.id)
    note(card.plain(result.job, time.time()) + "\n")
    api.delivered(job.id)
    return 0 if result.job.state is JobState.COMPLETED else follow.exit_code(result)


COMMANDS = by_words(shell=run)
