"""The tunnels that are open, and by which route each gets to its target.

Without a job: from the login machine. With one, the target is meant as the job's node sees it, and
there are two routes: directly from the login machine, and by a relay that runs inside the job.
Where one fails the other is tried, at each new connection.

`localhost` is the node's own, to which only the relay leads. The same port of the node, seen
from outside, may be another user's: there the direct route is the last. To a Unix socket only a
relay leads, without a job one on the login node.
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
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.transport.connect_callbacks import Answered, call_back
from jupyter_slurm.transport.forward import Carry, Forward
from jupyter_slurm.wire import Job, JobState, Problem, Tunnel

_RUNS = frozenset(
    (JobState.RUNNING, JobState.UNKNOWN, JobState.SUSPENDED, JobState.STOPPED, JobState.SIGNALING)
)
"""An UNKNOWN job may well run: it is the cluster that does not answer."""
_NOT_FOUND = 2
"""The exit code of getent(1) when it finds nothing."""
_TO_NODE: tuple[Route, ...] = ("direct", "relay")
_TO_LOOPBACK: tuple[Route, ...] = ("relay", "direct")
_TRUSTED = _TO_LOOPBACK
"""Whose refusal tells most."""


class _TunnelTarget(NamedTuple):
    cluster: str
    host: str
    port: int
    job_id: str | None


_KeptTunnel = tuple[_TunnelTarget, int]
"""With its local port."""
_Door = tuple[str, str]
"""The id of a job, and the name of an abstract socket on its node."""


class _Open:
    """A tunnel, as it was opened."""

    def __init__(self, room: Tunnels, target: _TunnelTarget, local_port: int) -> None:
        self.id = secrets.token_hex(4)
        self.target = target
        self.route: Route = room.order(target)[0]
        """The one that worked last, or else that is tried first."""
        self.forward = Forward(partial(room.carry, self), local_port)


class Tunnels:
    """All of the agent's. `close` ends them, and the next agent opens them again. The calls are
    those of `Api`."""

    def __init__(self, book: Book, clusters: Clusters, folder: Path) -> None:
        """`folder`: where the list of open tunnels is kept."""
        self._book = book
        self._clusters = clusters
        self._file = folder / "tunnels.json"
        self._lock = threading.Lock()
        self._open: dict[_TunnelTarget, _Open] = {}
        self._routes: dict[str, NodeRoutes] = {}
        """By our job's id."""
        self._login_nodes: dict[str, NodeRoutes] = {}
        """By cluster: to Unix sockets of its login node."""
        self._worked: dict[tuple[str, bool], Route] = {}
        """By cluster, and whether the target was the node's loopback."""
        self._doors: set[_Door] = set()
        """Those that `into` leads to."""
        self._reopen()

    def forward(
        self,
        host: str,
        port: int,
        cluster: str | None = None,
        job_id: str | None = None,
        local_port: int = 0,
    ) -> Tunnel:
        """Return a tunnel to `host:port`, opened if need be; `host` may be the path of a Unix
        socket, and `port` is then 0. ForwardError: the local port is taken, the job does not run,
        or the login machine does not find the host."""
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
                f"{host}:{port} is at port {known.forward.local_port} of this machine already.",
                hint=f"Use that one, or close tunnel {known.id} first.",
            )
        self._keep()
        self._tidy()
        return self._tunnel_of(known)

    def _reopen(self) -> None:
        """Open the tunnels of an agent that has ended, at the ports that they had: for jobs that
        have not ended, where the port is free."""
        kept: list[_KeptTunnel] = []
        with suppress(OSError, ValueError):  # there are none, or the file is damaged
            kept = msgspec.json.decode(self._file.read_bytes(), type=list[_KeptTunnel])
        for target, local_port in kept:
            with suppress(ForwardError, NotFoundError):
                if target.job_id is None or not self._book.job(target.job_id).state.final:
                    self._open[target] = _Open(self, target, local_port)

    def _keep(self) -> None:
        with self._lock:
            kept = [(one.target, one.forward.local_port) for one in self._open.values()]
            places.write_private(self._file, msgspec.json.encode(kept).decode())

    def into(self, job_id: str, door: str) -> Carry:
        """Return a `Carry` to the abstract socket `door` on the job's node, until `let_go`."""

        def carry(sock: socket.socket, answered: Answered) -> None:
            call_back(lambda: self.connect(job_id, door, sock), answered)

        with self._lock:
            self._doors.add((job_id, door))
        return carry

    def connect(self, job_id: str, door: str, sock: socket.socket) -> None:
        """Connect `sock` to the abstract socket `door` on the job's node, and wait.
        NotListeningError; ForwardError."""
        self._node(self._running(job_id)).carry_to_door(sock, door)

    def prepare(self, job_id: str, door: str) -> None:
        """Return once the way there stands, and keep it for as long as the job runs. ForwardError:
        it cannot."""
        with self._lock:
            self._doors.add((job_id, door))
        self._node(self._running(job_id)).prepare_door(door)

    def let_go(self, job_id: str, door: str) -> None:
        with self._lock:
            self._doors.discard((job_id, door))
        self._tidy()

    def tunnels(self) -> list[Tunnel]:
        """Return the tunnels, the oldest first."""
        self._tidy()
        return [self._tunnel_of(one) for one in list(self._open.values())]

    def close_tunnel(self, tunnel_id: str) -> None:
        """Close the tunnel. NotFoundError: no tunnel has this id."""
        with self._lock:
            found = next((one for one in self._open.values() if one.id == tunnel_id), None)
            if found is None:
                raise NotFoundError(f"There is no tunnel {tunnel_id!r}.")
            del self._open[found.target]
        self._keep()
        found.forward.close()
        self._tidy()

    def close(self) -> None:
        with self._lock:
            gone, self._open = list(self._open.values()), {}
            self._doors.clear()
        for one in gone:
            one.forward.close()
        self._tidy()

    def order(self, target: _TunnelTarget) -> tuple[Route, ...]:
        """Return the routes to the target, the best first."""
        if is_path(target.host):
            return ("relay",)
        if target.job_id is None:
            return ("direct",)
        loopback = is_loopback(target.host)
        routes = _TO_LOOPBACK if loopback else _TO_NODE
        best = self._worked.get((target.cluster, loopback))
        return tuple(sorted(routes, key=lambda route: route != best))

    def carry(self, tunnel: _Open, sock: socket.socket, answered: Answered) -> None:
        """Connect `sock` by the first route that gets through; see `Carry`."""
        target = tunnel.target
        if target.job_id is None and is_path(target.host):
            relay = self._login_node(target.cluster).verb("relay")
            call_back(lambda: relay(sock, target.host, target.port), answered)
        elif target.job_id is None:
            transport = self._clusters.named(target.cluster).transport
            transport.carry(sock, target.host, target.port, answered)
        else:
            job = self._running(target.job_id)
            call_back(lambda: self._carry_into(job, tunnel, sock), answered)

    def _carry_into(self, job: Job, tunnel: _Open, sock: socket.socket) -> None:
        target = tunnel.target
        failures: dict[Route, ForwardError] = {}
        for route in self.order(target):
            try:
                self._node(job).verb(route)(sock, target.host, target.port)
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
        """Raise ForwardError where the login machine finds no host of that name."""
        try:
            ipaddress.ip_address(target.host)
        except ValueError:
            pass
        else:
            return
        transport = self._clusters.named(target.cluster).transport
        # Where there is no getent, the first connection finds out.
        done = transport.run(["sh", "-c", 'exec getent ahosts "$1"', "sh", target.host])
        if target.host.startswith("-") or done.returncode == _NOT_FOUND:
            raise ForwardError(
                f"`{target.host}` is neither a job that is known here nor a host that the login "
                f"machine of {target.cluster} finds.",
                hint="`%slurm jobs` lists jobs; a host is named as the login machine knows it.",
            )

    def _running(self, job_id: str) -> Job:
        """Return the job. NotFoundError; ForwardError: it does not run."""
        job = self._book.job(job_id)
        if job.state.final or job.state is JobState.FINISHING:
            raise ForwardError(f"Job {job.id} has ended: it is {job.state}.")
        if job.state not in _RUNS or not job.nodes or job.slurm_id is None:
            raise ForwardError(
                f"Job {job.id} does not run: it is {job.state}.",
                hint="A tunnel into a job works as soon as the job runs.",
            )
        return job

    def _node(self, job: Job) -> NodeRoutes:
        """Return the routes to the job's node, which may be another after a requeue."""
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
        """Close the routes that no tunnel uses, or whose job does not run any more."""
        with self._lock:
            wanted = {*(job_id for job_id, _ in self._doors)}
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
        """Return why no connection into this job can be made now; None: one can."""
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
            opened_s=one.forward.opened_s,
            connections=one.forward.connections,
            problem=self._problem_of(target.job_id) or one.forward.problem,
        )


def _by_no_route(failures: dict[Route, ForwardError]) -> ForwardError:
    """Return the error of the route nearest to the target, with all errors as its detail."""
    first = next(failures[route] for route in _TRUSTED if route in failures)
    if len(failures) == 1:
        return first
    said = [
        f"{route}: {error.message}" + (f" ({error.detail})" if error.detail else "")
        for route, error in failures.items()
    ]
    return ForwardError(first.message, hint=first.hint, detail="\n".join(said))
