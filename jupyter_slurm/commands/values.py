"""The caller of a command's function, and the functions' return values. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from jupyter_slurm.api import Api
from jupyter_slurm.commands.line import Request
from jupyter_slurm.commands.sessions import Owner
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.views import card
from jupyter_slurm.views.connections import connected, reach
from jupyter_slurm.views.table import Table
from jupyter_slurm.wire import (
    Check,
    Connection,
    DashboardName,
    Job,
    JobSpec,
    Tunnel,
)

_R = TypeVar("_R")


class Caller(Protocol):
    """The front end that runs a command, with its own way to prompt, log in and wait."""

    used_session: Job | None
    """A snapshot of the session that the user chose; None for the newest session."""

    @property
    def api(self) -> Api:
        """Return the agent's Api. A call that needs a login asks the user."""

    @property
    def cluster(self) -> str | None:
        """Return the default cluster; None for the default of the profiles."""

    @property
    def used_cluster(self) -> str | None:
        """Return the cluster that the user chose for later commands; None without a choice."""

    @property
    def notebook(self) -> str | None: ...

    @property
    def owner(self) -> Owner: ...

    @property
    def is_saved(self) -> bool:
        """Return whether output is saved in a notebook, which other users may read."""

    def with_defaults(self, words: Sequence[str]) -> list[str]:
        """Return the user's defaults followed by job options."""

    def call(self, call: Callable[[], _R], cluster: str | None) -> _R:
        """Return the result of `call`, which may be slow. The user can interrupt it."""

    def submit(self, spec: JobSpec, request: Request) -> Job: ...

    def log_in(self, cluster: str | None) -> Connection: ...

    def confirm(self, consequence: str, question: str) -> bool:
        """Show the consequence, ask the question, and return whether the user agrees. Raise
        RequestError if the front end cannot ask."""

    def remove_pages(self, jobs: Sequence[Job]) -> None:
        """Remove the pages of ended labs."""

    def warn(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Started:
    """A started job. The front end follows it unless it is detached."""

    job: Job
    request: Request


@dataclass(frozen=True, slots=True)
class StartedSession(Started):
    """A session. The front end waits until it is ready."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab to open once it is ready."""

    job: Job
    waits: bool = True
    browser: bool = True
    """Set to open a browser instead of only printing the URL."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard of a job, to open in the browser."""

    job: Job
    name: DashboardName


@dataclass(frozen=True, slots=True)
class Checks:
    """A cluster's checks. A failed check makes the command fail."""

    checks: Sequence[Check]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The result or error for each word of a command. After an error, the command continues with
    the next word."""

    outcomes: Iterable[tuple[str, str | JupyterSlurmError]]


def text_of(value: str | Connection | Tunnel | Job) -> str:
    """Return the value as sentences."""
    match value:
        case str():
            return value
        case Connection():
            return connected(value)
        case Tunnel():
            return reach(value)
        case _:
            return card.plain(value, time.time())


def data_of(value: object) -> object:
    """Return the value as data, for programs."""
    match value:
        case Table():
            return value.data
        case Checks():
            return value.checks
        case _:
            return value
