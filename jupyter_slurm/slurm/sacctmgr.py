"""sacctmgr: the accounts and QOS that a person may use, and what a QOS allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .fields import decode
from .units import parse_duration_s, parse_tres

_SHOW = ("sacctmgr", "--noheader", "--parsable2", "show")


@dataclass(frozen=True, slots=True)
class Association:
    account: str
    qos: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QosRow:
    """A QOS; limits that are not set are None or not there, memory is in MiB."""

    name: str
    limit_s: int | None
    """MaxWall."""
    denies: bool
    """A job over a limit is refused (DenyOnLimit), and does not wait for ever."""
    tres_per_job: Mapping[str, float]
    tres_per_user: Mapping[str, float]


def associations_argv(user: str) -> list[str]:
    return [*_SHOW, "assoc", f"user={user}", "format=account,qos"]


def qos_argv() -> list[str]:
    return [*_SHOW, "qos", "format=name,maxwall,flags,maxtres,maxtrespu"]


def parse_associations(output: str | bytes) -> list[Association]:
    """A line for each of associations_argv."""
    lines = (line.partition("|") for line in decode(output).splitlines())
    return [
        Association(account, tuple(name for name in names.split(",") if name))
        for account, bar, names in lines
        if bar
    ]


def parse_qos(output: str | bytes) -> list[QosRow]:
    """A line for each of qos_argv."""
    lines = (line.split("|") for line in decode(output).splitlines())
    return [_qos(*fields) for fields in lines if len(fields) == 5]


def _qos(name: str, wall: str, flags: str, per_job: str, per_user: str) -> QosRow:
    limit_s = parse_duration_s(wall)
    return QosRow(
        name=name,
        limit_s=None if limit_s is None else int(limit_s),
        denies="DenyOnLimit" in flags.split(","),
        tres_per_job=MappingProxyType(parse_tres(per_job)),
        tres_per_user=MappingProxyType(parse_tres(per_user)),
    )
