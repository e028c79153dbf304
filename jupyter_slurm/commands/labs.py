"""Labs: the look-up by name, the state, and pages that log a browser in. No I/O.

A lab is a job (`JobKind.LAB`) that runs JupyterLab.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from jupyter_slurm.commands import sessions
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.formatting import duration
from jupyter_slurm.views.card import headline, left_s, title
from jupyter_slurm.wire import Job, JobKind, LabEntry, LabStep

HEAD = ("Name", "ID", "Slurm", "Cluster", "State", "Node", "Ends", "Address")
_START_ONE = "Start one with `%slurm lab start [OPTIONS]`."
STEPS = {
    LabStep.STARTING: "JupyterLab is starting.",
    LabStep.READY: "JupyterLab is ready.",
}


def named(jobs: Iterable[Job], name: str | None, cluster: str | None = None) -> Job:
    """Return the lab with this ID in jupyter-slurm or Slurm, or with this name on the cluster.
    Without a name, return the newest lab on the cluster. Prefer labs that have not ended. `cluster`
    is None for all clusters. `jobs` are sorted newest first, like the result of `Api.jobs`. Raise
    NotFoundError if no lab matches, RequestError if several labs match."""
    known = [job for job in jobs if job.kind is JobKind.LAB]
    if by_id := [job for job in known if job.id == name]:
        return by_id[0]
    found = [job for job in known if name and job.slurm_id == name]
    if not found:
        named = [job for job in known if name in (None, job.name)]
        found = [job for job in named if cluster in (None, job.cluster)]
        if not found:
            there = _those([job for job in named if not job.state.final])
            called = f" `{name}`" if name else ""
            on = f" on {cluster}" if cluster else ""
            raise NotFoundError(
                f"Found no lab{called}{on}.",
                hint=f"Use the ID of {there}." if there else _START_ONE,
            )
    live = [job for job in found if not job.state.final]
    if name is not None and len(live) > 1:
        raise RequestError(f"`{name}` is the name of {_those(live)}.", hint="Use the ID.")
    return (live or found)[0]


def _those(jobs: Iterable[Job]) -> str:
    return ", ".join(f"lab {job.id} on {job.cluster}" for job in jobs)


def extended(job: Job, now_s: float) -> str:
    left = left_s(job, now_s)
    ends = "" if left is None else f" and ends in {duration(left)} at the latest"
    return f"{title(job)} is {job.state.word}{ends}."


def is_ready(job: Job) -> bool:
    return job.lab is not None and job.lab.step is LabStep.READY


def step(job: Job) -> str | None:
    """Return the progress of the lab's start; None before JupyterLab starts."""
    return None if job.lab is None else STEPS.get(job.lab.step)


def row(job: Job, now_s: float) -> tuple[str, ...]:
    """Return the lab's row under `HEAD`."""
    address = "" if job.lab is None else job.lab.url
    state = job.lab.step if job.lab is not None and job.started_s is not None else job.state.word
    nodes = ",".join(job.nodes)
    return (
        job.name,
        job.id,
        job.slurm_id or "",
        job.cluster,
        state,
        nodes,
        sessions.ends(job, now_s),
        address,
    )


def below_a_hub(job: Job) -> str | None:
    """Return the message about opening a lab under JupyterHub; None if the browser is on this
    machine."""
    if job.lab is None or job.lab.base_url == "/":
        return None
    return (
        f"Open {job.lab.base_url}lab on this Jupyter server, or use the button in the sidebar or "
        "on the job's card."
    )


def ended(job: Job, now_s: float) -> str:
    return f"{title(job)}: {headline(job, now_s)}. {job.why or ''}".strip()


def page(entry: LabEntry, name: str) -> str:
    """Return HTML that logs a browser in to the lab by POST, which keeps the token out of URLs."""
    url, token = escape(entry.login_url), escape(entry.token)
    return _PAGE.format(title=escape(name), url=url, token=token)


def dashboard_page(entry: LabEntry, title: str) -> str:
    """Return HTML that opens a dashboard. For Ray's dashboard, also show the token that the
    dashboard asks for."""
    url = escape(entry.login_url)
    lines = [
        "<!DOCTYPE html>",
        '<html><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">',
        f"<title>{escape(title)}</title>",
        "" if entry.token else f'<meta http-equiv="refresh" content="0;url={url}">',
        "</head><body>",
        f"<p>Ray asks for this token: <code>{escape(entry.token)}</code></p>" * bool(entry.token),
        f'<p><a href="{url}">{escape(title)}</a></p></body></html>',
    ]
    return "\n".join(filter(None, lines))


_PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
</head>
<body>
<form method="post" action="{url}">
<input type="hidden" name="token" value="{token}">
<input type="hidden" name="password" value="{token}">
<noscript><button>{title}</button></noscript>
</form>
<script>document.forms[0].submit();</script>
</body>
</html>
"""
