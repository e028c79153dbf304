"""Functions that show the values of commands on a terminal, by type."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import TextWrapper
from types import MappingProxyType
from typing import Any

from jupyter_slurm.api import Api
from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.cli.follow import follow_started, follow_transfer
from jupyter_slurm.cli.say import note, remark, say, say_json, tell
from jupyter_slurm.cli.terminal import Terminal
from jupyter_slurm.commands import labs, sessions
from jupyter_slurm.commands.parsing import in_words_of_a_terminal
from jupyter_slurm.commands.values import (
    Checks,
    Dashboard,
    Lab,
    Outcomes,
    Started,
    StartedSession,
    data_of,
    text_of,
)
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.formatting import visible, width
from jupyter_slurm.job import log_pages, until_ready
from jupyter_slurm.views import card, offer_text
from jupyter_slurm.views.preview_text import check_text, preview_lines
from jupyter_slurm.views.table import Table
from jupyter_slurm.wire import (
    ClusterInfo,
    Connection,
    Job,
    LabStep,
    Output,
    Preview,
    Transfer,
    Tunnel,
)

_WAIT_S = 20.0
_TICK_S = 2.0


def show(caller: TerminalCaller, value: object, *, as_json: bool = False) -> int:
    """Show a command's value, or with `--json` its data; return the exit code."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if isinstance(value, Iterator):
        return max((show(caller, one, as_json=as_json) for one in value), default=0)
    if as_json and not isinstance(value, str):
        say_json(data_of(value))
        return _exit_code(value) if isinstance(value, Checks) else 0
    if isinstance(value, str | Connection | Tunnel | Job):
        tell(text_of(value))
        return 0
    return _SHOW[type(value)](caller, value) or 0


def _table(_caller: TerminalCaller, table: Table) -> None:
    if text := table.terminal_text:
        say(f"{in_words_of_a_terminal(text)}\n")
    if table.caption:
        tell(table.caption)


def _checks(_caller: TerminalCaller, value: Checks) -> int:
    tell("\n".join(map(check_text, value.checks)))
    sys.stdout.flush()
    return _exit_code(value)


def _exit_code(value: Checks) -> int:
    return 1 if any(check.ok is False for check in value.checks) else 0


def _outcomes(_caller: TerminalCaller, value: Outcomes) -> int:
    failed = False
    for word, outcome in value.outcomes:
        if isinstance(outcome, JupyterSlurmError):
            failed = True
            note(f"{word}: {outcome}\n")
        else:
            tell(outcome)
    return 1 if failed else 0


def _preview(_caller: TerminalCaller, preview: Preview) -> None:
    told = "".join(f"# {line}\n" for line in preview_lines(preview))
    where = f"on {preview.cluster}, in {preview.job_dir}:"
    files = "".join(f"#   {name}\n" for name in preview.files)
    say(f"{told}# {where}\n{files}# {shlex.join(preview.sbatch)}\n{preview.script}")


def _info(_caller: TerminalCaller, value: ClusterInfo) -> None:
    """Print a table if the terminal is wide enough, otherwise lines."""
    columns = shutil.get_terminal_size().columns
    lines = Table(offer_text.HEAD, tuple(offer_text.rows(value))).terminal_text.splitlines()
    if max(map(width, lines), default=0) > columns:
        lines = [visible(line) for one in offer_text.fitted(value, columns) for line in one]
    wrap = TextWrapper(width=columns, subsequent_indent="    ", break_on_hyphens=False)
    below = ("\n".join(wrap.wrap(visible(line))) for line in offer_text.lines(value, time.time()))
    say("\n".join([*lines, "", *below]) + "\n")


def _session(caller: TerminalCaller, started: StartedSession) -> int:
    job = started.job
    remark(f"{card.title(job)} is {job.state.word}.")
    try:
        if not started.request.detach:
            for chunk in until_ready(caller.api, job, sessions.is_ready):
                job = chunk.job
    except KeyboardInterrupt:
        note("\n")
        remark(f"{card.title(job)} continues. Stop it with `jupyter slurm session stop`.")
        raise
    remark(card.plain(job, time.time()))
    say(f"{job.id}\n")
    return 1 if job.state.final else 0


# --- web pages --------------------------------------------------------------------------------


def _dashboard(caller: TerminalCaller, value: Dashboard) -> None:
    from jupyter_slurm.client import lab_page  # noqa: PLC0415 - needed to open pages only

    page, address = lab_page.of_dashboard(caller.api, value.job, value.name)
    say(f"{address}\n")
    if not lab_page.show(page):
        _remark_on(page)


def _remark_on(page: Path) -> None:
    remark(f"Open {page} in a browser on this machine to log in.")


def _lab(caller: TerminalCaller, value: Lab) -> int:
    """Wait until the lab is ready, print its address and open it."""
    from jupyter_slurm.client import lab_page  # noqa: PLC0415

    job = value.job
    if not value.waits:
        opening = f"Open it with `jupyter slurm lab open {job.id}`."
        remark(f"{card.title(job)} is {job.state.word}. {opening}")
        say(f"{job.id}\n")
        return 0
    try:
        job, unshown = _ready(caller.api, job)
    except KeyboardInterrupt:
        note("\n")
        remark(f"{card.title(job)} continues. Stop it with `jupyter slurm lab stop {job.id}`.")
        raise
    if job.state.final or job.lab is None:
        terminal = Terminal(sys.stdout, sys.stderr)
        _output(terminal, unshown)
        terminal.close()
        remark(card.plain(job, time.time()))
        return 1
    if (place := labs.below_a_hub(job)) is not None:
        tell(place)
        return 0
    page = lab_page.write(job, caller.api.lab_entry(job.id))
    say(f"{job.lab.url}\n")
    sys.stdout.flush()
    if not (value.browser and lab_page.show(page)):
        _remark_on(page)
    return 0


def _ready(api: Api, job: Job) -> tuple[Job, list[Output]]:
    """Return the lab's job once it is ready or has ended. Show its state and the output of image
    tools. Return any other output, which explains an early end."""
    terminal = Terminal(sys.stderr, sys.stderr)
    cursor, shown, end = "", None, False
    unshown: list[Output] = []

    def wait_s(job: Job) -> float:
        terminal.progress(job)
        return _TICK_S if terminal.live and job.started_s is None else _WAIT_S

    try:
        for chunk in until_ready(api, job, labs.is_ready, wait_s):
            job, cursor, end = chunk.job, chunk.cursor, chunk.end
            if job.lab is not None and job.lab.step is LabStep.WAITING:
                _output(terminal, chunk.outputs)
            else:
                unshown += chunk.outputs
            step = labs.step(job)
            if step is not None and step != shown:
                terminal.note(step)
                shown = step
        if job.state.final and not end:
            for chunk in log_pages(api, job.id, cursor=cursor):
                unshown += chunk.outputs
    finally:
        terminal.close()
    return job, unshown


def _output(terminal: Terminal, outputs: Iterable[Output]) -> None:
    for output in outputs:
        terminal.output(output)


def _started(caller: TerminalCaller, value: Started) -> int:
    return follow_started(caller.api, value)


def _transfer(caller: TerminalCaller, value: Transfer) -> None:
    follow_transfer(caller.api, value)


_SHOW: Mapping[type, Callable[[TerminalCaller, Any], int | None]] = MappingProxyType(
    {
        Table: _table,
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
