"""sstat: the current usage of a running job's steps. It sends a request to each of the job's
nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .fields import lines, optional_int
from .units import parse_duration_s, parse_tres

_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "step_id": "JobID",
        "tasks": "NTasks",
        "average_cpu": "AveCPU",
        "average_rss": "AveRSS",
    }
)
_SEPARATOR: Final = "|"
"""The separator of fields. sstat does not have the option --delimiter, but these fields cannot
contain a bar."""


@dataclass(frozen=True, slots=True)
class StepUsage:
    """A running step (`123.batch`). None means not sampled yet. `average_rss_mib` is a task's
    current mean (tested with 22.05).
    """

    step_id: str
    average_rss_mib: float | None
    average_cpu_s: float | None
    tasks: int | None


def argv(slurm_id: str) -> list[str]:
    """Return the argv that queries all steps of a job, including the batch script; sstat omits
    other users' steps."""
    return ["sstat", "-n", "-P", "-a", "--noconvert", "-o", ",".join(_FIELDS.values()), slurm_id]


def parse(output: str | bytes) -> list[StepUsage]:
    """Parse the steps of argv."""
    steps: list[StepUsage] = []
    for line in lines(output):
        values = line.split(_SEPARATOR)
        if len(values) != len(_FIELDS):
            continue
        field = dict(zip(_FIELDS, values, strict=True))
        steps.append(
            StepUsage(
                step_id=field["step_id"],
                average_rss_mib=_memory_mib(field["average_rss"]),
                average_cpu_s=parse_duration_s(field["average_cpu"]),
                tasks=optional_int(field["tasks"]),
            )
        )
    return steps


def _memory_mib(text: str) -> float | None:
    """Parse a memory size. A plain number means bytes (--noconvert), but a site may add a unit."""
    plain = optional_int(text)
    if plain is not None:
        return plain / 2**20
    return parse_tres(f"mem={text}").get("mem")
