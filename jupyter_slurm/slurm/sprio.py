"""sprio: the priority of each job that waits, and what each factor gives to it.

There is no --json in any release. The separator behind a field holds the field's name: a release
that does not know a field (18.08 has neither `%B` nor `%S`) leaves it out with what follows it, and
says so on stderr only (parse_format() in src/sprio/opts.c).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from .fields import FIELD_END, RECORD_END, cut_records, optional_float, optional_int

_FIRST: Final = ("%i", "%u", "%r", "%Y")
_WEIGHTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "age": "%A",
        "fairshare": "%F",
        "jobsize": "%J",
        "partition": "%P",
        "qos": "%Q",
        "association": "%B",
        "site": "%S",
        "tres": "%T",
        "nice": "%N",
    }
)
"""The factors' parts, by Slurm's names; every release has the last one."""
_SHARES: Final[Mapping[str, str]] = MappingProxyType({"age": "%a", "fairshare": "%f"})
"""The factors that change while a job waits, from 0 to 1 (`%A` is `%a` times the weight)."""
_SHARE: Final = "of "
_ACCOUNT: Final = "account"
_NO_PLUGIN: Final = "not running a supported priority plugin"


class PriorityRow(NamedTuple):
    """A job that waits, in one of its partitions; an array is one job.

    `given` has what is added to the priority: `nice` is negative where --nice lowers it. `shares`
    has `age` and `fairshare`, 0 to 1. `account`: None before 23.02.
    """

    slurm_id: str
    user: str
    partition: str
    priority: int
    given: Mapping[str, float]
    shares: Mapping[str, float]
    account: str | None = None


def argv() -> list[str]:
    """Ask for the jobs of all users that could start, as far as this user may see them.

    slurmctld sends all of them from 23.02 on, whatever sprio was told to show; held jobs and those
    that wait for another or for a time have no priority (priority_multifactor.c).
    """
    shares = {_SHARE + name: code for name, code in _SHARES.items()}
    fields = {_ACCOUNT: "%o", **shares, **_WEIGHTED}
    first = "".join(code + FIELD_END for code in _FIRST)
    named = "".join(f"{code}{FIELD_END}{name}{FIELD_END}" for name, code in fields.items())
    return ["sprio", "-h", "-o", first + named + RECORD_END]


def parse(output: str | bytes) -> list[PriorityRow]:
    """Parse the rows of argv."""
    rows = []
    for slurm_id, user, partition, priority, rest in cut_records(output, len(_FIRST) + 1):
        values = rest.split(FIELD_END)
        field = dict(zip(values[1::2], values[::2], strict=False))
        known = optional_int(priority)
        if known is None or not slurm_id.isdigit():
            continue
        rows.append(
            PriorityRow(
                slurm_id=slurm_id,
                user=user,
                partition=partition,
                priority=known,
                given=MappingProxyType({name: _given(name, field) for name in _WEIGHTED}),
                shares=MappingProxyType(
                    {name: optional_float(field.get(_SHARE + name, "")) or 0.0 for name in _SHARES}
                ),
                account=field.get(_ACCOUNT),
            )
        )
    return rows


def is_unweighted(stderr: str) -> bool:
    """Return whether sprio has refused because the cluster weighs no priorities
    (`PriorityType=priority/basic`)."""
    return _NO_PLUGIN in " ".join(stderr.split())


def _given(name: str, field: Mapping[str, str]) -> float:
    text = field.get(name, "")
    if name == "tres":  # cpu=25,mem=50
        parts = (optional_float(part.rpartition("=")[2]) for part in text.split(","))
        return sum(part for part in parts if part is not None)
    number = optional_float(text) or 0.0
    return -number if name == "nice" else number
