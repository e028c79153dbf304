"""Output and results of a job.

One struct per line of `output.N.jsonl`, which node/runner.py writes; the tag is the key "type".
Text is valid Unicode: a lone surrogate, which a job may print, becomes the text `\udce9`.
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
    """The first record: the Python that runs the cell. `ipython` is None if the image has no
    IPython."""

    python: tuple[int, int, int]
    executable: str = ""
    """The path of that Python on the node; "" if unknown."""
    ipython: str | None = None
    host: str = ""
    pid: int = 0
    time_s: float = 0.0


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
"""The trust of a page in a job's output: `views/trusted_output.py`."""


class LogChunk(Struct, frozen=True, kw_only=True):
    """The output after a cursor, and the job at that moment."""

    job: Job
    outputs: tuple[Output, ...]
    cursor: str
    """Opaque; "" is the beginning. Valid after any restart."""
    skipped_bytes: int = 0
    """Stream text skipped because the caller was too far behind its budget (displays never are)."""
    more: bool = False
    """More output is available: a call with `cursor` returns at once."""
    end: bool = False
    """The job is final and all its output was returned."""
    show: Show = "full"
    """The trust of the cluster's profile in `outputs`, which front ends must respect."""


class Gathered(Struct, frozen=True, kw_only=True):
    """The `--gather` variables of one rank; fields as in `Result`."""

    variables: str | None
    names: tuple[str, ...]


class Result(Struct, frozen=True, kw_only=True):
    """The outcome of a cell, with a valid signature."""

    job: Job
    status: Literal["ok", "error", "killed", "interrupted", "none"]
    """"none": the job ended without a result; `job.why` has the reason."""
    ename: str | None = None
    evalue: str | None = None
    traceback: tuple[str, ...] = ()
    interrupted_by: str | None = None
    variables: str | None = None
    """A local file for `jobs.variables.read_variables` with a valid signature; None: no
    variables."""
    names: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    """Variables that were not returned -> reason."""
    gathered: tuple[Gathered, ...] = ()
    """By rank."""


class Preview(Struct, frozen=True, kw_only=True):
    """The preview of a submission (`--dry-run`)."""

    cluster: str
    script: str
    sbatch: tuple[str, ...]
    job_dir: str
    files: tuple[str, ...]
    variables: tuple[str, ...] = ()
    """The names of environment variables for the program. Values are sent in a file."""
    cost: Cost | None = None
    """None: no known time limit."""
    checks: tuple[Check, ...] = ()
    """Reasons why Slurm may refuse the job, limits that apply, free resources."""
    start_estimate_s: float | None = None
    """Slurm's expected start (sbatch --test-only); None: not asked, or not answered."""


class Changes(Struct, frozen=True, kw_only=True):
    """Changes of jobs and connections since a cursor, each job once."""

    cursor: str
    """Opaque; "" is the beginning. The cursor of an earlier agent counts as the beginning."""
    whole: bool
    """`jobs` are all jobs, not only new or changed ones."""
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
    """All connections; None: unchanged."""
    results: tuple[Result, ...] = ()
    """The requested results of jobs that have ended. `Api.result` reports why one is missing."""
