"""PURE. The caller of a command's function, and the values that the functions return."""

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
    """The front end that runs a command. Prompts, logins and waiting are its own."""

    used_session: Job | None
    """The session in use, as it was when it was chosen; None: the newest."""

    @property
    def api(self) -> Api:
        """Return the agent; a call that needs a login asks for it."""

    @property
    def cluster(self) -> str | None:
        """Return the cluster for lines that name none. None: the profiles' default."""

    @property
    def used_cluster(self) -> str | None:
        """Return the cluster that the user chose for later lines."""

    @property
    def notebook(self) -> str | None: ...

    @property
    def owner(self) -> Owner: ...

    @property
    def is_saved(self) -> bool:
        """Tell whether what is shown is saved in a notebook, which others read."""

    def with_defaults(self, words: Sequence[str]) -> list[str]:
        """Return the options of a job after the user's defaults."""

    def call(self, call: Callable[[], _R], cluster: str | None) -> _R:
        """Make a call that may take long, and that the user can interrupt."""

    def submit(self, spec: JobSpec, request: Request) -> Job: ...

    def log_in(self, cluster: str | None) -> Connection: ...

    def confirm(self, consequence: str, question: str) -> bool:
        """Ask the user. RequestError: they cannot be asked here, or must say --yes."""

    def remove_pages(self, jobs: Sequence[Job]) -> None:
        """Remove the pages that open the labs of ended jobs."""

    def warn(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Started:
    """A job that the command started: the front end follows it, unless it is detached."""

    job: Job
    request: Request


@dataclass(frozen=True, slots=True)
class StartedSession(Started):
    """A session: the front end waits until it is ready."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab to open when it is ready."""

    job: Job
    waits: bool = True
    browser: bool = True
    """Open a browser, rather than print the address alone."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard of a job, to open in the browser."""

    job: Job
    name: DashboardName


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a cluster. One that failed fails the command."""

    checks: Sequence[Check]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """For each word, what the command did, or why it could not. One that failed stops no other."""

    outcomes: Iterable[tuple[str, str | JupyterSlurmError]]


def text_of(value: str | Connection | Tunnel | Job) -> str:
    """Return the sentences that show the value."""
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
    """Return the value's data, for programs."""
    match value:
        case Table():
            return value.data
        case Checks():
            return value.checks
        case _:
            return value
