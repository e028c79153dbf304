"""Dashboards of jobs (Ray's, Dask's, TensorBoard): a port of this machine for each that is opened.

A dashboard is reached like a lab: through the socket of node/dashboards.py, at a port with a random
host name, until the job ends. `dashboard_login.py` checks each browser's login.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import (
    ConfigError,
    ForwardError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
)
from jupyter_slurm.foreign import read_json
from jupyter_slurm.jobs.access import lab_host
from jupyter_slurm.jobs.access.dashboard_login import (
    PATH,
    Guard,
    LoginRequestError,
    NotLoggedInError,
)
from jupyter_slurm.jobs.access.lab_host import NotThisLabError
from jupyter_slurm.jobs.access.tunnels import Tunnels
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.readable import visible
from jupyter_slurm.transport.forward import Forward
from jupyter_slurm.wire import DASHBOARDS, DashboardName, Job, JobState, LabEntry

_LOOK_S = 60.0
_NAME_BYTES, _SECRET_BYTES = 10, 32
_MOST_BYTES = 16_384


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the words of node/dashboards.py on one dashboard."""

    token: Annotated[str, msgspec.Meta(pattern=r"\A[\x21-\x3a\x3c-\x7e]{0,512}\Z")] = ""
    """The token that Ray's dashboard asks for; "": it is not Ray's."""
    problem: Annotated[str, msgspec.Meta(max_length=4096)] | None = None
    """The reason why the job has no such dashboard; None: it has."""


class _Open:
    """A dashboard's port here, as it was opened for one attempt of its job."""

    def __init__(self, job: Job, name: DashboardName, told: _Told) -> None:
        host = f"{name}-{job.id}-{secrets.token_hex(_NAME_BYTES)}.localhost"
        self.attempt = job.restarts
        self.told = told
        self.guard = Guard(host, secrets.token_hex(_SECRET_BYTES), told.token)
        self.forward: Forward | None = None


_Key = tuple[str, DashboardName]
"""The job's id, and which of its dashboards."""


class Dashboards:
    """All of the agent's; `close` ends the ports, and the dashboards go on."""

    def __init__(self, book: Book, tunnels: Tunnels, clusters: Clusters) -> None:
        self._book = book
        self._tunnels = tunnels
        self._clusters = clusters
        self._lock = threading.Lock()
        self._open: dict[_Key, _Open] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def dashboard_entry(self, job_id: str, name: DashboardName, wait_s: float = 0.0) -> LabEntry:
        """Return the address and the secret that let a browser in, and open the port there.
        RequestError: the job has no such dashboard or does not run. NotFoundError: the dashboard
        does not answer within `wait_s`."""
        job = self._running(job_id, name)
        opened = self._known(job, name)  # a server that hands on requests asks for each
        if opened is None:
            opened = self._opened(job, name, self._wait(job, name, wait_s))
        assert opened.forward is not None
        port = opened.forward.local_port
        url = f"http://{opened.guard.host}:{port}{PATH}"
        may = self._clusters.may_be_shown_below(job.cluster)
        cookie = opened.guard.cookie if may else ""
        return LabEntry(login_url=url, token=opened.guard.secret, port=port, cookie=cookie)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            ports, self._open = self._open, {}
        for one in ports.values():
            if one.forward is not None:
                one.forward.close()

    def _running(self, job_id: str, name: DashboardName) -> Job:
        job = self._book.job(job_id)
        whose = DASHBOARDS[name]
        if name not in kind_of(job).dashboards(job):
            raise RequestError(f"Job {job.id} has no dashboard of {whose}.")
        if job.state is not JobState.RUNNING:
            raise RequestError(
                f"Job {job.id} is {job.state}, so its dashboard of {whose} does not run."
            )
        return job

    # --- what the job tells ---

    def _wait(self, job: Job, name: DashboardName, wait_s: float) -> _Told:
        """Return what the job tells of its dashboard, once it does. RequestError: there is none."""
        path = JobDir(PurePosixPath(job.job_dir)).dashboards(job.restarts)
        transport = self._clusters.named(job.cluster).transport
        deadline_s = time.monotonic() + wait_s
        while True:
            data = transport.read(path, 0, _MOST_BYTES) or b""
            if data:
                found = read_json(data, dict[str, _Told], _MOST_BYTES).get(name)
                if found is not None and found.problem is None:
                    return found
                if found is not None:
                    raise RequestError(
                        f"The dashboard of {DASHBOARDS[name]} does not run in job {job.id}.",
                        detail=visible(found.problem or ""),
                    )
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                break
            transport.grown({path: len(data)}, wait_s=left_s, wake=threading.Event())
            self._running(job.id, name)
        raise NotFoundError(
            f"The dashboard of {DASHBOARDS[name]} does not answer yet in job {job.id}.",
            hint="Try again in some seconds: it starts with the job's code.",
        )

    # --- the ports ---

    def _known(self, job: Job, name: DashboardName) -> _Open | None:
        """Return the port here; None: there is none, or one of before the job was requeued."""
        with self._lock:
            known = self._open.get((job.id, name))
        return known if known is not None and known.attempt == job.restarts else None

    def _opened(self, job: Job, name: DashboardName, told: _Told) -> _Open:
        """Open the port here, in the place of one of before the job was requeued; return it."""
        key = (job.id, name)
        known = self._known(job, name)
        if known is not None:
            return known
        self._end(key)
        one = _Open(job, name, told)
        with self._lock:
            if self._closed:
                raise ForwardError("The tunnel is closed.")
            if key in self._open:  # somebody else was as fast
                return self._open[key]
            one.forward = Forward(
                self._tunnels.into(job.id, _door_name(key)),
                tell=partial(self._tell, one.guard),
                admit=one.guard.admit,
            )
            self._open[key] = one
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="dashboards", daemon=True)
                self._thread.start()
        return one

    def _tell(self, guard: Guard, sock: socket.socket, error: JupyterSlurmError) -> None:
        if isinstance(error, LoginRequestError):
            guard.log_in(sock)
            return
        status = lab_host.UNAVAILABLE
        if isinstance(error, NotThisLabError):
            status = lab_host.MISDIRECTED
        elif isinstance(error, NotLoggedInError):
            status = lab_host.FORBIDDEN
        lab_host.answer(sock, status, error.message, error.hint)

    def _keep(self) -> None:
        """Close the ports of jobs that have ended; return after the last of them."""
        while not self._book.closed:
            stirs = self._book.stirs
            with self._lock:
                known = list(self._open)
            for key in known:
                if self._is_over(key[0]):
                    self._end(key)
            with self._lock:
                if not self._open:
                    self._thread = None
                    return
            self._book.wait(self._book.stirred_since(stirs), _LOOK_S)

    def _is_over(self, job_id: str) -> bool:
        try:
            return self._book.job(job_id).state.final
        except NotFoundError:
            return True

    def _end(self, key: _Key) -> None:
        with self._lock:
            one = self._open.pop(key, None)
        if one is not None and one.forward is not None:
            one.forward.close()
            self._tunnels.let_go(key[0], _door_name(key))
            with suppress(ConfigError, OSError):  # it leads nowhere any more
                places.lab_page("-".join(key)).unlink(missing_ok=True)


def _door_name(key: _Key) -> str:
    """Return the name of its abstract socket on the node, as node/dashboards.py makes it."""
    return "jslurm-" + "-".join(key)
