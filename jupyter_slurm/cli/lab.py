"""`jupyter slurm lab start|open|stop|list`: a JupyterLab on a node, in this machine's browser."""

from __future__ import annotations

import sys
import time

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.jobs import cluster_name
from jupyter_slurm.cli.preview import preview_text
from jupyter_slurm.cli.say import note, remark, say, tell
from jupyter_slurm.cli.table import as_json, table
from jupyter_slurm.cli.terminal import Terminal
from jupyter_slurm.client import lab_page
from jupyter_slurm.commands import labs
from jupyter_slurm.commands.arguments import Arguments, job_spec
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.job import log_pages, placed, until_ready
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.views import card
from jupyter_slurm.wire import Job, JobKind, LabSpec, LabStep, Output, new_id

_WAIT_S = 20.0
_TICK_S = 2.0


def start(args: Arguments, connect: Connect) -> int:
    request, spec = job_spec(LabSpec, args, job_id=new_id())
    cluster = request.cluster or cluster_name(None)
    spec = placed(msgspec.structs.replace(spec, cluster=cluster))
    api = connect()
    if request.dry_run:
        say(preview_text(api.preview(spec)))
        return 0
    job = api.submit(spec)
    if request.detach:
        remark(f"{card.title(job)} is {job.state.word}: `jupyter slurm lab open {job.id}`")
        say(f"{job.id}\n")
        return 0
    return open_lab(api, job, browser=not args.no_browser)


def open_named(args: Arguments, connect: Connect) -> int:
    api = connect()
    job = labs.named(api.jobs(), args.name, cluster_name(args.cluster))
    return open_lab(api, job, browser=not args.no_browser)


def open_lab(api: Api, job: Job, *, browser: bool) -> int:
    """Wait until the lab is ready, say where it is, and open it; return the exit code."""
    try:
        job, unsaid = ready(api, job)
    except KeyboardInterrupt:
        note("\n")
        remark(f"{card.title(job)} goes on; `jupyter slurm lab stop {job.id}` ends it.")
        raise
    if job.state.final or job.lab is None:
        terminal = Terminal(sys.stdout, sys.stderr)
        for output in unsaid:
            terminal.output(output)
        terminal.close()
        remark(card.plain(job, time.time()))
        return 1
    if (place := labs.below_a_hub(job)) is not None:
        tell(place)
        return 0
    page = lab_page.write(job, api.lab_entry(job.id))
    say(f"{job.lab.url}\n")
    sys.stdout.flush()
    if not (browser and lab_page.show(page)):
        remark(f"Open {page} in a browser of this machine: it logs in there.")
    return 0


def ready(api: Api, job: Job) -> tuple[Job, list[Output]]:
    """Return the lab's job once users can enter it or it has ended. Show how far it is, and the
    output of the tools that fetch the image; return its other output, which explains an
    early end."""
    terminal = Terminal(sys.stderr, sys.stderr)
    cursor, said, end = "", None, False
    unsaid: list[Output] = []

    def wait_s(job: Job) -> float:
        terminal.progress(job)
        return _TICK_S if terminal.live and job.started_s is None else _WAIT_S

    try:
        for chunk in until_ready(api, job, labs.is_ready, wait_s):
            job, cursor, end = chunk.job, chunk.cursor, chunk.end
            if job.lab is not None and job.lab.step is LabStep.WAITING:
                for output in chunk.outputs:
                    terminal.output(output)
            else:
                unsaid += chunk.outputs
            step = labs.step(job)
            if step is not None and step != said:
                terminal.note(step)
                said = step
        if job.state.final and not end:
            for chunk in log_pages(api, job.id, cursor=cursor):
                unsaid += chunk.outputs
    finally:
        terminal.close()
    return job, unsaid


def stop(args: Arguments, connect: Connect) -> int:
    api = connect()
    jobs, cluster = api.jobs(), cluster_name(args.cluster)
    for job in [labs.named(jobs, name, cluster) for name in args.names or (None,)]:
        tell(card.told_to_end(api.cancel(job.id)))
    lab_page.remove_old(api.jobs())
    return 0


def extend(args: Arguments, connect: Connect) -> int:
    api = connect()
    job = labs.named(api.jobs(), args.name, cluster_name(args.cluster))
    job = api.extend(job.id, args.time)
    tell(labs.extended(job, time.time()))
    return 0


def listed(args: Arguments, connect: Connect) -> int:
    jobs = connect().jobs()
    lab_page.remove_old(jobs)
    found = jobs_of(JobKind.LAB, jobs)
    if args.json:
        say(as_json(found))
    elif found:
        now_s = time.time()
        rows = [list(labs.row(job, now_s)) for job in found]
        say(table(labs.HEAD, rows))
    else:
        tell("You have no labs: `jupyter slurm lab start`")
    return 0


COMMANDS = by_words(
    lab_start=start, lab_open=open_named, lab_extend=extend, lab_stop=stop, lab_list=listed
)
