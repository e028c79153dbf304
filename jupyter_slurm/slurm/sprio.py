"""sprio: the priority of each waiting job, and the points of each factor.

No release has --json. The separator after a field contains the field's name: a release without a
field (18.08 has neither `%B` nor `%S`) omits it together with its separator, and reports that only
on stderr (parse_format() in src/sprio/opts.c).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from .fields import FIELD_END, RECORD_END, cut_records, optional_float, optional_int

_FIRST: Final = ("%i", "%r", "%Y")
_FACTORS: Final[Mapping[str, str]] = MappingProxyType(
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
"""sprio's format codes by the factor's name. Every release has the last factor, so its field can
end a record."""


class PriorityRow(NamedTuple):
    """A waiting job in one of its partitions; an array is one job.

    `given`: the points for each factor. `nice` is negative if --nice lowers the priority.
    """

    slurm_id: str
    partition: str
    priority: int
    given: Mapping[str, float]


def argv() -> list[str]:
    """Return the argv that queries all users' jobs that could start and that this user is
    allowed to see. From 23.02 on, slurmctld always sends all of them. Held jobs, and jobs that
    wait for another job or a time, have no priority (priority_multifactor.c)."""
    first = "".join(code + FIELD_END for code in _FIRST)
    named = "".join(f"{code}{FIELD_END}{name}{FIELD_END}" for name, code in _FACTORS.items())
    return ["sprio", "-h", "-o", first + named + RECORD_END]


def parse(output: str | bytes) -> list[PriorityRow]:
    """Parse the rows of argv."""
    rows = []
    for slurm_id, partition, priority, rest in cut_records(output, len(_FIRST) + 1):
        values = rest.split(FIELD_END)
        field = dict(zip(values[1::2], values[::2], strict=False))
        known = optional_int(priority)
        if known is not None and slurm_id.isdigit():
            given = MappingProxyType({name: _given(name, field) for name in _FACTORS})
            rows.append(PriorityRow(slurm_id, partition, known, given))
    return rows


def _given(name: str, field: Mapping[str, str]) -> float:
    text = field.get(name, "")
    if name == "tres":  # a text such as cpu=25,mem=50
        parts = (optional_float(part.rpartition("=")[2]) for part in text.split(","))
        return sum(part for part in parts if part is not None)
    number = optional_float(text) or 0.0
    return -number if name == "nice" else number
