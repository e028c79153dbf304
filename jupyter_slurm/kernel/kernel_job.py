"""The job of a remote kernel: finding or submitting it, following it to its end, and cancelling it.

A separate thread calls the agent and queues events. Each kernel submits one job. It submits another
only if the user has asked for it (`registry.Kernel.released`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, cast

from jupyter_slurm.api import Api, KernelStreams
from jupyter_slurm.errors import (
    AgentError,
    ControllerError,
    JupyterSlurmError,
    LoginNeededError,
    NotFoundError,
    TransportError,
)
from jupyter_slurm.kernel import texts
from jupyter_slurm.kernel.registry import Kernel, KernelRecord
from jupyter_slurm.wire import Connection, ConnectionState, Job, JobSpec

_WAIT_S = 20.0
_PAUSE_S = 1.0


class Client(Api, KernelStreams, Protocol):
    """The calls of the agent that a kernel needs."""


@dataclass(frozen=True, slots=True)
class JobChanged:
    """The job has changed."""

    job: Job


@dataclass(frozen=True, slots=True)
class Retrying:
    """An error that blocks the kernel for now. The kernel retries automatically."""

    error: JupyterSlurmError


@dataclass(frozen=True, slots=True)
class Gone:
    """The reason and advice after a job has ended or failed to start."""

    why: str
    advice: str


@dataclass(frozen=True, slots=True)
class Reachability:
    """The reachability of the cluster. `error` is None if the cluster can be reached."""

    error: JupyterSlurmError | None


Event = JobChanged | Retrying | Gone | Reachability


class KernelJob:
    """The job of one kernel. `make_spec` returns the spec of a job with a given ID. `KernelJob`
    calls `wake` from its thread when there are events."""

    def __init__(
        self,
        connect: Callable[[], Client],
        record: KernelRecord,
        make_spec: Callable[[str], JobSpec],
        new_kernel: Callable[[], Kernel],
        wake: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._record = record
        self._make_spec = make_spec
        self._new_kernel = new_kernel
        self._wake = wake
        self._lock = threading.Lock()
        self._events: deque[Event] = deque()
        self._ends = threading.Event()
        self._api: Client | None = None
        self._thread = threading.Thread(target=self._work, name="job", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Let the thread end after its current call. Do not wait for it."""
        self._ends.set()

    def events(self) -> list[Event]:
        with self._lock:
            found = list(self._events)
            self._events.clear()
        return found

    def cancel(self) -> None:
        """Cancel the job, even if its submission is not confirmed yet. Do not wait for the job's
        end, because Jupyter soon kills a kernel that does not exit. Raise JupyterSlurmError if the
        request to the agent fails."""
        self._ends.set()  # before reading the job's ID, so that no other job follows
        kernel = self._record.kernel
        if kernel is None or not (kernel.submitted or self._api):
            return
        api = self._api or self._connect()
        with suppress(NotFoundError):  # the agent records the cancellation for a later submission
            api.cancel(kernel.job_id)

    # --- the thread ---

    def _work(self) -> None:
        try:
            job = self._found_or_submitted()
            if job is not None:
                self._follow(job)
        except Exception as exc:  # noqa: BLE001 - a worker never dies silently
            self._tell(Gone(*texts.internal_error(exc)))

    def _found_or_submitted(self) -> Job | None:
        while not self._ends.is_set():
            try:
                return self._begin()
            except (AgentError, TransportError, ControllerError) as exc:
                self._tell(Retrying(exc))
                self._wait_for_better()
            except JupyterSlurmError as exc:
                # Do not retry until the user restarts the kernel.
                self._record.forget()
                self._tell(Gone(*texts.refused(exc)))
                return None
        return None

    def _begin(self) -> Job | None:
        api = self._api = self._api or self._connect()
        kernel = self._record.kernel
        if kernel is not None and kernel.submitted:
            try:
                job = api.job(kernel.job_id)
            except NotFoundError:
                job = None
            if job is not None and not (job.state.final and kernel.released):
                self._record.change(released=False)
                return job
            if job is None and not kernel.released:
                self._tell(Gone(*texts.forgotten(kernel.job_id)))
                return None
            kernel = None
        if kernel is None:
            kernel = self._new_kernel()
            self._record.keep(kernel)  # before it is submitted: a retry uses the same ID
        if self._ends.is_set():
            return None
        job = api.submit(self._make_spec(kernel.job_id))
        self._record.change(submitted=True)
        return job

    def _wait_for_better(self) -> None:
        """Wait until the agent reports a change or the wait times out."""
        self._ends.wait(_PAUSE_S)
        if self._api is None or self._ends.is_set():
            return
        try:
            cursor = self._api.changes().cursor
            self._api.changes(cursor, _WAIT_S)
        except JupyterSlurmError:
            self._ends.wait(_PAUSE_S)

    def _follow(self, job: Job) -> None:
        self._tell(JobChanged(job))
        api = cast("Client", self._api)
        cursor = ""
        while not (job.state.final or self._ends.is_set()):
            try:
                changes = api.changes(cursor, _WAIT_S)
            except JupyterSlurmError as exc:
                self._tell(Retrying(exc))
                self._ends.wait(_PAUSE_S)
                continue
            cursor = changes.cursor
            for connection in changes.connections or ():
                # Do not report an attempt to connect before it has ended.
                tried = connection.state is ConnectionState.CONNECTING
                if connection.cluster == job.cluster and not tried:
                    self._tell(Reachability(_hindrance(connection)))
            if job.id in changes.gone:
                self._tell(Gone(*texts.forgotten(job.id)))
                return
            for one in changes.jobs:
                if one.id == job.id and one != job:
                    job = one
                    self._tell(JobChanged(job))

    def _tell(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
        self._wake()


def _hindrance(connection: Connection) -> JupyterSlurmError | None:
    """Return the reason why the connection's cluster cannot be reached, or None."""
    told = connection.problem.message if connection.problem else None
    where = connection.cluster
    match connection.state:
        case ConnectionState.LOGIN_NEEDED | ConnectionState.ASKING:
            return LoginNeededError(f"The connection to {where} is closed until you log in again.")
        case ConnectionState.LOST:
            return TransportError(told or f"The connection to {where} dropped.")
    return None
