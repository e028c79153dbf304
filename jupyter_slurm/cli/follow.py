"""Functions that follow a job or transfer on a terminal to its end, and shell exit codes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from jupyter_slurm.api import Api
from jupyter_slurm.cli.say import note, remark, say
from jupyter_slurm.cli.terminal import Terminal, writer
from jupyter_slurm.commands import notebooks
from jupyter_slurm.commands.notebooks import Executed
from jupyter_slurm.commands.values import Started
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.job import check_shown_transfer, read_whole_log, text_of
from jupyter_slurm.views import card
from jupyter_slurm.views.failure import failure
from jupyter_slurm.views.transfer_card import plain
from jupyter_slurm.views.trusted_output import trusted_as
from jupyter_slurm.wire import (
    Job,
    JobState,
    Output,
    Result,
    Show,
    Transfer,
    TransferState,
)

_WAIT_S = 20.0
_TRANSFER_WAIT_S = 1.0
_BETWEEN_LOOKS_S = 0.2
_TICK_S = 2.0
"""Seconds between updates of a waiting job's clock. An update does not ask the cluster."""


def follow_started(api: Api, started: Started) -> int:
    """Follow the job to its end, or print its ID if detached; return the exit code."""
    job, request = started.job, started.request
    if request.detach:
        say(f"{job.id}\n")
        if job.problem is not None:
            remark(card.told_problem(job.problem))
        remark(come_back(job))
        return 0
    return attach(api, job, cancel=request.on_interrupt == "cancel")


def attach(api: Api, job: Job, *, cancel: bool = False) -> int:
    """Follow the job; return its exit code. With `cancel`, Ctrl-C cancels the job."""
    from jupyter_slurm.client.login import LoginDeclined  # noqa: PLC0415

    try:
        return follow(api, job)
    except LoginDeclined:
        remark(come_back(job))
        raise
    except KeyboardInterrupt:
        if cancel:
            api.cancel(job.id)
            note(f"\n{card.title(job)}: cancellation requested.\n")
        else:
            note(f"\n{come_back(job)}\n")
        raise


def follow_transfer(api: Api, transfer: Transfer) -> Transfer:
    """Show the transfer until its end, and raise its error. Ctrl-C stops the transfer."""
    terminal = Terminal(sys.stdout, sys.stderr)
    try:
        while transfer.state is TransferState.RUNNING:
            terminal.status(plain(transfer, time.time()))
            transfer = api.transfer(transfer.id, wait_s=_TRANSFER_WAIT_S)
            if transfer.state is TransferState.RUNNING:
                time.sleep(_BETWEEN_LOOKS_S)
    except KeyboardInterrupt:
        transfer = api.stop_transfer(transfer.id)
        raise
    finally:
        terminal.note(plain(transfer, time.time()))
    return check_shown_transfer(transfer)


def follow(api: Api, job: Job) -> int:
    """Show all output of `job` until its end and then its outcome, and record the delivery. Return
    the job's exit code, 128 plus the signal's number, or 1 if the job failed without either. Raise
    KeyboardInterrupt after Ctrl-C; the job continues.
    """
    terminal = Terminal(sys.stdout, sys.stderr)
    try:
        last = _Follower(api, terminal).run(job)
    finally:
        terminal.close()
    result = api.result(last.id)
    terminal.note(card.plain(result.job, time.time()))
    failed = failure(result)
    if failed is not None and result.job.state is JobState.COMPLETED:
        terminal.note(str(failed))
    if result.job.fetch:
        try:
            follow_transfer(api, api.fetch(last.id))
        except JupyterSlurmError as exc:
            if failed is None:
                raise
            terminal.note(f"Cannot fetch the job's files: {exc}")
    api.delivered(last.id)
    return 0 if failed is None else exit_code(result)


def print_text(api: Api, job: Job, task: int | None = None) -> None:
    """Print the current output of `job` or an array task: stdout, stderr and errors."""
    write = writer(sys.stdout)
    for text in read_whole_log(api, job.id, task):
        write(text)


def print_all_text(api: Api, job: Job, task: int | None = None) -> None:
    """Print the output of `job` or an array task until its end."""
    write = writer(sys.stdout)
    cursor, end = "", False
    while not end:
        chunk = api.logs(job.id, cursor, wait_s=_WAIT_S, budget_bytes=None, task=task)
        cursor, end = chunk.cursor, chunk.end
        write(text_of(chunk.outputs))


def come_back(job: Job) -> str:
    """Return the message for a user who stops following a running job."""
    return (
        f"{card.title(job)} continues. Show it with `jupyter slurm attach {job.id}`, or stop it "
        f"with `jupyter slurm cancel {job.id}`."
    )


def exit_code(result: Result) -> int:
    """Return the exit code of a failed job, which is never 0."""
    job = result.job
    if job.signal:
        return 128 + job.signal
    return (job.exit_code or 0) & 0xFF or 1


class _Follower:
    def __init__(self, api: Api, terminal: Terminal) -> None:
        self._api = api
        self._terminal = terminal
        self._executed = Executed()

    def run(self, job: Job) -> Job:
        cursor = ""
        self._terminal.progress(job)
        while True:
            wait_s = _TICK_S if self._terminal.live and job.started_s is None else _WAIT_S
            chunk = self._api.logs(job.id, cursor, wait_s=wait_s, budget_bytes=None)
            cursor, job = chunk.cursor, chunk.job
            for output in chunk.outputs:
                self._show(output, chunk.show)
            self._terminal.progress(job)
            if chunk.end:
                self._save(job)
                return job

    def _show(self, output: Output, show: Show) -> None:
        self._executed.add(output, show)
        marker = notebooks.marker_of(output)
        if marker is None:
            self._terminal.output(trusted_as(output, show))
        elif marker.error is not None:
            self._terminal.output(marker.error.output())
        elif marker.cell is not None:
            told = f"cell {marker.cell + 1} of {self._executed.cells}"
            self._terminal.note(f"── {told}")

    def _save(self, job: Job) -> None:
        text = self._executed.text()
        if text is None or job.notebook is None:
            return
        path = Path(job.notebook)
        path = path.with_name(notebooks.executed_name(job))
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            part.write_text(text, encoding="utf-8", errors="replace")
            part.replace(path)
        except OSError as exc:
            self._terminal.note(f"Cannot write {path}: {exc.strerror}.")
        else:
            self._terminal.note(f"Executed notebook: {path}")
