"""One function per command. Each function takes its caller and the parsed arguments, and returns or
yields values. A front end shows the values by type. Each front end implements its own commands, and
the commands that stream a job's output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import msgspec

from jupyter_slurm.commands import headless, labs, packages_here, sessions, steering
from jupyter_slurm.commands.arguments import job_spec, of_job
from jupyter_slurm.commands.command import Command, since_s
from jupyter_slurm.commands.image_line import ImageRequest, parse_image, removed
from jupyter_slurm.commands.line import Request, pushed_from, with_local_context
from jupyter_slurm.commands.parsing import Arguments, as_words
from jupyter_slurm.commands.submitting import CELL, IMAGE_PULL, RETRY
from jupyter_slurm.commands.values import (
    Caller,
    Checks,
    Dashboard,
    Lab,
    Outcomes,
    Started,
    StartedSession,
)
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.formatting import counted, memory, moment
from jupyter_slurm.views import card, priority_text, spending_text
from jupyter_slurm.views.connections import (
    CONNECTION_HEAD,
    TUNNEL_HEAD,
    connection_row,
    dashboard_aim,
    tunnel_ends,
    tunnel_row,
)
from jupyter_slurm.views.preview_text import check_text
from jupyter_slurm.views.rows import job_table
from jupyter_slurm.views.table import Table
from jupyter_slurm.wire import (
    ClusterInfo,
    Connection,
    ImageSpec,
    Job,
    JobKind,
    JobSpec,
    JobVerb,
    LabSpec,
    Preview,
    SessionSpec,
    Transfer,
    Tunnel,
    new_id,
)

Function = Callable[[Caller, Arguments], object]


# --- clusters ---------------------------------------------------------------------------------


def list_clusters(caller: Caller, _args: Arguments) -> Table:
    found = caller.api.clusters()
    rows = (
        (
            f"{one.name} (default)" if one.default else one.name,
            one.host or "this machine",
            one.runtime,
            ", ".join(one.images),
            one.origin,
            one.problem.message if one.problem else "",
        )
        for one in found
    )
    none = (
        "No cluster yet. Add one with `jupyter slurm clusters add NAME`, or start one on this "
        "machine with `jupyter slurm up`."
    )
    head = ("Cluster", "Host", "Runtime", "Images", "From", "Problem")
    return Table(head, tuple(rows), "" if found else none, found)


def doctor(caller: Caller, args: Arguments) -> Checks:
    return Checks(caller.api.doctor(args.cluster or caller.cluster))


def info(caller: Caller, args: Arguments) -> ClusterInfo:
    return caller.api.cluster_info(args.cluster or caller.cluster)


def usage(caller: Caller, args: Arguments) -> Table:
    since = None if args.since is None else since_s(args.since, time.time())
    spent = caller.api.spending(args.cluster or caller.cluster, since)
    rows, caption = spending_text.rows(spent), "\n".join(spending_text.lines(spent))
    return Table(spending_text.head(spent), tuple(rows), caption, spent)


# --- jobs -------------------------------------------------------------------------------------


def submitted(caller: Caller, spec: JobSpec, request: Request) -> Preview | Job:
    """Submit a job, or with `--dry-run` return its preview."""
    spec = with_local_context(msgspec.structs.replace(spec, cluster=spec.cluster or caller.cluster))
    return caller.api.preview(spec) if request.dry_run else caller.submit(spec, request)


def run_image(caller: Caller, args: Arguments) -> Preview | Started:
    """Run the image's own program."""
    request, spec = headless.own_program(
        args, job_id=new_id(), notebook=caller.notebook, before=caller.with_defaults(())
    )
    made = submitted(caller, spec, request)
    return made if isinstance(made, Preview) else Started(made, request)


def list_jobs(caller: Caller, args: Arguments) -> Table:
    found = caller.api.jobs(args.cluster or caller.used_cluster)
    for check in caller.api.status().checks:
        caller.warn(check_text(check))
    return job_table(found, time.time(), _to_fetch(found) if found else "No jobs yet.")


def _to_fetch(jobs: Sequence[Job]) -> str:
    """Return a message about fetching output, for all rows together."""
    unseen = [job for job in jobs if card.has_unseen_output(job)]
    if not unseen:
        return ""
    shown = "" if len(unseen) == 1 else " (the newest)"
    return (
        f"{counted(len(unseen), 'job')} with unfetched output. Fetch it with `%slurm attach "
        f"{unseen[0].id}`{shown}."
    )


def queue(caller: Caller, args: Arguments) -> Table:
    found = caller.api.queue(args.cluster or caller.cluster)
    return job_table(found, time.time(), "" if found else "The queue is empty.")


def why(caller: Caller, args: Arguments) -> Job | Table:
    """Return the job; with `--priority`, a table of its priority."""
    job = caller.api.job(args.id) if args.priority else caller.api.why(args.id)
    warn_ended_earlier(caller, job, args.id)
    if not args.priority:
        return job
    found = caller.api.priorities(job.id)
    columns, rows = priority_text.table(found)
    return Table(columns, tuple(rows), "" if found else priority_text.NONE, found)


def warn_ended_earlier(caller: Caller, job: Job, word: str) -> None:
    """Warn if the word is the Slurm ID of a job that ended long ago."""
    if told := card.ended_earlier(job, word, time.time()):
        caller.warn(told)


def steer(verb: JobVerb, caller: Caller, args: Arguments) -> Outcomes:
    return Outcomes(steering.steer_each(caller.api, verb, args.ids))


def retry(caller: Caller, args: Arguments) -> Started:
    """Submit the failed tasks of a sweep again."""
    ours = [(name, value) for name, value in args.options if name in CELL.options]
    request = of_job(RETRY, as_words(ours))
    asked = {name: value or "" for name, value in args.options if name not in CELL.options}
    job = caller.api.job(args.id)
    again = caller.call(lambda: caller.api.retry(job.id, asked), job.cluster)
    return Started(again, request)


def forget(caller: Caller, args: Arguments) -> Outcomes | int:
    """Forget jobs. Ask first if that loses output."""
    lost = [] if args.yes else steering.unfetched(caller.api, args.ids)
    if lost and not caller.confirm(steering.forgetting(lost), "Forget them?"):
        return 1
    return Outcomes(steering.forget_each(caller.api, args.ids))


# --- sessions and labs ------------------------------------------------------------------------


def start_session(caller: Caller, args: Arguments) -> Preview | StartedSession:
    request, spec = job_spec(
        SessionSpec,
        args,
        job_id=new_id(),
        notebook=caller.notebook,
        before=caller.with_defaults(()),
    )
    made = submitted(caller, spec, request)
    return made if isinstance(made, Preview) else StartedSession(made, request)


def session_named(caller: Caller, name: str, cluster: str | None) -> Job:
    """Return the session with this ID, or the caller's session with this name. For "", return the
    session in use or the newest session. `cluster` is None for the caller's cluster. Raises
    NotFoundError or RequestError."""
    jobs = caller.api.jobs()
    chosen = caller.used_session
    used = next((job for job in jobs if chosen is not None and job.id == chosen.id), None)
    if used is not None and cluster in (None, used.cluster):
        is_meant = not name or (name == used.name and not used.state.final)
        if is_meant:
            return used
    cluster = cluster or caller.used_cluster
    if name:
        return sessions.named(jobs, name, caller.owner, cluster)
    job = sessions.newest(jobs, caller.owner, cluster)
    caller.used_session = job
    return job


def with_session(caller: Caller, request: Request, name: str) -> Request:
    """Return the request with the ID of the session `name`. Do not look up the session in use,
    because `submit` raises NotFoundError if the user forgot the session. Raises NotFoundError or
    RequestError."""
    used = caller.used_session
    if used is not None and name in ("", used.id) and request.cluster in (None, used.cluster):
        return replace(request, session=used.id, cluster=used.cluster)
    job = session_named(caller, name, request.cluster)
    sessions.check_cluster(job, request.cluster)
    return replace(request, session=job.id, cluster=job.cluster)


def stop_sessions(caller: Caller, args: Arguments) -> Iterator[str]:
    for job in [session_named(caller, name, args.cluster) for name in args.names or ("",)]:
        if job.state.final:
            yield f"{card.title(job)} has ended already: {job.why or job.state.word}"
        else:
            yield card.told_to_end(caller.api.cancel(job.id))


def list_sessions(caller: Caller, _args: Arguments) -> Table:
    jobs, now_s = caller.api.jobs(), time.time()
    found = [job for job in jobs if job.kind is JobKind.SESSION]
    used_id = caller.used_session.id if caller.used_session is not None else None
    cells = [job.session for job in jobs if job.session is not None]
    rows = (
        (
            f"{job.name} (in use)" if job.id == used_id else job.name,
            job.id,
            job.cluster,
            job.slurm_id or "",
            f"{card.symbol(job.state)} {card.headline(job, now_s)}",
            ", ".join(job.nodes),
            str(cells.count(job.id)),
            sessions.ends(job, now_s),
            job.notebook or "",
        )
        for job in found
    )
    return Table(
        ("Name", "ID", "Cluster", "Slurm", "State", "Node", "Cells", "Ends", "Notebook"),
        tuple(rows),
        "" if found else "No sessions. Start one with `%slurm session start`.",
        found,
    )


def start_lab(caller: Caller, args: Arguments) -> Preview | Lab:
    request, spec = job_spec(LabSpec, args, job_id=new_id(), before=caller.with_defaults(()))
    made = submitted(caller, spec, request)
    if isinstance(made, Preview):
        return made
    return Lab(made, waits=not request.detach, browser=not args.no_browser)


def _lab(caller: Caller, args: Arguments, name: str | None) -> Job:
    return labs.named(caller.api.jobs(), name, args.cluster or caller.cluster)


def open_lab(caller: Caller, args: Arguments) -> Lab:
    return Lab(_lab(caller, args, args.name), browser=not args.no_browser)


def extend_lab(caller: Caller, args: Arguments) -> str:
    job = caller.api.extend(_lab(caller, args, args.name).id, args.time)
    return labs.extended(job, time.time())


def stop_labs(caller: Caller, args: Arguments) -> Iterator[str]:
    for job in [_lab(caller, args, name) for name in args.names or (None,)]:
        yield card.told_to_end(caller.api.cancel(job.id))
    caller.remove_pages(caller.api.jobs())


def list_labs(caller: Caller, _args: Arguments) -> Table:
    jobs, now_s = caller.api.jobs(), time.time()
    caller.remove_pages(jobs)
    found = [job for job in jobs if job.kind is JobKind.LAB]
    shown = labs.HEAD[:-1] if caller.is_saved else labs.HEAD  # without the address
    return Table(
        shown,
        tuple(labs.row(job, now_s)[: len(shown)] for job in found),
        "" if found else "No labs. Start one with `%slurm lab start`.",
        found,
    )


# --- connections and files --------------------------------------------------------------------


def log_in(caller: Caller, args: Arguments) -> Connection:
    return caller.log_in(args.cluster or caller.cluster)


def log_out(caller: Caller, args: Arguments) -> str:
    closed = caller.api.disconnect(args.cluster or caller.cluster)
    return f"Logged out of {closed.cluster}. Jobs continue."


def list_connections(caller: Caller, _args: Arguments) -> Table:
    found, now_s = caller.api.connections(), time.time()
    rows = (tuple(connection_row(one, now_s)) for one in found)
    return Table(CONNECTION_HEAD, tuple(rows), data=found)


def tunnel(caller: Caller, args: Arguments) -> Iterator[str | Table | Tunnel | Dashboard]:
    """Close tunnels, then open a tunnel or a dashboard, or list tunnels."""
    for tunnel_id in args.close:
        caller.api.close_tunnel(tunnel_id)
        yield f"Tunnel {tunnel_id} is closed."
    if args.target is None:
        if not args.close:
            yield list_tunnels(caller, args)
    elif (aim := dashboard_aim(caller.api, args.target)) is not None:
        yield Dashboard(*aim)
    else:
        ends = tunnel_ends(caller.api, args.target, args.local_port)
        cluster = args.cluster or caller.cluster
        yield caller.api.forward(ends.host, ends.port, cluster, ends.job_id, ends.local_port)


def list_tunnels(caller: Caller, _args: Arguments) -> Table:
    found = caller.api.tunnels()
    rows = tuple(map(tunnel_row, found))
    return Table(TUNNEL_HEAD, rows, "" if found else "No tunnel is open.", found)


def push(caller: Caller, args: Arguments) -> Transfer:
    path, cluster = _absolute(args.local), args.cluster or caller.cluster
    if not path.exists():
        raise NotFoundError(f"{path} not found.")
    remote = args.remote or path.resolve().name or _missing("REMOTE")
    return caller.call(
        lambda: caller.api.push(str(path), remote, cluster, tuple(args.exclude)), cluster
    )


def pull(caller: Caller, args: Arguments) -> Transfer:
    name, cluster = PurePosixPath(args.remote).name, args.cluster or caller.cluster
    local = args.local or (name if name not in ("~", "..") else "") or _missing("LOCAL")
    path = str(_absolute(local))
    return caller.call(
        lambda: caller.api.pull(args.remote, path, cluster, tuple(args.exclude)), cluster
    )


def _absolute(path: str) -> Path:
    """Return the absolute path, because the agent has another working directory."""
    return Path(path).expanduser().absolute()


def _missing(word: str) -> str:
    raise RequestError(f"Missing {word}, because the other path does not end with a file name.")


# --- images -----------------------------------------------------------------------------------


def list_images(caller: Caller, args: Arguments) -> Table:
    found, now_s = caller.api.images(args.cluster or caller.cluster), time.time()
    rows = (
        (
            one.name,
            f"{one.origin} from {one.base}" if one.base else one.origin,
            f"{one.size_mib:.0f} MiB" if one.size_mib is not None else "",
            moment(one.made_s, now_s) if one.made_s else "",
            one.path,
        )
        for one in found
    )
    none = "No images yet. Build one with `jupyter slurm image build` or %%slurm_image."
    head = ("Image", "From", "Size", "Made", "Where")
    return Table(head, tuple(rows), "" if found else none, found)


def build_image(
    caller: Caller, command: Command, args: Arguments, recipe: str, folder: Path
) -> str | Started:
    """Build an image from a recipe, with files in `folder`."""
    request = parse_image(command, args, before=caller.with_defaults(()))
    here = packages_here.read() if request.env_from_here else None
    if here is not None and here.left_out:
        caller.warn(
            f"Omitted packages that exist only on this machine: {', '.join(here.left_out)}."
        )
    spec = request.build_spec(
        new_id(),
        recipe,
        here,
        caller.notebook,
        str(folder),
        pushed_from(Path.cwd(), request.push),
    )
    return _made(caller, request, spec)


def pull_image(caller: Caller, args: Arguments) -> str | Started:
    request = parse_image(IMAGE_PULL, args, before=caller.with_defaults(()))
    return _made(caller, request, request.pull_spec(new_id(), caller.notebook))


def _made(caller: Caller, request: ImageRequest, spec: ImageSpec) -> str | Started:
    cluster = spec.cluster or caller.cluster
    spec = msgspec.structs.replace(spec, cluster=cluster)
    made = caller.call(lambda: caller.api.make_image(spec), cluster)
    if made.job is None:
        return f"Image {made.image.name} exists: {made.image.path}"
    return Started(made.job, request.request)


def remove_images(caller: Caller, args: Arguments) -> Iterator[str]:
    cluster = args.cluster or caller.cluster
    for name in args.names:
        yield removed(name, caller.call(partial(caller.api.remove_image, name, cluster), cluster))


# --- environments -----------------------------------------------------------------------------


def list_environments(caller: Caller, args: Arguments) -> Table:
    found, now_s = caller.api.environments(args.cluster or caller.cluster), time.time()
    rows = (
        (
            one.id,
            ", ".join(filter(None, (one.file, *one.packages))),
            f"{one.tool}, Python {one.python}" if one.python else one.tool,
            memory(max(1.0, one.size_mib)) if one.size_mib is not None else "",
            moment(one.used_s or one.made_s or now_s, now_s),
            one.path,
        )
        for one in found
    )
    none = "No environments yet. Install one with `%%slurm --with PACKAGES`."
    head = ("ID", "Packages", "By", "Size", "Last use", "Where")
    return Table(head, tuple(rows), "" if found else none, found)


def remove_environments(caller: Caller, args: Arguments) -> Iterator[str]:
    if not args.ids and args.unused is None:
        raise RequestError("Missing ID.", hint="Name environments, or use `--unused 30d`.")
    cluster = args.cluster or caller.cluster
    gone = caller.call(
        partial(caller.api.remove_environments, list(args.ids), cluster, args.unused), cluster
    )
    for one in gone:
        yield f"{one.id}: removed"
    if not gone:
        yield "All environments were used more recently."


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "clusters list": list_clusters,
        "doctor": doctor,
        "info": info,
        "usage": usage,
        "run": run_image,
        "jobs": list_jobs,
        "queue": queue,
        "why": why,
        "cancel": partial(steer, "cancel"),
        "hold": partial(steer, "hold"),
        "release": partial(steer, "release"),
        "requeue": partial(steer, "requeue"),
        "retry": retry,
        "forget": forget,
        "session start": start_session,
        "session stop": stop_sessions,
        "session list": list_sessions,
        "lab start": start_lab,
        "lab open": open_lab,
        "lab extend": extend_lab,
        "lab stop": stop_labs,
        "lab list": list_labs,
        "login": log_in,
        "logout": log_out,
        "connections": list_connections,
        "tunnel": tunnel,
        "push": push,
        "pull": pull,
        "image ls": list_images,
        "image pull": pull_image,
        "image rm": remove_images,
        "env list": list_environments,
        "env rm": remove_environments,
    }
)
"""Functions for the commands of both front ends, by command name."""
