"""`%slurm lab …`: a JupyterLab on a node, started from a cell and opened in this machine's browser.

What words mean is `labs.py`'s of the package.
"""

from __future__ import annotations

import time

from jupyter_slurm.client import lab_page
from jupyter_slurm.commands import labs
from jupyter_slurm.commands.arguments import Arguments, job_spec
from jupyter_slurm.errors import CellFailed
from jupyter_slurm.job import placed
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.magics.follow import CallThread, wait_until_ready
from jupyter_slurm.magics.frontend import say
from jupyter_slurm.magics.live import LiveCard
from jupyter_slurm.magics.preview import show_preview
from jupyter_slurm.magics.session import MagicsState
from jupyter_slurm.magics.table import Table
from jupyter_slurm.views.card import title, told_to_end
from jupyter_slurm.wire import Job, JobKind, LabSpec, new_id


def start(session: MagicsState, args: Arguments) -> None:
    before = session.with_defaults(())
    request, spec = job_spec(LabSpec, args, job_id=new_id(), before=before)
    spec = placed(spec)
    if request.dry_run:
        show_preview(session.api.preview(spec))
        return
    with CallThread(session.person, spec.cluster) as worker:
        job = worker(lambda: session.api.submit(spec))
        _wait_and_open(session, worker, job, waits=not request.detach)


def open_named(session: MagicsState, args: Arguments) -> None:
    job = labs.named(session.api.jobs(), args.name, args.cluster or session.cluster)
    with CallThread(session.person, job.cluster) as worker:
        _wait_and_open(session, worker, job, waits=True)


def _wait_and_open(session: MagicsState, worker: CallThread, job: Job, *, waits: bool) -> None:
    card = LiveCard(job)
    card.show()
    try:
        if waits:
            wait_until_ready(session.api, worker, card, labs.is_ready, "%slurm lab stop")
    finally:
        session.live.add(card)
    job = card.job
    if not waits:
        return
    if job.state.final or job.lab is None:
        why = job.why or "It left no word of why."
        raise CellFailed(
            f"{title(job)} ended as {job.state}: {why}", hint=job.advice, job_id=job.id
        )
    if (place := labs.below_a_hub(job)) is not None:
        say(place)
        return
    page = lab_page.write(job, session.api.lab_entry(job.id))
    if lab_page.show(page):
        say("It is open in the browser.")
    else:
        say(f"Opening {page} in a browser of this machine logs in there.")


def stop(session: MagicsState, args: Arguments) -> None:
    jobs, cluster = session.api.jobs(), args.cluster or session.cluster
    for job in [labs.named(jobs, name, cluster) for name in args.names or (None,)]:
        say(told_to_end(session.api.cancel(job.id)))
    lab_page.remove_old(session.api.jobs())


def extend(session: MagicsState, args: Arguments) -> None:
    job = labs.named(session.api.jobs(), args.name, args.cluster or session.cluster)
    job = session.api.extend(job.id, args.time)
    say(labs.extended(job, time.time()))


def listed(session: MagicsState, _args: Arguments) -> Table:
    jobs = session.api.jobs()
    lab_page.remove_old(jobs)
    found, now_s = jobs_of(JobKind.LAB, jobs), time.time()
    # Leave out their addresses: others read notebooks too, and nobody else may know these.
    return Table(
        labs.HEAD[:-1],
        tuple(labs.row(job, now_s)[:-1] for job in found),
        caption="" if found else "No labs yet: %slurm lab start [OPTIONS]",
    )
