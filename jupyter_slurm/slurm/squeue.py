"""squeue: the argv of queries and the parser of rows, from one table of fields.

Formats are text, because --json ignores filters before 24.05. They have no widths, so nothing is
truncated. One call queries all of a user's jobs: for a list of IDs, slurmctld would send every job,
and squeue would drop most (_print_job() in src/squeue/squeue.c).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from .fields import (
    FIELD_END,
    cut_records,
    optional,
    optional_int,
    optional_text,
    record_format,
)
from .states import parse_state
from .units import parse_duration_s, parse_epoch

# %C is missing because it makes squeue request every job's details. Fields with only Slurm's own
# words come first. The owner precedes the reason, in which a plugin may repeat a user's text. Texts
# chosen by a user come last, so they cannot shift other fields.
_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "slurm_id": "%i",
        "array_job_id": "%F",
        "array_task_id": "%K",
        "state": "%T",
        "user": "%u",
        "reason": "%r",
        "partition": "%P",
        "qos": "%q",
        "account": "%a",
        "node_count": "%D",
        "nodelist": "%N",
        "start": "%S",
        "end": "%e",
        "submit": "%V",
        "limit": "%l",
        "priority": "%Q",
        "dependency": "%E",
        "gres": "%b",
        "name": "%j",
        "comment": "%k",
    }
)
_NAMES: Final = tuple(_FIELDS)
_ID, _STATE, _ARRAY, _USER = map(_NAMES.index, ("slurm_id", "state", "array_job_id", "user"))


class QueueRow(NamedTuple):
    """A job or array task in the queue. None means not set.

    `slurm_id` is `123`, `123_4`, `123+0`, or `123_[5-8%2]` for the waiting tasks of an array
    (squeue without -r). `limit_s` is None for no limit. `gres` is per node. `start_s` and `end_s`
    of a waiting job are the scheduler's estimate.
    """

    slurm_id: str
    array_job_id: str | None
    array_task_id: str | None
    state: str
    reason: str
    partition: str
    qos: str | None
    account: str | None
    node_count: int | None
    nodelist: str | None
    start_s: float | None
    end_s: float | None
    submit_s: float | None
    limit_s: float | None
    priority: int | None
    dependency: str | None
    gres: str | None
    user: str
    name: str
    comment: str | None

    @property
    def whole_id(self) -> str:
        """Return the ID that sbatch printed: the ID of the array, or of the first part of a
        heterogeneous job."""
        return self.array_job_id or self.slurm_id.partition("+")[0]


class RawRow(NamedTuple):
    """A row as squeue prints it, for code that compares many rows and parses only some (`read`)."""

    slurm_id: str
    whole_id: str
    """The ID that sbatch printed; see `QueueRow.whole_id`."""
    state: str
    user: str
    text: str
    """The text of the row, with all fields."""


def mine_argv(user: str) -> list[str]:
    """Return the argv that queries all of a user's jobs, with one row for a waiting array, and
    ended jobs until MinJobAge. `-a` includes hidden partitions, which squeue otherwise omits, even
    for the user's own jobs."""
    return ["squeue", "-h", "-a", "-u", user, "-t", "all", "-o", record_format(_FIELDS)]


def everyone_argv() -> list[str]:
    """Return the argv that queries the visible jobs of all users as mine_argv does."""
    return ["squeue", "-h", "-a", "-t", "all", "-o", record_format(_FIELDS)]


def all_argv() -> list[str]:
    """Return the argv that queries the visible jobs that have not ended, with one row for a waiting
    array."""
    return ["squeue", "-h", "-o", record_format(_FIELDS)]


def parse(output: str | bytes) -> list[QueueRow]:
    """Parse the rows of mine_argv, everyone_argv and all_argv."""
    return [read(row) for row in split(output)]


def split(output: str | bytes) -> list[RawRow]:
    """Split the output into rows, without parsing them."""
    return [_raw(values) for values in cut_records(output, len(_NAMES)) if values[0][:1].isdigit()]


def _raw(values: list[str]) -> RawRow:
    het_id, is_part, _ = values[_ID].partition("+")
    return RawRow(
        slurm_id=values[_ID],
        whole_id=het_id if is_part else values[_ARRAY],
        state=values[_STATE],
        user=values[_USER],
        text=FIELD_END.join(values),
    )


def read(row: RawRow) -> QueueRow:
    """Parse a row of `split`."""
    values = row.text.split(FIELD_END, len(_NAMES) - 1)
    field = dict(zip(_NAMES, values, strict=True))
    is_array = optional(field["array_task_id"]) is not None
    return QueueRow(
        slurm_id=field["slurm_id"],
        array_job_id=field["array_job_id"] if is_array else None,
        array_task_id=optional(field["array_task_id"]),
        state=parse_state(field["state"]),
        reason=field["reason"],
        partition=field["partition"],
        qos=optional(field["qos"]),
        account=optional(field["account"]),
        node_count=optional_int(field["node_count"]),
        nodelist=optional(field["nodelist"]),
        start_s=parse_epoch(field["start"]),
        end_s=parse_epoch(field["end"]),
        submit_s=parse_epoch(field["submit"]),
        limit_s=parse_duration_s(field["limit"]),
        priority=optional_int(field["priority"]),
        dependency=optional(field["dependency"]),
        gres=optional(field["gres"]),
        user=field["user"],
        name=field["name"],
        comment=optional_text(field["comment"]),
    )
