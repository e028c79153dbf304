"""Dashboards of jobs (Ray, Dask, TensorBoard), and a local port for each open dashboard.

A dashboard's port forwards to the socket of node/dashboards.py until the job ends. Like a lab's
port, it accepts only requests for its random host name.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Annotated

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import ConfigError, ForwardError, NotFoundError, RequestError
from jupyter_slurm.formatting import visible
from jupyter_slurm.jobs.access.tunnels import Tunnels
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.transport.forward import Forward
from jupyter_slurm.untrusted_json import read_json
from jupyter_slurm.wire import DASHBOARDS, DashboardName, Job, JobState, LabEntry

_LOOK_S = 60.0
_NAME_BYTES = 16
"""Number of random bytes in a dashboard's host name. Only a browser that knows the name can open
the dashboard."""
_MOST_BYTES = 16_384
_RAY_COOKIE = "ray-authentication-token"
"""The name of the cookie that contains the token of Ray's dashboard (ray/_private/authentication).
"""


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """The entry for a dashboard in the file that node/dashboards.py writes."""

    token: Annotated[str, msgspec.Meta(pattern=r"\A[\x21-\x3a\x3c-\x7e]{0,512}\Z")] = ""
    """The token of Ray's dashboard; "" for other dashboards."""
    problem: Annotated[str, msgspec.Meta(max_length=4096)] | None = None
    """The reason why the dashboard is not running; None if it is running."""


class _Open:
    """A dashboard's port, opened for one attempt of its job."""

    def __init__(self, attempt: int, token: str, forward: Forward) -> None:
        self.attempt = attempt
        self.token = token
        self.forward = forward


_Key = tuple[str, DashboardName]
"""The job's ID and the dashboard's name."""


class Dashboards:
    """All open dashboards of the agent. `close` closes the ports; the dashboards keep running."""

    def __init__(self, registry: JobRegistry, tunnels: Tunnels, clusters: Clusters) -> None:
        self._registry = registry
        self._tunnels = tunnels
        self._clusters = clusters
        self._lock = threading.Lock()
        self._open: dict[_Key, _Open] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def dashboard_entry(self, job_id: str, name: DashboardName, wait_s: float = 0.0) -> LabEntry:
        """Open the dashboard's port, and return its address and Ray's token. Raise RequestError if
        the job does not have this dashboard or is not running. Raise NotFoundError if the dashboard
        does not answer within `wait_s`."""
        job = self._running(job_id, name)
        opened = self._known(job, name)  # called for each forwarded request
        if opened is None:
            opened = self._opened(job, name, self._wait(job, name, wait_s))
        may = self._clusters.may_be_shown_below(job.cluster)
        return LabEntry(
            login_url=f"http://{opened.forward.host}:{opened.forward.local_port}/",
            token=opened.token,
            port=opened.forward.local_port,
            cookie=f"{_RAY_COOKIE}={opened.token}" if may else "",
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            ports, self._open = self._open, {}
        for one in ports.values():
            one.forward.close()

    def _running(self, job_id: str, name: DashboardName) -> Job:
        job = self._registry.job(job_id)
        title = DASHBOARDS[name]
        if name not in kind_of(job).dashboards(job):
            raise RequestError(f"Job {job.id} has no {title} dashboard.")
        if job.state is not JobState.RUNNING:
            raise RequestError(
                f"Job {job.id} is {job.state}, so its {title} dashboard is not running."
            )
        return job

    def _wait(self, job: Job, name: DashboardName, wait_s: float) -> _Report:
        """Wait for the job's report about the dashboard, and return it. Raise RequestError if the
        dashboard or the job is not running, or NotFoundError if the job does not write a report
        within `wait_s`.
        """
        path = JobDir(PurePosixPath(job.job_dir)).dashboards(job.restarts)
        transport = self._clusters.named(job.cluster).transport
        deadline_s = time.monotonic() + wait_s
        while True:
            data = transport.read(path, 0, _MOST_BYTES) or b""
            if data:
                found = read_json(data, dict[str, _Report], _MOST_BYTES).get(name)
                if found is not None and found.problem is None:
                    return found
                if found is not None:
                    raise RequestError(
                        f"The {DASHBOARDS[name]} dashboard is not running in job {job.id}.",
                        detail=visible(found.problem or ""),
                    )
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                break
            transport.grown({path: len(data)}, wait_s=left_s, wake=threading.Event())
            self._running(job.id, name)
        raise NotFoundError(
            f"The {DASHBOARDS[name]} dashboard of job {job.id} does not answer yet.",
            hint="Try again in a few seconds: the dashboard starts with the job's code.",
        )

    # --- the ports ---

    def _known(self, job: Job, name: DashboardName) -> _Open | None:
        """Return the dashboard's open port; None if the port is closed or was opened before a
        requeue."""
        with self._lock:
            known = self._open.get((job.id, name))
        return known if known is not None and known.attempt == job.restarts else None

    def _opened(self, job: Job, name: DashboardName, report: _Report) -> _Open:
        """Open the dashboard's port. First close the port if it was opened before a requeue."""
        key = (job.id, name)
        known = self._known(job, name)
        if known is not None:
            return known
        self._end(key)
        with self._lock:
            if self._closed:
                raise ForwardError("The tunnel is closed.")
            if key in self._open:  # opened by another thread
                return self._open[key]
            forward = Forward(
                self._tunnels.into(job.id, _socket_name(key)),
                host=f"{name}-{job.id}-{secrets.token_hex(_NAME_BYTES)}.localhost",
            )
            one = self._open[key] = _Open(job.restarts, report.token, forward)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="dashboards", daemon=True)
                self._thread.start()
        return one

    def _watch(self) -> None:
        """Close the ports of jobs that have ended. Return once all ports are closed."""
        while not self._registry.closed:
            count = self._registry.change_count
            with self._lock:
                known = list(self._open)
            for key in known:
                if self._registry.is_over(key[0]):
                    self._end(key)
            with self._lock:
                if not self._open:
                    self._thread = None
                    return
            self._registry.wait(self._registry.changed_since(count), _LOOK_S)

    def _end(self, key: _Key) -> None:
        with self._lock:
            one = self._open.pop(key, None)
        if one is not None:
            one.forward.close()
            self._tunnels.let_go(key[0], _socket_name(key))
            with suppress(ConfigError, OSError):  # the page's address no longer works
                places.lab_page("-".join(key)).unlink(missing_ok=True)


def _socket_name(key: _Key) -> str:
    """Return the name of the dashboard's abstract socket on the node, as in node/dashboards.py."""
    return "jslurm-" + "-".join(key)
