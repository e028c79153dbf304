"""scontrol: settings of partitions, and reservations of nodes. `sinfo` reports free resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .fields import lines, optional_int
from .units import parse_duration_s, parse_epoch, parse_nodelist

_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z]*)=(\S*)")
_EVERYBODY: Final = frozenset({"ALL", "(null)", "N/A", ""})


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """A partition's settings in slurm.conf(5). None means that the partition does not set the
    limit."""

    name: str
    limit_s: int | None
    default_time_s: int | None
    max_nodes: int | None
    """Maximum number of nodes for one job."""
    exclusive: bool
    """Jobs get whole nodes (OverSubscribe=EXCLUSIVE)."""
    hidden: bool
    qos: tuple[str, ...]
    accounts: tuple[str, ...]
    """The accounts that may use the partition; () for all."""
    default: bool
    up: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation of nodes for users or maintenance."""

    name: str
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    maintenance: bool


def partitions_argv() -> list[str]:
    """Return the argv that queries every partition, including those hidden from this user."""
    return ["scontrol", "-a", "-o", "show", "partition"]


def reservations_argv() -> list[str]:
    return ["scontrol", "-o", "show", "reservation"]


def parse_partitions(output: str | bytes) -> dict[str, PartitionSettings]:
    """Return the settings of partitions by name, from the output of partitions_argv."""
    found = (_partition(fields) for fields in _records(output, "PartitionName"))
    return {one.name: one for one in found}


def parse_reservations(output: str | bytes) -> list[Reservation]:
    """Parse the output of reservations_argv. Return the reservations that have nodes, earliest
    first."""
    found = (_reservation(fields) for fields in _records(output, "ReservationName"))
    return sorted((one for one in found if one and one.nodes), key=lambda one: one.start_s)


def _records(output: str | bytes, first: str) -> list[dict[str, str]]:
    return [
        # The first value of a key counts, because free texts follow Slurm's own fields.
        dict(reversed(_KEY.findall(line)))
        for line in lines(output)
        if line.startswith(f"{first}=")
    ]


def _partition(fields: Mapping[str, str]) -> PartitionSettings:
    return PartitionSettings(
        name=fields["PartitionName"],
        limit_s=_whole_s(fields.get("MaxTime", "")),
        default_time_s=_whole_s(fields.get("DefaultTime", "")),
        max_nodes=optional_int(fields.get("MaxNodes", "")),
        exclusive=fields.get("OverSubscribe") == "EXCLUSIVE",
        hidden=fields.get("Hidden") == "YES",
        qos=_names(fields.get("AllowQos", "")),
        accounts=_names(fields.get("AllowAccounts", "")),
        default=fields.get("Default") == "YES",
        up=fields.get("State") == "UP",
    )


def _reservation(fields: Mapping[str, str]) -> Reservation | None:
    start_s, end_s = (parse_epoch(fields.get(key, "")) for key in ("StartTime", "EndTime"))
    if start_s is None or end_s is None:
        return None
    try:
        nodes = tuple(parse_nodelist(fields.get("Nodes", "")))
    except ValueError:
        nodes = ()
    return Reservation(
        name=fields["ReservationName"],
        start_s=start_s,
        end_s=end_s,
        nodes=nodes,
        maintenance="MAINT" in fields.get("Flags", "").split(","),
    )


def _names(text: str) -> tuple[str, ...]:
    return () if text in _EVERYBODY else tuple(text.split(","))


def _whole_s(text: str) -> int | None:
    seconds = parse_duration_s(text)
    return None if seconds is None else int(seconds)
