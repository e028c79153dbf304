"""Text for connections and tunnels, and the parser of a tunnel's target, for the magics and the
command line.
"""

from __future__ import annotations

from typing import NamedTuple

from jupyter_slurm.api import Api
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.formatting import duration, joined
from jupyter_slurm.wire import (
    DASHBOARDS,
    Connection,
    ConnectionState,
    DashboardName,
    Job,
    Tunnel,
)


class TunnelEnds(NamedTuple):
    """A tunnel's target and its local port (0 for any)."""

    host: str
    port: int
    job_id: str | None
    local_port: int


def connected(connection: Connection) -> str:
    """Return the message after a login."""
    if connection.state is ConnectionState.LOCAL:
        return f"{connection.cluster} is on this machine and does not need a login."
    how = [ways(connection)] if connection.hosts else []
    if connection.round_trip_s is not None:
        how.append(f"{connection.round_trip_s * 1000:.0f} ms round trip")
    return f"Connected to {connection.cluster}{': ' if how else ''}{', '.join(how)}."


def ways(connection: Connection) -> str:
    """Return the hosts of the connection, joined by arrows."""
    return " → ".join(connection.hosts)


CONNECTION_HEAD = ("Cluster", "State", "For", "Hosts", "Round trip", "Note")


def connection_row(connection: Connection, now_s: float) -> tuple[str, ...]:
    """Return a row for a table with the head CONNECTION_HEAD."""
    trip_s = connection.round_trip_s
    return (
        connection.cluster,
        connection.state,
        duration(now_s - connection.since_s),
        ways(connection),
        f"{trip_s * 1000:.0f} ms" if trip_s is not None else "",
        connection.problem.message if connection.problem else "",
    )


TUNNEL_HEAD = ("ID", "Local", "Remote", "Cluster", "Job", "Route", "Open", "Note")


def tunnel_row(tunnel: Tunnel) -> tuple[str, ...]:
    """Return a row for a table with the head TUNNEL_HEAD."""
    return (
        tunnel.id,
        f"127.0.0.1:{tunnel.local_port}",
        _target(tunnel),
        tunnel.cluster,
        tunnel.job_id or "",
        tunnel.route,
        str(tunnel.connections),
        tunnel.problem.message if tunnel.problem else "",
    )


def tunnel_ends(api: Api, aim: str, local_port: str) -> TunnelEnds:
    """Parse `PORT`, `JOB:PORT`, `HOST:PORT`, `/PATH` or `JOB:/PATH` (a Unix socket). A known job
    takes precedence over a host. Raise RequestError for an invalid port, or NotFoundError for an
    unknown job before a path."""
    here = _port(local_port) if local_port != "0" else 0
    if aim.startswith("/"):
        return TunnelEnds(aim, 0, None, here)
    job, _, path = aim.partition(":")
    if path.startswith("/"):
        return TunnelEnds(path, 0, api.job(job).id, here)
    where, _, port = aim.rpartition(":")
    job_id = _job_id(api, where) if where else None
    host = "localhost" if job_id or not where else where.removeprefix("[").removesuffix("]")
    return TunnelEnds(host, _port(port), job_id, here)


def dashboard_aim(api: Api, aim: str) -> tuple[Job, DashboardName] | None:
    """Parse `JOB:ray`, `JOB:dask` or `JOB:tensorboard`; return None for a port. Raise NotFoundError
    if the job is unknown."""
    where, _, word = aim.rpartition(":")
    found = next((name for name in DASHBOARDS if name == word.lower()), None)
    return None if found is None or not where else (api.job(where), found)


def reach(tunnel: Tunnel) -> str:
    """Return the message for an open tunnel."""
    aim = _target(tunnel)
    if tunnel.job_id and tunnel.port:
        aim = f"port {tunnel.port} of job {tunnel.job_id}"
    told = (
        f"127.0.0.1:{tunnel.local_port} forwards to {aim} on {tunnel.cluster} (tunnel {tunnel.id})."
    )
    return joined(told, tunnel.problem.message if tunnel.problem else None)


def _target(tunnel: Tunnel) -> str:
    return f"{tunnel.host}:{tunnel.port}" if tunnel.port else tunnel.host


def _job_id(api: Api, word: str) -> str | None:
    try:
        return api.job(word).id
    except NotFoundError:
        return None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 65_535):
        raise RequestError(f"`{text}` is not a port number from 1 to 65535.")
    return int(text)
