"""sprio and sshare: why a waiting job stands where it stands in the queue.

Both answer only where the site uses the multifactor priority plugin; sshare needs accounting too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .fields import lines, optional_float, optional_int, record_format, split_records

_SPRIO_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "slurm_id": "%i",
        "partition": "%r",
        "priority": "%Y",
        "age": "%A",
        "fairshare": "%F",
        "job_size": "%J",
        "partition_factor": "%P",
        "qos": "%Q",
        "nice": "%N",
        "tres": "%T",
    }
)
_SSHARE_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "account": "Account",
        "user": "User",
        "raw_shares": "RawShares",
        "norm_shares": "NormShares",
        "raw_usage": "RawUsage",
        "effective_usage": "EffectvUsage",
        "fairshare": "FairShare",
    }
)


@dataclass(frozen=True, slots=True)
class PriorityRow:
    """A waiting job's priority in one partition and the weighted parts that it is the sum of."""

    slurm_id: str
    partition: str
    priority: int
    age: int
    fairshare: int
    job_size: int
    partition_factor: int
    qos: int
    nice: int
    tres: str


@dataclass(frozen=True, slots=True)
class ShareRow:
    """An association's share. `fairshare`: 1 unused, 0.5 as much as its share, 0 far more."""

    account: str
    user: str
    raw_shares: int | None
    norm_shares: float | None
    raw_usage: float | None
    effective_usage: float | None
    fairshare: float | None


def sprio_argv(slurm_id: str) -> list[str]:
    """A job's priority in each of its partitions; nothing for one that does not wait.

    One job at a time: sprio of 24.11 refuses every list of two (_build_job_list() in
    src/sprio/opts.c reads the whole list as one id).
    """
    return ["sprio", "-h", "-j", slurm_id, "-o", record_format(_SPRIO_FIELDS)]


def sshare_argv() -> list[str]:
    """The caller's own associations."""
    return ["sshare", "-n", "-P", "-U", "-o", ",".join(_SSHARE_FIELDS.values())]


def parse_sprio(output: str | bytes) -> list[PriorityRow]:
    """The rows of sprio_argv."""
    return [_priority(record) for record in split_records(output, tuple(_SPRIO_FIELDS))]


def parse_sshare(output: str | bytes) -> list[ShareRow]:
    """The rows of sshare_argv."""
    rows: list[ShareRow] = []
    for line in lines(output):
        values = line.split("|")
        if len(values) == len(_SSHARE_FIELDS):
            rows.append(_share(dict(zip(_SSHARE_FIELDS, values, strict=True))))
    return rows


def _priority(field: Mapping[str, str]) -> PriorityRow:
    def number(name: str) -> int:
        return int(optional_float(field[name]) or 0)

    return PriorityRow(
        slurm_id=field["slurm_id"].strip(),
        partition=field["partition"].strip(),
        priority=number("priority"),
        age=number("age"),
        fairshare=number("fairshare"),
        job_size=number("job_size"),
        partition_factor=number("partition_factor"),
        qos=number("qos"),
        nice=number("nice"),
        tres=field["tres"].strip(),
    )


def _share(field: Mapping[str, str]) -> ShareRow:
    return ShareRow(
        account=field["account"].strip(),
        user=field["user"].strip(),
        raw_shares=optional_int(field["raw_shares"]),
        norm_shares=optional_float(field["norm_shares"]),
        raw_usage=optional_float(field["raw_usage"]),
        effective_usage=optional_float(field["effective_usage"]),
        fairshare=optional_float(field["fairshare"]),
    )
