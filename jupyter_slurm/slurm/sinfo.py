"""sinfo: nodes, and the reasons why some do not accept jobs. The argv and parser of each query use
one table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .fields import (
    FIELD_END,
    RECORD_END,
    optional,
    optional_float,
    optional_int,
    record_format,
    split_records,
)
from .units import gpus_in_tres, parse_epoch

# Only -O supports GresUsed; it pads and cuts each field to its width. A suffix after the width is
# possible since 20.02 (parse_command_field in src/sinfo/opts.c).
_NODE_FIELDS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "name": ("NodeList", 64),
        "partition": ("Partition", 64),
        "state": ("StateLong", 24),
        "cpus": ("CPUsState", 32),
        "memory": ("Memory", 16),
        "free": ("FreeMem", 16),
        "load": ("CPUsLoad", 16),
        "features": ("Features", 160),
        "gres": ("Gres", 160),
        "gres_used": ("GresUsed", 160),
        "reason": ("Reason", 160),
    }
)
_REASON_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {"name": "%N", "since": "%H", "reason": "%E"}
)
_STATE_MARKS: Final = "*~#!%$@^-+"
"""The marks after a state, listed under NODE STATE CODES in sinfo(1)."""
_TAKE_JOBS: Final = frozenset({"idle", "mixed", "allocated", "completing", "planned"})
_NO_JOBS: Final = frozenset("*!%$@^")
_LEADING_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class NodeReason:
    """The reason, from Slurm or an administrator, why a node does not accept jobs."""

    name: str
    reason: str
    since_s: float | None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in one of its partitions (a node in two partitions has two rows).

    `state` is Slurm's word in lower case (idle, mixed, allocated, drained …) without the `marks`
    after it. `cpu_load` is the load average. Texts of 160 characters may be truncated. `gpus_used`
    is None if not reported.
    """

    name: str
    partition: str
    state: str
    marks: str
    cpus: int
    cpus_allocated: int
    memory_mib: int | None
    memory_free_mib: int | None
    cpu_load: float | None
    features: tuple[str, ...]
    gres: str | None
    gres_used: str | None
    gpus: int
    gpus_used: int | None
    reason: str | None

    @property
    def takes_jobs(self) -> bool:
        """Return whether a job could start on the node if resources were free. Slurm wakes a
        sleeping node."""
        return self.state in _TAKE_JOBS and _NO_JOBS.isdisjoint(self.marks)


def nodes_argv() -> list[str]:
    """Return the argv that queries every node, once per partition."""
    last = list(_NODE_FIELDS)[-1]
    columns = [
        f"{code}:{width}{RECORD_END if name == last else FIELD_END}"
        for name, (code, width) in _NODE_FIELDS.items()
    ]
    return ["sinfo", "-h", "-N", "-O", ",".join(columns)]


def reasons_argv(nodes: str) -> list[str]:
    """Return the argv that queries why the nodes of a list (`n[1-3]`) do not accept jobs, and since
    when."""
    return ["sinfo", "-h", "-N", "-n", nodes, "-o", record_format(_REASON_FIELDS)]


def parse_reasons(output: str | bytes) -> list[NodeReason]:
    """Parse the rows of reasons_argv, skipping those without a reason."""
    found = (
        NodeReason(one["name"].strip(), one["reason"].strip(), parse_epoch(one["since"]))
        for one in split_records(output, tuple(_REASON_FIELDS))
    )
    return [row for row in found if optional(row.reason)]


def parse_nodes(output: str | bytes) -> list[NodeRow]:
    """Parse the rows of nodes_argv."""
    return [_node(record) for record in split_records(output, tuple(_NODE_FIELDS))]


def _node(record: Mapping[str, str]) -> NodeRow:
    field = {name: text.strip() for name, text in record.items()}
    word = field["state"].rstrip(_STATE_MARKS)
    allocated, _, _, total = _four(field["cpus"])
    gres, gres_used = optional(field["gres"]), optional(field["gres_used"])
    return NodeRow(
        name=field["name"],
        partition=field["partition"].removesuffix("*"),
        state=word.lower(),
        marks=field["state"][len(word) :],
        cpus=total,
        cpus_allocated=allocated,
        memory_mib=optional_int(field["memory"]),
        memory_free_mib=optional_int(field["free"]),
        cpu_load=optional_float(field["load"]),
        features=tuple((optional(field["features"]) or "").replace(",", " ").split()),
        gres=gres,
        gres_used=gres_used,
        gpus=gpus_in_tres(gres or ""),
        gpus_used=None if gres and not gres_used else gpus_in_tres(gres_used or ""),
        reason=optional(field["reason"]),
    )


def _four(text: str) -> tuple[int, int, int, int]:
    """Parse `allocated/idle/other/total`. Return zeros for any other text."""
    parts = [part for word in text.split("/", 4) if (part := _leading_int(word)) is not None]
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else (0, 0, 0, 0)


def _leading_int(text: str) -> int | None:
    """Parse `8` or `8+`; return None for any other text. For nodes that differ, sinfo prints the
    minimum and a `+`."""
    match = _LEADING_NUMBER.match(text.strip())
    return optional_int(match[0]) if match else None
