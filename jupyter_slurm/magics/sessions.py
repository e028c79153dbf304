"""`%slurm session …` and the session that `%%slurm --session` means: an allocation that is kept.

What words mean is `commands/sessions.py`'s.
"""

from __future__ import annotations

import time
from dataclasses import replace

from jupyter_slurm.commands import sessions
from jupyter_slurm.commands.arguments import Arguments, job_spec
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.commands.line import Request
from jupyter_slurm.job import placed
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.magics.follow import CallThread, wait_until_ready
from jupyter_slurm.magics.frontend import say, warn
from jupyter_slurm.magics.live import LiveCard
from jupyter_slurm.magics.preview import show_preview
from jupyter_slurm.magics.replay import Replay
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.magics.table import Table
from jupyter_slurm.views.card import headline, symbol, title, told_to_end
from jupyter_slurm.views.failure import ended
from jupyter_slurm.wire import Job, JobKind, SessionSpec, new_id


def resolve(state: MagicsState, request: Request) -> Request:
    """Return the request with the session's id in the place of its name. NotFoundError,
    RequestError."""
    if request.session is None:
        return request
    job = _named(state, request.session, request.cluster)
    sessions.check_cluster(job, request.cluster)
    return replace(request, session=job.id, cluster=job.cluster)


def _named(state: MagicsState, name: str, cluster: str | None = None) -> Job:
    """Return the session by id, or by name or "" one of this notebook, also of its earlier kernels:
    the one in use, or the one on the cluster that the line asks for, else on that of `%slurm
    use`."""
    jobs = state.api.jobs()
    used = next((job for job in jobs if job.id == state.used_session), None)
    if used is not None and cluster in (None, used.cluster):
        if not name:
            return used
        if name == used.name and not used.state.final:
            return used
    cluster = cluster or state.used_cluster
    if name:
        return sessions.named(jobs, name, state.owner, cluster)
    job = sessions.newest(jobs, state.owner, cluster)
    state.used_session = job.id
    return job


def start(state: MagicsState, args: Arguments) -> None:
    """Start a session and wait until it runs; it is the notebook's session from then on."""
    before, notebook = state.with_defaults(()), state.notebook
    request, spec = job_spec(SessionSpec, args, job_id=new_id(), notebook=notebook, before=before)
    spec = placed(spec)
    if request.dry_run:
        show_preview(state.api.preview(spec))
        return
    _remind(state)
    with CallThread(state.person, spec.cluster) as worker:
        job = worker(lambda: state.api.submit(spec))
        state.used_session = job.id
        state.started_sessions.add(job.id)
        card = LiveCard(job)
        card.show()
        try:
            if not request.detach:
                _wait(state, worker, card)
        finally:
            state.live.add(card)
    if card.job.state.final:
        raise ended(card.job, title(card.job), "No exit record found.")


def _remind(state: MagicsState) -> None:
    """Remind of the session that is kept already: if the user forgets it, it costs others."""
    for job in state.api.jobs():
        if job.id == state.used_session and not job.state.final:
            warn(
                f"{title(job)} is {job.state.word} and continues; `%slurm session stop {job.id}` "
                "stops it"
            )


def _wait(state: MagicsState, worker: CallThread, card: LiveCard) -> None:
    """Wait until the session's process is there and says so, or the job has ended; show its
    output."""
    limit_bytes, show_as = state.output_limit_bytes, state.settings.show
    show = Replay(card.job.id, limit_bytes, show_as, on_clear=card.show).show
    wait_until_ready(state.api, worker, card, sessions.is_ready, "%slurm session stop", show)


def stop(state: MagicsState, args: Arguments) -> None:
    for job in [_named(state, name, args.cluster) for name in args.names or ("",)]:
        if job.state.final:
            why = job.why or job.state.word
            say(f"{title(job)} has ended already: {why}")
        else:
            say(told_to_end(state.api.cancel(job.id)))


def use(state: MagicsState, args: Arguments) -> None:
    job = _named(state, args.name, args.cluster)
    state.used_session = job.id
    say(f"`%%slurm --session` cells go to {title(job)}, which is {job.state.word}.")


def listed(state: MagicsState, _args: Arguments) -> Table:
    jobs = state.api.jobs()
    now_s = time.time()
    cells = [job.session for job in jobs if job.session is not None]
    found = jobs_of(JobKind.SESSION, jobs)
    return Table(
        ("Name", "ID", "Cluster", "Slurm", "State", "Node", "Cells", "Ends", "Notebook"),
        tuple(
            (
                f"{job.name} (in use)" if job.id == state.used_session else job.name,
                job.id,
                job.cluster,
                job.slurm_id or "",
                f"{symbol(job.state)} {headline(job, now_s)}",
                ", ".join(job.nodes),
                str(cells.count(job.id)),
                sessions.ends(job, now_s),
                job.notebook or "",
            )
            for job in found
        ),
        caption="" if found else "No sessions yet: %slurm session start [OPTIONS]",
    )


COMMANDS = by_words(session_start=start, session_stop=stop, session_list=listed, session_use=use)
