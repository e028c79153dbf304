"""sacctmgr: the accounts and QOS that a user may use, and their limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .fields import lines, optional_int
from .units import parse_duration_s, parse_tres

_SHOW = ("sacctmgr", "--noheader", "--parsable2", "show")
_NO_TRES: Mapping[str, float] = MappingProxyType({})
_OF_ASSOCIATION = (
    "cluster,defaultaccount,account,partition,qos,defaultqos,"
    "maxwall,maxtres,grptres,maxjobs,grpjobs,maxsubmit,grpsubmit"
)
_OF_ACCOUNT = _OF_ASSOCIATION.replace("defaultaccount", "user")
_OF_QOS = "name,flags,maxwall,maxtres,maxtrespu,grptres,maxjobspu,grpjobs,maxsubmitpu,grpsubmit"

_BEYOND: Mapping[str, str] = {"PartitionTimeLimit": "time", "PartitionMaxNodes": "nodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Limits; those that are not set are None or missing, memory is in MiB.

    `…_per_user`: for all running jobs of a user; `…_in_all`: for all that run under it.
    """

    limit_s: int | None = None
    """MaxWall."""
    tres_per_job: Mapping[str, float] = field(default_factory=lambda: _NO_TRES)
    tres_per_user: Mapping[str, float] = field(default_factory=lambda: _NO_TRES)
    tres_in_all: Mapping[str, float] = field(default_factory=lambda: _NO_TRES)
    jobs_per_user: int | None = None
    jobs_in_all: int | None = None
    queued_per_user: int | None = None
    """Running and waiting: MaxSubmitJobs."""
    queued_in_all: int | None = None


@dataclass(frozen=True, slots=True)
class Association:
    """A user with an account, or an account; `partition` None: with every partition."""

    cluster: str
    account: str
    partition: str | None
    qos: tuple[str, ...]
    default_qos: str | None
    default: bool
    """The association of jobs that name no account."""
    allowed: Allowed


@dataclass(frozen=True, slots=True)
class QosRow:
    name: str
    denies: bool
    """Whether Slurm refuses a job over a limit (DenyOnLimit); else the job waits for ever."""
    over_partition: bool
    """Whether its limits override those of a partition's QOS (OverPartQOS)."""
    beyond: tuple[str, ...]
    """The limits of a partition that do not apply to its jobs (PartitionTimeLimit,
    PartitionMaxNodes): `time`, `nodes`."""
    allowed: Allowed


def associations_argv(user: str) -> list[str]:
    """Ask for a user's associations; the Max limits of the accounts above apply to them too."""
    return [*_SHOW, "user", user, "withassoc", f"format={_OF_ASSOCIATION}"]


def accounts_argv(accounts: Iterable[str]) -> list[str]:
    """Ask for the associations of accounts, without the users in them."""
    return [*_SHOW, "assoc", f"account={','.join(accounts)}", "user=", f"format={_OF_ACCOUNT}"]


def qos_argv() -> list[str]:
    return [*_SHOW, "qos", f"format={_OF_QOS}"]


def parse_associations(output: str | bytes) -> list[Association]:
    """Parse the lines of associations_argv and of accounts_argv."""
    return [_association(*fields) for fields in _lines(output, _OF_ASSOCIATION)]


def parse_qos(output: str | bytes) -> list[QosRow]:
    """Parse the lines of qos_argv."""
    return [_qos(*fields) for fields in _lines(output, _OF_QOS)]


def _lines(output: str | bytes, names: str) -> list[list[str]]:
    cut = (line.split("|") for line in lines(output))
    return [fields for fields in cut if len(fields) == names.count(",") + 1]


def _association(
    cluster: str,
    default: str,
    account: str,
    partition: str,
    qos: str,
    default_qos: str,
    wall: str,
    per_job: str,
    in_all: str,
    jobs: str,
    jobs_in_all: str,
    queued: str,
    queued_in_all: str,
) -> Association:
    return Association(
        cluster=cluster,
        account=account,
        partition=partition or None,
        qos=tuple(name for name in qos.split(",") if name),
        default_qos=default_qos or None,
        default=default == account,
        allowed=Allowed(
            limit_s=_whole_s(wall),
            tres_per_job=MappingProxyType(parse_tres(per_job)),
            tres_in_all=MappingProxyType(parse_tres(in_all)),
            jobs_per_user=optional_int(jobs),
            jobs_in_all=optional_int(jobs_in_all),
            queued_per_user=optional_int(queued),
            queued_in_all=optional_int(queued_in_all),
        ),
    )


def _qos(
    name: str,
    flags: str,
    wall: str,
    per_job: str,
    per_user: str,
    in_all: str,
    jobs: str,
    jobs_in_all: str,
    queued: str,
    queued_in_all: str,
) -> QosRow:
    return QosRow(
        name=name,
        denies="DenyOnLimit" in flags.split(","),
        over_partition="OverPartQOS" in flags.split(","),
        beyond=tuple(what for flag, what in _BEYOND.items() if flag in flags.split(",")),
        allowed=Allowed(
            limit_s=_whole_s(wall),
            tres_per_job=MappingProxyType(parse_tres(per_job)),
            tres_per_user=MappingProxyType(parse_tres(per_user)),
            tres_in_all=MappingProxyType(parse_tres(in_all)),
            jobs_per_user=optional_int(jobs),
            jobs_in_all=optional_int(jobs_in_all),
            queued_per_user=optional_int(queued),
            queued_in_all=optional_int(queued_in_all),
        ),
    )


def _whole_s(text: str) -> int | None:
    seconds = parse_duration_s(text)
    return None if seconds is None else int(seconds)
