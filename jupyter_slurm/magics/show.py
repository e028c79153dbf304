"""The display of commands' values in a notebook, by type."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jupyter_slurm.client import lab_page
from jupyter_slurm.commands import labs, sessions
from jupyter_slurm.commands.values import (
    Checks,
    Dashboard,
    Lab,
    Outcomes,
    Started,
    StartedSession,
    text_of,
)
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.job import JobHandle
from jupyter_slurm.magics import frontend
from jupyter_slurm.magics.cell import wait_or_detach
from jupyter_slurm.magics.follow import LiveCard, Replay, wait_until_ready
from jupyter_slurm.magics.frontend import in_place, say, warn
from jupyter_slurm.magics.state import CallThread, MagicsState
from jupyter_slurm.magics.transfer import follow_transfer
from jupyter_slurm.views import offer_text
from jupyter_slurm.views.card import title
from jupyter_slurm.views.failure import ended
from jupyter_slurm.views.preview_text import check_text, preview_html, preview_lines
from jupyter_slurm.views.table import Table
from jupyter_slurm.wire import (
    ClusterInfo,
    Connection,
    Job,
    Preview,
    Transfer,
    Tunnel,
)


def show(state: MagicsState, value: object) -> object:
    """Show a command's value, or return it if IPython shows it itself."""
    if value is None or isinstance(value, Table | JobHandle):
        return value
    if isinstance(value, Iterator):
        shown: object = None
        for one in value:
            shown = show(state, one)
        return shown
    if isinstance(value, str | Connection | Tunnel):
        say(text_of(value))
        return None
    if isinstance(value, Job):
        state.show_card(value)
        return None
    return _SHOW[type(value)](state, value)


def _info(_state: MagicsState, info: ClusterInfo) -> Table:
    caption = "\n".join(offer_text.lines(info, time.time()))
    return Table(offer_text.HEAD, tuple(offer_text.rows(info)), caption)


def _checks(_state: MagicsState, value: Checks) -> None:
    for check in value.checks:
        say(check_text(check))


def _outcomes(_state: MagicsState, value: Outcomes) -> None:
    """Print the outcome for each job. Then raise an error if any failed."""
    outcomes = list(value.outcomes)
    failed = [one for _, one in outcomes if isinstance(one, JupyterSlurmError)]
    for word, one in outcomes:
        if isinstance(one, str):
            say(one)
        elif len(outcomes) > 1:
            warn(f"{word}: {one}")
    if failed:
        raise failed[-1]


def _preview(_state: MagicsState, preview: Preview) -> None:
    """Show the preview as HTML in a notebook, or as text."""
    told = (
        *preview_lines(preview),
        f"Cluster {preview.cluster}, job dir {preview.job_dir}",
        f"Files: {', '.join(preview.files)}",
        f"$ {shlex.join(preview.sbatch)}",
        preview.script,
    )
    text = "\n".join(told)
    if in_place():
        frontend.show({"text/html": preview_html(preview), "text/plain": text}, {})
    else:
        say(text)


def _transfer(state: MagicsState, transfer: Transfer) -> None:
    with CallThread(state.person, transfer.cluster) as worker:
        follow_transfer(state.agent, worker, transfer)


def _started(state: MagicsState, started: Started) -> JobHandle | None:
    return wait_or_detach(state, started.request, started.job)


def _session(state: MagicsState, started: StartedSession) -> None:
    """Wait until the session is running, then use it for this notebook."""
    job = started.job
    used = state.used_session
    for other in state.api.jobs():
        if used is not None and other.id == used.id and not other.state.final:
            warn(
                f"{title(other)} is {other.state.word} and continues; `%slurm session stop "
                f"{other.id}` stops it"
            )
    state.used_session = job
    state.started_sessions.add(job.id)
    card = LiveCard(job)
    card.show()
    try:
        if not started.request.detach:
            limit_bytes, show_as = state.output_limit_bytes, state.settings.show
            replay = Replay(job.id, limit_bytes, show_as, on_clear=card.show)
            with CallThread(state.person, job.cluster) as worker:
                wait_until_ready(
                    state.api, worker, card, sessions.is_ready, "%slurm session stop", replay.show
                )
    finally:
        state.live.add(card)
    if card.job.state.final:
        raise ended(card.job, title(card.job), "No exit record found.")


def _lab(state: MagicsState, value: Lab) -> None:
    """Wait until the lab is ready, then open it."""
    card = LiveCard(value.job)
    card.show()
    try:
        if value.waits:
            with CallThread(state.person, value.job.cluster) as worker:
                wait_until_ready(state.api, worker, card, labs.is_ready, "%slurm lab stop")
    finally:
        state.live.add(card)
    job = card.job
    if not value.waits:
        return
    if job.state.final or job.lab is None:
        raise ended(job, title(job), "No exit record found.")
    if (place := labs.below_a_hub(job)) is not None:
        say(place)
    else:
        _open(lab_page.write(job, state.api.lab_entry(job.id)))


def _dashboard(state: MagicsState, value: Dashboard) -> None:
    _open(lab_page.of_dashboard(state.api, value.job, value.name)[0])


def _open(page: Path) -> None:
    """Open a page in a browser. Do not show its path in the notebook, which others may read."""
    if lab_page.show(page):
        say("Opened in the browser.")
    else:
        say(f"Open {page} in a browser on this machine to log in.")


_SHOW: Mapping[type, Callable[[MagicsState, Any], object]] = MappingProxyType(
    {
        ClusterInfo: _info,
        Checks: _checks,
        Outcomes: _outcomes,
        Preview: _preview,
        Transfer: _transfer,
        Started: _started,
        StartedSession: _session,
        Lab: _lab,
        Dashboard: _dashboard,
    }
)
