"""The open tunnels and their routes.

For a tunnel without a job, the login node connects to the target. The target of a job's tunnel is
an address on the job's node. A connection to it goes either directly from the login node or through
a relay inside the job. If one route fails, the connection tries the other.

`localhost` means the node itself, so a connection to `localhost` tries the relay first. The direct
route connects to the node's external address, where another user may have the same port. Unix
sockets need a relay. For a tunnel without a job, that relay runs on the login node.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import ForwardError, JupyterSlurmError, NotFoundError, RequestError
from jupyter_slurm.jobs.access.node_routes import NodeRoutes, Route, is_loopback, is_path
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.transport import Answered, connect_in_thread
from jupyter_slurm.transport.forward import Connect, Forward
from jupyter_slurm.wire import Job, JobState, Problem, Tunnel

_RUNS = frozenset(
    (JobState.RUNNING, JobState.UNKNOWN, JobState.SUSPENDED, JobState.STOPPED, JobState.SIGNALING)
)
"""States in which a job may be running. A job is UNKNOWN while its cluster does not answer."""
_NOT_FOUND = 2
"""The exit code of getent(1) when it finds nothing."""
_TO_NODE: tuple[Route, ...] = ("direct", "relay")
_TO_LOOPBACK: tuple[Route, ...] = ("relay", "direct")
_TRUSTED = _TO_LOOPBACK
"""The routes, ordered by the precision of their errors, the most precise first."""


class _TunnelTarget(NamedTuple):
    cluster: str
    host: str
    port: int
    job_id: str | None


_KeptTunnel = tuple[_TunnelTarget, int]
"""A target and its local port."""
_NodeSocket = tuple[str, str]
"""A job's ID, and the name of an abstract socket on its node."""


class _Open:
    """An open tunnel."""

    def __init__(self, tunnels: Tunnels, target: _TunnelTarget, local_port: int) -> None:
        self.id = secrets.token_hex(4)
        self.target = target
        self.route: Route = tunnels.order(target)[0]
        """The route that worked last, or the first route to try."""
        self.forward = Forward(partial(tunnels.connect, self), local_port)


class Tunnels:
    """All tunnels of the agent. The next agent reopens them. `forward`, `tunnels` and
    `close_tunnel` are calls of `Api`."""

    def __init__(self, registry: JobRegistry, clusters: Clusters, folder: Path) -> None:
        """Reopen the tunnels listed in `folder`."""
        self._registry = registry
        self._clusters = clusters
        self._file = folder / "tunnels.json"
        self._lock = threading.Lock()
        self._open: dict[_TunnelTarget, _Open] = {}
        self._routes: dict[str, NodeRoutes] = {}
        """Routes to the nodes of jobs, by our job ID."""
        self._login_nodes: dict[str, NodeRoutes] = {}
        """Routes to Unix sockets of login nodes, by cluster."""
        self._worked: dict[tuple[str, bool], Route] = {}
        """The route that worked last, by cluster and by whether the target was a loopback
        address."""
        self._sockets: set[_NodeSocket] = set()
        """The abstract sockets in use by `into` and `prepare`."""
        self._reopen()

    def forward(
        self,
        host: str,
        port: int,
        cluster: str | None = None,
        job_id: str | None = None,
        local_port: int = 0,
    ) -> Tunnel:
        """Return a tunnel to `host:port`; open it if needed. `host` may be the path of a Unix
        socket; `port` is then 0. Raise RequestError if either is invalid. Raise ForwardError if the
        local port is taken, the job is not running, or the login node cannot resolve the host."""
        if is_path(host):
            valid = port == 0 and host.isprintable()
        else:
            valid = 1 <= port <= 65535 and bool(host) and host.isprintable() and " " not in host
        if not valid:
            raise RequestError(f"`{host}:{port}` is not HOST:PORT.")
        job = None if job_id is None else self._running(job_id)
        name = self._clusters.named(cluster if job is None else job.cluster).name
        target = _TunnelTarget(name, host, port, None if job is None else job.id)
        with self._lock:
            known = self._open.get(target)
        if known is None and job is None and not is_path(host):
            self._check_host(target)
        with self._lock:
            known = self._open.get(target)
            if known is None:
                known = self._open[target] = _Open(self, target, local_port)
        if local_port not in (0, known.forward.local_port):
            raise ForwardError(
                f"Local port {known.forward.local_port} already forwards to {host}:{port}.",
                hint=f"Use that port, or close tunnel {known.id} first.",
            )
        self._keep()
        self._tidy()
        return self._tunnel_of(known)

    def _reopen(self) -> None:
        """Reopen the previous agent's tunnels at the same local ports, if their jobs have not ended
        and the ports are free."""
        kept: list[_KeptTunnel] = []
        with suppress(OSError, ValueError):  # missing or damaged
            kept = msgspec.json.decode(self._file.read_bytes(), type=list[_KeptTunnel])
        for target, local_port in kept:
            with suppress(ForwardError, NotFoundError):
                if target.job_id is None or not self._registry.job(target.job_id).state.final:
                    self._open[target] = _Open(self, target, local_port)

    def _keep(self) -> None:
        with self._lock:
            kept = [(one.target, one.forward.local_port) for one in self._open.values()]
            places.write_private(self._file, msgspec.json.encode(kept).decode())

    def into(self, job_id: str, name: str) -> Connect:
        """Return a `Connect` to the abstract socket `name` on the job's node, valid until
        `let_go`."""

        def connect(sock: socket.socket, answered: Answered) -> None:
            connect_in_thread(lambda: self.connect_to_socket(job_id, name, sock), answered)

        with self._lock:
            self._sockets.add((job_id, name))
        return connect

    def connect_to_socket(self, job_id: str, name: str, sock: socket.socket) -> None:
        """Connect `sock` to the abstract socket `name` on the job's node, and wait until it is
        connected. Raises NotListeningError or ForwardError."""
        self._node(self._running(job_id)).connect_to_socket(sock, name)

    def prepare(self, job_id: str, name: str) -> None:
        """Start the relay to the job's node and keep it while the job runs. Raises ForwardError."""
        with self._lock:
            self._sockets.add((job_id, name))
        self._node(self._running(job_id)).prepare(name)

    def let_go(self, job_id: str, name: str) -> None:
        with self._lock:
            self._sockets.discard((job_id, name))
        self._tidy()

    def tunnels(self) -> list[Tunnel]:
        """Return the tunnels, the oldest first."""
        self._tidy()
        return [self._tunnel_of(one) for one in list(self._open.values())]

    def close_tunnel(self, tunnel_id: str) -> None:
        """Close the tunnel. Raise NotFoundError if the ID is unknown."""
        with self._lock:
            found = next((one for one in self._open.values() if one.id == tunnel_id), None)
            if found is None:
                raise NotFoundError(f"Unknown tunnel {tunnel_id!r}.")
            del self._open[found.target]
        self._keep()
        found.forward.close()
        self._tidy()

    def close(self) -> None:
        with self._lock:
            gone, self._open = list(self._open.values()), {}
            self._sockets.clear()
        for one in gone:
            one.forward.close()
        self._tidy()

    def order(self, target: _TunnelTarget) -> tuple[Route, ...]:
        """Return the routes to the target, best first."""
        if is_path(target.host):
            return ("relay",)
        if target.job_id is None:
            return ("direct",)
        loopback = is_loopback(target.host)
        routes = _TO_LOOPBACK if loopback else _TO_NODE
        best = self._worked.get((target.cluster, loopback))
        return tuple(sorted(routes, key=lambda route: route != best))

    def connect(self, tunnel: _Open, sock: socket.socket, answered: Answered) -> None:
        """Connect `sock` by the first route that works; see `Connect`."""
        target = tunnel.target
        if target.job_id is None and is_path(target.host):
            relay = self._login_node(target.cluster).by("relay")
            connect_in_thread(lambda: relay(sock, target.host, target.port), answered)
        elif target.job_id is None:
            transport = self._clusters.named(target.cluster).transport
            transport.connect(sock, target.host, target.port, answered)
        else:
            job = self._running(target.job_id)
            connect_in_thread(lambda: self._connect_into_job(job, tunnel, sock), answered)

    def _connect_into_job(self, job: Job, tunnel: _Open, sock: socket.socket) -> None:
        target = tunnel.target
        failures: dict[Route, ForwardError] = {}
        for route in self.order(target):
            try:
                self._node(job).by(route)(sock, target.host, target.port)
            except ForwardError as exc:
                failures[route] = exc
                continue
            tunnel.route = route
            loopback = is_loopback(target.host)
            if not (loopback and route == "direct"):
                self._worked[target.cluster, loopback] = route
            return
        raise _by_no_route(failures)

    def _check_host(self, target: _TunnelTarget) -> None:
        """Raise ForwardError if the login node cannot resolve the host."""
        try:
            ipaddress.ip_address(target.host)
        except ValueError:
            pass
        else:
            return
        transport = self._clusters.named(target.cluster).transport
        # Without getent, the first connection reports the error.
        done = transport.run(["sh", "-c", 'exec getent ahosts "$1"', "sh", target.host])
        if target.host.startswith("-") or done.returncode == _NOT_FOUND:
            raise ForwardError(
                f"`{target.host}` is neither a known job nor a host that the login node of "
                f"{target.cluster} can resolve.",
                hint="Use a job ID (see `%slurm jobs`), or the host's name on the login node.",
            )

    def _running(self, job_id: str) -> Job:
        """Return the job. Raises NotFoundError, or ForwardError if it is not running."""
        job = self._registry.job(job_id)
        if job.state.final or job.state is JobState.FINISHING:
            raise ForwardError(f"Job {job.id} has ended: it is {job.state}.")
        if job.state not in _RUNS or not job.nodes or job.slurm_id is None:
            raise ForwardError(
                f"Job {job.id} is not running: it is {job.state}.",
                hint="Open the tunnel once the job runs.",
            )
        return job

    def _node(self, job: Job) -> NodeRoutes:
        """Return the routes to the job's node, which a requeue may change."""
        cluster = self._clusters.named(job.cluster)
        assert job.slurm_id is not None
        with self._lock:
            known = self._routes.get(job.id)
            if known is not None and known.cluster is cluster and known.node == job.nodes[0]:
                return known
            fresh = self._routes[job.id] = NodeRoutes(cluster, job.slurm_id, job.nodes[0])
        if known is not None:
            known.close()
        return fresh

    def _login_node(self, name: str) -> NodeRoutes:
        cluster = self._clusters.named(name)
        with self._lock:
            known = self._login_nodes.get(name)
            if known is not None and known.cluster is cluster:
                return known
            fresh = self._login_nodes[name] = NodeRoutes(cluster, None, "the login node")
        if known is not None:
            known.close()
        return fresh

    def _tidy(self) -> None:
        """Close the routes of ended jobs, and routes without tunnels."""
        with self._lock:
            wanted = {*(job_id for job_id, _ in self._sockets)}
            wanted |= {target.job_id for target in self._open if target.job_id is not None}
            gone = [
                job_id
                for job_id in self._routes
                if job_id not in wanted or self._problem_of(job_id) is not None
            ]
            routes = [self._routes.pop(job_id) for job_id in gone]
            used = {one.cluster for one in self._open if one.job_id is None and is_path(one.host)}
            unused = [name for name in self._login_nodes if name not in used]
            routes += [self._login_nodes.pop(name) for name in unused]
        for one in routes:
            one.close()

    def _problem_of(self, job_id: str | None) -> Problem | None:
        """Return the problem that prevents connections to this job, or None."""
        try:
            if job_id is not None:
                self._running(job_id)
        except JupyterSlurmError as exc:
            return exc.problem()
        return None

    def _tunnel_of(self, one: _Open) -> Tunnel:
        target = one.target
        return Tunnel(
            id=one.id,
            cluster=target.cluster,
            host=target.host,
            port=target.port,
            local_port=one.forward.local_port,
            route=one.route,
            job_id=target.job_id,
            connections=one.forward.connections,
            problem=self._problem_of(target.job_id) or one.forward.problem,
        )


def _by_no_route(failures: dict[Route, ForwardError]) -> ForwardError:
    """Return the most precise error, with all errors as its detail."""
    first = next(failures[route] for route in _TRUSTED if route in failures)
    if len(failures) == 1:
        return first
    said = [
        f"{route}: {error.message}" + (f" ({error.detail})" if error.detail else "")
        for route, error in failures.items()
    ]
    return ForwardError(first.message, hint=first.hint, detail="\n".join(said))
