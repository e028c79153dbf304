"""Local pages that log a browser in to a lab or dashboard.

Each file (0600, in a 0700 folder) contains the token and the address. The browser gets only the
file's name as an argument, since every user of this machine can see its arguments.
"""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from jupyter_slurm import places
from jupyter_slurm.api import Api
from jupyter_slurm.commands import labs
from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.views.card import title
from jupyter_slurm.wire import DASHBOARDS, DashboardName, Job, LabEntry

_WAIT_S, _TRIES = 20.0, 3
"""Seconds per try, and the number of tries, for a dashboard to start."""


def of_dashboard(api: Api, job: Job, name: DashboardName) -> tuple[Path, str]:
    """Write the page of a job's dashboard once the dashboard answers. Return the page and the
    dashboard's address. Raises RequestError or NotFoundError."""
    for last in (False,) * (_TRIES - 1) + (True,):
        try:
            entry = api.dashboard_entry(job.id, name, _WAIT_S)
        except NotFoundError:
            if last:
                raise
        else:
            break
    page = labs.dashboard_page(entry, f"{DASHBOARDS[name]}: {title(job)}")
    return _write(f"{job.id}-{name}", page), entry.login_url


def write(job: Job, entry: LabEntry) -> Path:
    return _write(job.id, labs.page(entry, title(job)))


def _write(stem: str, page: str) -> Path:
    path = places.lab_page(stem)
    with suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(page)
    return path


def show(path: Path) -> bool:
    """Open the page in a browser; return whether a browser was found."""
    return webbrowser.open(path.as_uri())


def remove_old(jobs: Iterable[Job]) -> None:
    """Remove the pages of jobs that have ended."""
    live = {job.id for job in jobs if not job.state.final}
    for path in places.lab_page("x").parent.glob("*.html"):
        if path.stem.partition("-")[0] not in live:
            path.unlink(missing_ok=True)
