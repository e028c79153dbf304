"""The page that takes this machine's browser into a lab: a file of the user's own, and its opening.

The token is in the file (0600, in a folder 0700) and nowhere else: the browser is told the file's
name, which everybody on the machine may read.
"""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from jupyter_slurm import places
from jupyter_slurm.commands import labs
from jupyter_slurm.views.card import title
from jupyter_slurm.wire import Job, LabEntry


def write(job: Job, entry: LabEntry) -> Path:
    path = places.lab_page(job.id)
    with suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(labs.page(entry, title(job)))
    return path


def show(path: Path) -> bool:
    """Open the page in a browser; return whether there is one here."""
    return webbrowser.open(path.as_uri())


def remove_old(jobs: Iterable[Job]) -> None:
    """Remove the pages of labs that have ended."""
    live = {job.id for job in jobs if not job.state.final}
    for path in places.lab_page("x").parent.glob("*.html"):
        if path.stem not in live:
            path.unlink(missing_ok=True)
