"""`%slurm lab …`: a JupyterLab on a node, started from a cell and opened in this machine's browser.

What words mean is `labs.py`'s of the package.
"""

from __future__ import annotations

import time

from jupyter_slurm.client import lab_page
from jupyter_slurm.commands import labs
from jupyter_slurm.commands.arguments import Arguments, job_spec
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.job import placed
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.magics.follow import CallThread, wait_until_ready
from jupyter_slurm.magics.frontend import say
from jupyter_slurm.magics.live import LiveCard
from jupyter_slurm.magics.preview import show_preview
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.magics.table import Table
from jupyter_slurm.views.card import title, told_to_end
from jupyter_slurm.views.failure import ended
from jupyter_slurm.wire import Job, JobKind, LabSpec, new_id


def start(state: MagicsState, args: Arguments) -> None:
    before = state.with_defaults(())
    request, spec = job_spec(LabSpec, args, job_id=new_id(), before=before)
    spec = placed(spec)
    if request.dry_run:
        show_preview(state.api.preview(spec))
        return
    with CallThread(state.person, spec.cluster) as worker:
        job = worker(lambda: state.api.submit(spec))
        _wait_and_open(state, worker, job, waits=not request.detach)


def open_named(state: MagicsState, args: Arguments) -> None:
    job = labs.named(state.api.jobs(), args.name, args.cluster or state.cluster)
    with CallThread(state.person, job.cluster) as worker:
        _wait_and_open(state, worker, job, waits=True)


def _wait_and_open(state: MagicsState, worker: CallThread, job: Job, *, waits: bool) -> None:
    card = LiveCard(job)
    card.show()
    try:
        if waits:
            wait_until_ready(state.api, worker, card, labs.is_ready, "%slurm lab stop")
    finally:
        state.live.add(card)
    job = card.job
    if not waits:
        return
    if job.state.final or job.lab is None:
        raise ended(job, title(job), "No exit record found.")
    if (place := labs.below_a_hub(job)) is not None:
        say(place)
        return
    page = lab_page.write(job, state.api.lab_entry(job.id))
    if lab_page.show(page):
        say("It is open in the browser.")
    else:
        say(f"Opening {page} in a browser of this machine logs in there.")


def stop(state: MagicsState, args: Arguments) -> None:
    jobs, cluster = state.api.jobs(), args.cluster or state.cluster
    for job in [labs.named(jobs, name, cluster) for name in args.names or (None,)]:
        say(told_to_end(state.api.cancel(job.id)))
    lab_page.remove_old(state.api.jobs())


def extend(state: MagicsState, args: Arguments) -> None:
    job = labs.named(state.api.jobs(), args.name, args.cluster or state.cluster)
    job = state.api.extend(job.id, args.time)
    say(labs.extended(job, time.time()))


def listed(state: MagicsState, _args: Arguments) -> Table:
    jobs = state.api.jobs()
    lab_page.remove_old(jobs)
    found, now_s = jobs_of(JobKind.LAB, jobs), time.time()
    # Leave out their addresses: others read notebooks too, and nobody else may know these.
    return Table(
        labs.HEAD[:-1],
        tuple(labs.row(job, now_s)[:-1] for job in found),
        caption="" if found else "No labs yet: %slurm lab start [OPTIONS]",
    )


COMMANDS = by_words(
    lab_start=start, lab_open=open_named, lab_extend=extend, lab_stop=stop, lab_list=listed
)
