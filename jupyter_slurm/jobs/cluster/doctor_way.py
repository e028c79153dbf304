"""How a cluster is reached, in sentences of `doctor`. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from jupyter_slurm.wire import Check, Connection, ConnectionState, Message, Text

_FEW_SESSIONS = 4


def examine_way(
    connection: Connection,
    sessions: int | None,
    remarks: Mapping[str, tuple[Text, ...]] = MappingProxyType({}),
) -> Iterator[Check]:
    """Check how the cluster is reached. `sessions`: how many at a time its sshd was found to allow;
    `remarks`: by host, what its SSH configuration asks for and is not done."""
    if connection.state is ConnectionState.LOCAL:
        return
    hops = " → ".join(connection.hosts)
    trip = connection.round_trip_s
    there = "" if trip is None else Message.of(", {ms} ms there and back", ms=f"{trip * 1000:.0f}")
    master = Message.of(", over the connection that the system's ssh holds")
    yield Check(
        ok=connection.state is ConnectionState.OPEN,
        sentence=Message.of(
            "The connection is {state}: {hops}{there}{master}.",
            state=Message(connection.state.value),
            hops=hops,
            there=there,
            master=master if connection.via_openssh else "",
        ),
        hint=connection.problem.message if connection.problem else None,
    )
    if sessions is not None and sessions < _FEW_SESSIONS:
        yield Check(
            ok=None,
            sentence=Message.of(
                "Its sshd allows {sessions} sessions at a time on a connection (MaxSessions): what "
                "needs more waits its turn."
                if sessions > 1
                else "Its sshd allows {sessions} session at a time on a connection (MaxSessions): "
                "what needs more waits its turn.",
                sessions=sessions,
            ),
            hint="Everything works, large transfers and many logs at once are slower.",
        )
    if not connection.via_openssh:
        yield from _configuration_of_ssh(remarks)


def _configuration_of_ssh(remarks: Mapping[str, tuple[Text, ...]]) -> Iterator[Check]:
    for remark in dict.fromkeys(one for all_of_host in remarks.values() for one in all_of_host):
        hosts = ", ".join(host for host, found in remarks.items() if remark in found)
        yield Check(
            ok=None,
            sentence=Message.of(
                "SSH configuration of {hosts}: {remark}",
                hosts=hosts,
                remark=remark if isinstance(remark, Message) else Message(remark),
            ),
        )
