"""Routes to the node of a running job, or to Unix sockets of the login node.

Routes open on demand; `tunnels.py` chooses among them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from jupyter_slurm.errors import ForwardError, RequestError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.slurm import srun
from jupyter_slurm.transport import wait_connected
from jupyter_slurm.transport.local import own_socket, splice
from jupyter_slurm.transport.relay import Relay, abstract_socket
from jupyter_slurm.wire import Job, JobState

Route = Literal["direct", "relay"]
ConnectAndWait = Callable[[socket.socket, str, int], None]
"""A call like `Transport.connect` that waits for the connection, and raises an error if the
connection fails."""
_RUNNING = frozenset((JobState.RUNNING, JobState.UNKNOWN, JobState.STOPPED, JobState.SIGNALING))
"""States in which a job may be running. A job is UNKNOWN while its cluster does not answer."""


def place_of(job: Job) -> tuple[str, str]:
    """Return the job's Slurm ID and the node where the job's script runs. Raise RequestError if the
    job is not running."""
    if job.state.final or job.state is JobState.FINISHING:
        raise RequestError(f"Job {job.id} has ended: it is {job.state}.")
    if job.state not in _RUNNING or not job.nodes or job.slurm_id is None:
        raise RequestError(
            f"Job {job.id} is not running: it is {job.state}.",
            hint=f"See the reason with `%slurm why {job.id}`.",
        )
    return job.slurm_id, job.nodes[0]


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback name or address."""
    return host in {"localhost", "::1"} or host.startswith("127.")


def is_path(host: str) -> bool:
    """Return whether `host` is the path of a Unix socket."""
    return host.startswith("/")


class NodeRoutes:
    """Routes to `node`, where the batch script of job `slurm_id` runs. If `slurm_id` is None, these
    are routes to the login node."""

    def __init__(self, cluster: SlurmCluster, slurm_id: str | None, node: str) -> None:
        self.cluster = cluster
        self.slurm_id = slurm_id
        self.node = node
        self._lock = threading.Lock()
        self._relay: Relay | None = None
        self._closed = False

    def by(self, route: Route) -> ConnectAndWait:
        """Return the call that connects by `route`."""
        return self._connect_directly if route == "direct" else self._started_relay().connect

    def connect_to_socket(self, sock: socket.socket, name: str) -> None:
        """Connect `sock` to the abstract socket `name` on the node, and wait until it is connected.
        Raise ForwardError if the socket does not exist or belongs to another user."""
        local = self._local_socket(name)
        if local is None:
            self._started_relay().connect(sock, *abstract_socket(name))
        else:
            splice(sock, local)

    def prepare(self, name: str) -> None:
        """Start the relay if `connect_to_socket` needs it. Raises ForwardError."""
        local = self._local_socket(name)
        if local is None:
            self._started_relay().start()
        else:
            local.close()

    def close(self) -> None:
        """End the relay and its connections."""
        with self._lock:
            self._closed = True
            relay = self._relay
        if relay is not None:
            relay.close()

    def _local_socket(self, name: str) -> socket.socket | None:
        """Return a connection to the abstract socket if it is on this machine; None otherwise."""
        return own_socket(name) if self.cluster.profile.host is None else None

    def _started_relay(self) -> Relay:
        with self._lock:
            if self._closed:
                raise ForwardError("The tunnel is closed.")
            self._relay = self._relay or Relay(
                self._open_stream, self._on_node, self.cluster.profile.python, self.node
            )
            return self._relay

    def _connect_directly(self, sock: socket.socket, host: str, port: int) -> None:
        seen = self.node if is_loopback(host) else host
        wait_connected(partial(self.cluster.transport.connect, sock, seen, port))

    def _open_stream(self, argv: Sequence[str]) -> socket.socket:
        if self.slurm_id is None:
            return self.cluster.transport.open_stream(argv)
        return self.cluster.open_stream("srun", argv)

    def _on_node(self, argv: Sequence[str]) -> Sequence[str]:
        if self.slurm_id is None:
            return argv
        version = self.cluster.srun_version()
        return srun.beside_argv(self.slurm_id, argv, node=self.node, version=version)
