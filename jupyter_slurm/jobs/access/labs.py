"""A local port for each lab until its job ends, and the lab's login.

A lab is submitted like any other job. Its port forwards to the socket of node/lab.py, which accepts
only this user.

Any other user of this machine can connect to the port, or bind the same number while the agent is
not running. Open tabs would then send cookies to that user. A service worker of that user could
remain in the browser and read later requests to the address. An address is therefore never reused:
a lab gets a new random host name whenever its port is opened, and the port forwards only requests
for that name.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from urllib.parse import quote

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import (
    ConfigError,
    ForwardError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
)
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.access.tunnels import Tunnels
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.lab import lab_socket_name
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.transport.forward import Forward
from jupyter_slurm.wire import Job, JobState, Lab, LabEntry, LabStep

_LOOK_S = 60.0
_NAME_BYTES = 10
"""Number of random bytes in a lab's host name."""

_log = logging.getLogger(__name__)


class Labs:
    """All labs of the agent. `close` closes the ports; the labs keep running."""

    def __init__(self, registry: JobRegistry, tunnels: Tunnels, clusters: Clusters) -> None:
        self._registry = registry
        self._tunnels = tunnels
        self._clusters = clusters
        self._lock = threading.Lock()
        self._ports: dict[str, Forward] = {}
        self._prepared: set[str] = set()
        self._limits: dict[str, int] = {}
        """The time limits sent to labs, by job ID."""
        self._closed = False
        self._thread: threading.Thread | None = None

    def remove_pages(self) -> None:
        """Remove the pages of an earlier agent, because their tokens and addresses are no longer
        valid."""
        with suppress(OSError):
            for page in places.lab_pages():
                page.unlink(missing_ok=True)

    def open(self, job: Job, base_url: str = "/") -> None:
        """Open a port for a live lab under a new host name. Keep the lab's earlier port number if
        possible."""
        with self._lock:
            if self._closed or job.id in self._ports:
                return
            host = new_host(job.id)
            port = self._ports[job.id] = self._forward(job, host)
            if self._thread is None:
                thread = threading.Thread(target=self._keep, name="labs", daemon=True)
                thread.start()
                self._thread = thread
        url = f"http://{host}:{port.local_port}{base_url}"
        lab = Lab(url=url, port=port.local_port, base_url=base_url)
        with self._registry.lock():
            now = self._registry.job(job.id)
            if now.lab is not None:
                lab = msgspec.structs.replace(lab, step=now.lab.step)
            if not now.state.final:  # the user may have cancelled the lab
                self._registry.change(job.id, lab=lab)

    def lab_entry(self, job_id: str) -> LabEntry:
        """Return the lab's login address and token. Raises NotFoundError, or RequestError if the
        job is not a lab or the lab is not ready."""
        job = self._registry.job(job_id)
        if not kind_of(job).is_web_server:
            raise RequestError(f"Job {job.id} is not a lab.", hint="See `%slurm lab list`.")
        key = self._registry.store.key(job)
        if job.state.final or job.lab is None or key is None:
            raise RequestError(f"The lab {job.id} has ended ({job.state}).", hint=job.why)
        if job.lab.step is not LabStep.READY:
            raise RequestError(
                f"The lab {job.id} is not ready: it is {job.lab.step}, and its job is {job.state}.",
                hint=job.why or f"Wait for it with `%slurm lab open {job.id}`.",
            )
        # node/lab.py computes the same token.
        token = hmac.new(key.strip(), b"lab", hashlib.sha256).hexdigest()
        lab = job.lab
        start = quote(f"{lab.base_url}lab", safe="")
        return LabEntry(
            login_url=f"{lab.url}login?next={start}",
            token=token,
            port=lab.port,
            base_url=lab.base_url if self._clusters.may_be_shown_below(job.cluster) else "/",
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            ports, self._ports = self._ports, {}
        for port in ports.values():
            port.close()

    def _forward(self, job: Job, host: str) -> Forward:
        opened = partial(
            Forward,
            self._tunnels.into(job.id, lab_socket_name(job.id)),
            host=host,
        )
        if job.lab is not None:
            try:
                return opened(job.lab.port)
            except ForwardError as exc:
                _log.warning("the lab %s gets another port: %s", job.id, exc)
        return opened()

    # --- in the thread ---

    def _keep(self) -> None:
        """Close the ports of labs that have ended. Return once all ports are closed."""
        while not self._registry.closed:
            count = self._registry.change_count
            for job_id in self._over():
                self._end(job_id)
            self._prepare_ways()
            self._tell_limits()
            with self._lock:
                if not self._ports:
                    self._thread = None
                    return
            self._registry.wait(self._registry.changed_since(count), _LOOK_S)

    def _over(self) -> list[str]:
        with self._lock:
            known = list(self._ports)
        return [job_id for job_id in known if self._job(job_id) is None]

    def _job(self, job_id: str) -> Job | None:
        """Return the job; None if it has ended or was forgotten."""
        try:
            job = self._registry.job(job_id)
        except NotFoundError:
            return None
        return None if job.state.final else job

    def _prepare_ways(self) -> None:
        """Start each lab's relay while JupyterLab starts. Otherwise the user would wait for
        JupyterLab first, and then for the relay, which takes as long to start as a Slurm step."""
        with self._lock:
            new = [job_id for job_id in self._ports if job_id not in self._prepared]
        for job_id in new:
            job = self._job(job_id)
            if job is None or job.state is not JobState.RUNNING or job.lab is None:
                continue
            if job.lab.step is LabStep.STARTING:
                self._prepared.add(job_id)
                name = f"relay to {job_id}"
                threading.Thread(
                    target=self._prepare, args=(job_id,), name=name, daemon=True
                ).start()

    def _prepare(self, job_id: str) -> None:
        try:
            self._tunnels.prepare(job_id, lab_socket_name(job_id))
        except JupyterSlurmError as exc:  # the first client retries, and gets the error
            _log.info("cannot start the relay to the lab %s: %s", job_id, exc)

    def _tell_limits(self) -> None:
        """Send each lab its job's time limit, which the lab's page shows. Not every Slurm release
        reports the limit on the node, and `lab extend` changes it."""
        with self._lock:
            known = list(self._ports)
        for job_id in known:
            job = self._job(job_id)
            if job is None or job.state is not JobState.RUNNING or job.limit_s is None:
                continue
            if self._limits.get(job_id) != job.limit_s:
                self._limits[job_id] = job.limit_s
                threading.Thread(
                    target=self._tell_limit,
                    args=(job, job.limit_s),
                    name=f"limit of {job_id}",
                    daemon=True,
                ).start()

    def _tell_limit(self, job: Job, limit_s: int) -> None:
        folder, files = PurePosixPath(job.job_dir), {layout.LIMIT: b"%d\n" % limit_s}
        try:
            self._clusters.named(job.cluster).transport.upload_and_run(folder, files, ["true"])
        except JupyterSlurmError as exc:  # the lab's page then shows an old limit or no limit
            _log.info("cannot send the lab %s its time limit: %s", job.id, exc)

    def _end(self, job_id: str) -> None:
        with self._lock:
            port = self._ports.pop(job_id, None)
        self._prepared.discard(job_id)
        self._limits.pop(job_id, None)
        if port is not None:
            port.close()
            self._tunnels.let_go(job_id, lab_socket_name(job_id))
        with suppress(ConfigError, OSError):  # the page contains a token
            places.lab_page(job_id).unlink(missing_ok=True)
        with suppress(NotFoundError):
            self._registry.change(job_id, lab=None, idle_since_s=None)


def new_host(job_id: str) -> str:
    """Return a new host name. Cookies ignore ports, so servers with the same name would receive
    each other's cookies. Browsers resolve each name below localhost to this machine (RFC 6761), and
    treat each name as a separate site."""
    return f"lab-{job_id}-{secrets.token_hex(_NAME_BYTES)}.localhost"
