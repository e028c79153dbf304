"""How a cluster is reached, in sentences of `doctor`. PURE."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_slurm.readable import counted
from jupyter_slurm.transport.ssh.route import NO_SSH, has_openssh
from jupyter_slurm.wire import Check, Connection, ConnectionState

_FEW_SESSIONS = 4


def examine_way(
    connection: Connection,
    sessions: int | None,
) -> Iterator[Check]:
    """Check how the cluster is reached. `sessions`: how many at a time its sshd allows."""
    if connection.state is ConnectionState.LOCAL:
        return
    hops = " → ".join(connection.hosts)
    trip = connection.round_trip_s
    there = "" if trip is None else f", {trip * 1000:.0f} ms there and back"
    yield Check(
        ok=connection.state is ConnectionState.OPEN,
        sentence=f"The connection is {connection.state.value}: {hops}{there}.",
        hint=connection.problem.message if connection.problem else None,
    )
    if sessions is not None and sessions < _FEW_SESSIONS:
        yield Check(
            ok=None,
            sentence=f"Its sshd allows {counted(sessions, 'session')} at a time on a connection "
            "(MaxSessions). More have to wait.",
            hint="Everything works, but large transfers and many logs at once are slower.",
        )
    if not has_openssh():
        yield Check(ok=None, sentence=NO_SSH)
