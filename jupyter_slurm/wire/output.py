"""The output and the results of a job.

One struct per line of `output.N.jsonl`, which node/runner.py writes; the tag is the key "type".
Text is valid Unicode: half a surrogate pair, which a job may print, is the text `\\udce9` here.
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
    """The first record: who runs the cell. `ipython` is None where the image has none."""

    python: tuple[int, int, int]
    executable: str = ""
    """The path of that Python on the node; empty if it does not know that."""
    ipython: str | None = None
    host: str = ""
    pid: int = 0
    time_s: float = 0.0


class Stream(Struct, frozen=True, kw_only=True, tag_field="type", tag="stream"):
    name: Literal["stdout", "stderr"]
    text: str
    time_s: Annotated[int, Meta(ge=0, lt=2**40)] = 0
    """When its first byte was written, in UTC epoch seconds; 0: not known."""


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
"""How far a page trusts a job's output: `views/trusted_output.py`."""


class LogChunk(Struct, frozen=True, kw_only=True):
    """What came since `cursor` was last given back, and the job at that moment."""

    job: Job
    outputs: tuple[Output, ...]
    cursor: str
    """Opaque; "" is the beginning. Survives restarts of everything."""
    skipped_bytes: int = 0
    """Stream text left out since the caller was too far behind its budget (displays never are)."""
    more: bool = False
    """Whether more output is there already: a call with `cursor` returns it at once."""
    end: bool = False
    """Whether the job is final and all its output has been returned."""
    show: Show = "full"
    """How far the cluster's profile trusts `outputs`; the front end that shows them keeps to it."""


class Gathered(Struct, frozen=True, kw_only=True):
    """The variables of one rank that `--gather` names; the fields are as in `Result`."""

    variables: str | None
    names: tuple[str, ...]


class Result(Struct, frozen=True, kw_only=True):
    """How a cell ended, its signature checked."""

    job: Job
    status: Literal["ok", "error", "killed", "interrupted", "none"]
    """"none": the job has ended without a result of its own; `job.why` says why."""
    ename: str | None = None
    evalue: str | None = None
    traceback: tuple[str, ...] = ()
    interrupted_by: str | None = None
    variables: str | None = None
    """A local file for `jobs.variables.read_variables`, its signature checked; None: no variables
    came back."""
    names: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    """Variables that could not come back, and why."""
    gathered: tuple[Gathered, ...] = ()
    """By rank."""


class Preview(Struct, frozen=True, kw_only=True):
    """What `submit` would send (`--dry-run`), and what would become of it."""

    cluster: str
    script: str
    sbatch: tuple[str, ...]
    job_dir: str
    files: tuple[str, ...]
    variables: tuple[str, ...] = ()
    """Names of the environment variables that the program gets; their values travel in a file."""
    cost: Cost | None = None
    """None: no known limit on how long it may run."""
    checks: tuple[Check, ...] = ()
    """The reasons against it, the limits it would meet, what is free now."""
    start_estimate_s: float | None = None
    """When Slurm expects it to start (sbatch --test-only); None: not asked, or not answered."""


class Changes(Struct, frozen=True, kw_only=True):
    """Changes of jobs and connections since a cursor. Each job is in it once."""

    cursor: str
    """Opaque; "" is the beginning. The cursor of an earlier agent counts as the beginning."""
    whole: bool
    """Whether `jobs` are all jobs; else only the new or changed ones."""
    jobs: tuple[Job, ...]
    listed: tuple[ListedJob, ...] = ()
    """New or changed jobs without a record, and tasks of arrays, on the clusters that the client
    looks at."""
    listed_whole: tuple[str, ...] = ()
    """The clusters whose `listed` is complete."""
    gone: tuple[str, ...] = ()
    """Ids of forgotten jobs and keys of jobs that are no longer listed."""
    queues: tuple[QueueStatus, ...] = ()
    """The status of each queue that the client looks at."""
    connections: tuple[Connection, ...] | None = None
    """All connections; None: none has changed."""
