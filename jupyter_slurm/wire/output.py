"""Output and results of a job.

One struct per line of `output.N.jsonl`, which node/runner.py writes; the tag is the key "type".
Text is valid Unicode: a lone surrogate printed by a job becomes an escape, such as `\\udce9`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from jupyter_slurm.wire.cluster import Check, Cost, QueueStatus
from jupyter_slurm.wire.connection import Connection
from jupyter_slurm.wire.job import Job, ListedJob

__all__ = [
    "Changes",
    "ClearOutput",
    "DisplayData",
    "ErrorOutput",
    "ExecuteResult",
    "Gathered",
    "Hello",
    "LogChunk",
    "Output",
    "Preview",
    "Result",
    "Show",
    "Stream",
    "UpdateDisplayData",
]


class Hello(Struct, frozen=True, kw_only=True, tag_field="type", tag="hello"):
    """The first record: the Python that runs the cell."""

    python: tuple[int, int, int]
    executable: str = ""
    """The path of that Python on the node; "" if unknown."""


class Stream(Struct, frozen=True, kw_only=True, tag_field="type", tag="stream"):
    name: Literal["stdout", "stderr"]
    text: str
    time_s: Annotated[int, Meta(ge=0, lt=2**40)] = 0
    """The time of the first byte, in UTC epoch seconds; 0 if unknown."""


class DisplayData(Struct, frozen=True, kw_only=True, tag_field="type", tag="display_data"):
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    display_id: str | None = None


class UpdateDisplayData(
    Struct, frozen=True, kw_only=True, tag_field="type", tag="update_display_data"
):
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    display_id: str


class ExecuteResult(Struct, frozen=True, kw_only=True, tag_field="type", tag="execute_result"):
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)


class ClearOutput(Struct, frozen=True, kw_only=True, tag_field="type", tag="clear_output"):
    wait: bool = False


class ErrorOutput(Struct, frozen=True, kw_only=True, tag_field="type", tag="error"):
    ename: str
    evalue: str
    traceback: tuple[str, ...] = ()


Output = (
    Hello | Stream | DisplayData | UpdateDisplayData | ExecuteResult | ClearOutput | ErrorOutput
)


Show = Literal["full", "sandboxed", "text"]
"""The degree to which a page may trust a job's output; see `views/trusted_output.py`."""


class LogChunk(Struct, frozen=True, kw_only=True):
    """The output after a cursor, and the job's state when the agent read the output."""

    job: Job
    outputs: tuple[Output, ...]
    cursor: str
    """An opaque cursor; "" is the beginning. It stays valid after restarts."""
    skipped_bytes: int = 0
    """The amount of stream text skipped because the caller's budget was too small. Displays are
    never skipped."""
    more: bool = False
    """More output is available, so a call with `cursor` returns at once."""
    end: bool = False
    """The job has ended, and all of its output has been returned."""
    show: Show = "full"
    """The trust that the cluster's profile sets for `outputs`. Front ends must respect it."""


class Gathered(Struct, frozen=True, kw_only=True):
    """The `--gather` variables of one rank; fields as in `Result`."""

    variables: str | None
    names: tuple[str, ...]


class Result(Struct, frozen=True, kw_only=True):
    """The outcome of a cell, with a valid signature."""

    job: Job
    status: Literal["ok", "error", "killed", "interrupted", "none"]
    """"none" means that the job ended without a result; `job.why` contains the reason."""
    ename: str | None = None
    evalue: str | None = None
    traceback: tuple[str, ...] = ()
    interrupted_by: str | None = None
    variables: str | None = None
    """A local file for `jobs.variables.read_variables` with a valid signature; None without
    variables."""
    names: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    """The reason for each variable that was not returned."""
    gathered: tuple[Gathered, ...] = ()
    """The gathered variables by rank."""


class Preview(Struct, frozen=True, kw_only=True):
    """The preview of a submission (`--dry-run`)."""

    cluster: str
    script: str
    sbatch: tuple[str, ...]
    job_dir: str
    files: tuple[str, ...]
    variables: tuple[str, ...] = ()
    """The names of environment variables for the program; a file contains the values."""
    cost: Cost | None = None
    """The cost; None if the time limit is unknown."""
    checks: tuple[Check, ...] = ()
    """Reasons why Slurm may refuse the job, the limits that apply, and free resources."""
    start_estimate_s: float | None = None
    """The start that Slurm expects (sbatch --test-only); None if the caller did not ask, or Slurm
    did not answer."""


class Changes(Struct, frozen=True, kw_only=True):
    """Changes of jobs and connections since a cursor, with each job at most once."""

    cursor: str
    """An opaque cursor; "" is the beginning. A cursor from an earlier agent counts as the
    beginning."""
    whole: bool
    """`jobs` contains all jobs, not only new or changed ones."""
    jobs: tuple[Job, ...]
    listed: tuple[ListedJob, ...] = ()
    """New or changed jobs without a record, and tasks of arrays, on the clusters that the client
    watches."""
    listed_whole: tuple[str, ...] = ()
    """The clusters with a complete `listed`."""
    gone: tuple[str, ...] = ()
    """IDs of forgotten jobs and keys of jobs that are no longer listed."""
    queues: tuple[QueueStatus, ...] = ()
    """The status of each queue that the client watches."""
    connections: tuple[Connection, ...] | None = None
    """All connections; None if unchanged."""
    results: tuple[Result, ...] = ()
    """The requested results of jobs that have ended. `Api.result` explains why a result is
    missing."""
