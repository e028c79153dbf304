"""`submit`, `run` and `attach`: a file, or the program of an image, becomes a job, and its output
appears on the terminal.

The words after the file are those of `%%slurm`, read by the same parser (`line.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.cli import follow
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.jobs import cluster_name, note_ended_earlier
from jupyter_slurm.cli.preview import preview_text
from jupyter_slurm.cli.say import note, remark, say
from jupyter_slurm.client.login import LoginDeclined
from jupyter_slurm.commands import headless, line
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.job import placed
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.preflight import syntax
from jupyter_slurm.slurm.directives import has_directives, ignored_directive
from jupyter_slurm.views import card
from jupyter_slurm.wire import Job, JobSpec, new_id


def submit(args: Arguments, connect: Connect) -> int:
    """Submit a file and, unless `--detach`, follow the job; return its exit code."""
    file, request = Path(args.file), headless.request(args.words)
    if not file.is_file():
        raise NotFoundError(f"There is no file {file}.")
    api = None
    if request.session is not None:
        api = connect()
        request = headless.resolved(api, request, cluster=cluster_name(None))
    text = _read(file)
    spec = _spec(file, text, request, args.rest)
    api = api or connect()
    if kind_of(spec).is_python:
        _check_syntax(api, file, text, spec)
        _remark_on_directives(file, text)
    return _done(api, spec, request)


def run(args: Arguments, connect: Connect) -> int:
    """Run the program that an image names, as `submit` does a file."""
    request, spec = headless.own_program(args, job_id=new_id())
    return _done(connect(), _placed(spec, request), request)


def _done(api: Api, spec: JobSpec, request: line.Request) -> int:
    if request.dry_run:
        say(preview_text(api.preview(spec)))
        return 0
    job = _submit(api, spec)
    if request.detach:
        say(f"{job.id}\n")
        if job.problem is not None:
            remark(card.told_problem(job.problem))
        remark(follow.come_back(job))
        return 0
    return _follow(api, job, _cancel if request.on_interrupt == "cancel" else _leave)


def attach(args: Arguments, connect: Connect) -> int:
    """Show all of a job's output, from its beginning, and wait for its end."""
    api = connect()
    job = api.job(args.id)
    note_ended_earlier(job, args.id)
    return _follow(api, job, _leave)


def _submit(api: Api, spec: JobSpec) -> Job:
    try:
        return api.submit(spec)
    except LoginDeclined:
        raise
    except KeyboardInterrupt:
        note("\n")
        remark(f"Whether job {spec.id} was submitted: `jupyter slurm why {spec.id}`")
        raise


def _follow(api: Api, job: Job, interrupted: Callable[[Api, Job], str]) -> int:
    try:
        return follow.follow(api, job)
    except LoginDeclined:
        remark(_leave(api, job))
        raise
    except KeyboardInterrupt:
        note(f"\n{interrupted(api, job)}\n")
        raise


def _leave(_: Api, job: Job) -> str:
    return follow.come_back(job)


def _cancel(api: Api, job: Job) -> str:
    api.cancel(job.id)
    return f"{card.title(job)} is being cancelled."


def _check_syntax(api: Api, file: Path, text: str, spec: JobSpec) -> None:
    """Raise CodeError, or warn, if the file does not compile."""
    error = syntax.fault_of_file(file, text)
    if error is not None:
        remark(syntax.check(error, text, spec, api))


def _remark_on_directives(file: Path, text: str) -> None:
    """Warn of `#SBATCH` lines in Python that do not apply."""
    if has_directives(text):
        remark(
            f"{file} has #SBATCH lines and no `#!` line, so they do not apply. Begin it with "
            "`#!/usr/bin/env python3`."
        )
    elif line := ignored_directive(text):
        remark(
            f"`{line}` follows the first command, so it does not apply. Move it to the top of "
            f"{file}."
        )


def _spec(file: Path, text: str, request: line.Request, arguments: Sequence[str]) -> JobSpec:
    spec = headless.file_spec(
        file, str(file.resolve()), text, request, job_id=new_id(), arguments=arguments
    )
    return _placed(spec, request)


def _placed(spec: JobSpec, request: line.Request) -> JobSpec:
    cluster = request.cluster or cluster_name(None)
    return placed(msgspec.structs.replace(spec, cluster=cluster))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise RequestError(f"{file} is not UTF-8 text (byte {exc.start}).") from exc
    except OSError as exc:
        raise RequestError(f"{file} cannot be read: {exc.strerror}.") from exc


COMMANDS = by_words(submit=submit, run=run, attach=attach)
