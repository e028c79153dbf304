"""What leaves a process: the values that the agent and its clients exchange, and nothing else.

Frozen msgspec structs; no behaviour beyond a property or two, no I/O, no imports of ours. Times are
UTC epoch seconds, None where not known. Slurm's words (partition, reason, QOS …) are Slurm's text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct, field


class Problem(Struct, frozen=True, kw_only=True):
    """An error on its way to a person: see `errors.py` for the codes."""

    code: str
    message: str
    hint: str | None = None
    detail: str | None = None
    transient: bool = False


class JobState(StrEnum):
    """Slurm's states under Slurm's names, and five of ours for what Slurm has no word for."""

    # Ours, before and beside Slurm's.
    SUBMITTING = "SUBMITTING"  # recorded here; whether sbatch has taken it is being found out
    REJECTED = "REJECTED"  # sbatch refused it, there is no job
    UNKNOWN = "UNKNOWN"  # the cluster does not answer; `problem` says since when and why
    FINISHING = "FINISHING"  # it has ended; how is being found out
    LOST = "LOST"  # nobody knows, and nobody will
    # Slurm's, not ended (base states and the flags that `squeue %T` prints in their place).
    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    STOPPED = "STOPPED"
    SIGNALING = "SIGNALING"
    RESIZING = "RESIZING"
    EXPEDITING = "EXPEDITING"
    STAGE_OUT = "STAGE_OUT"
    COMPLETING = "COMPLETING"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    # Slurm's, ended.
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    DEADLINE = "DEADLINE"
    NODE_FAIL = "NODE_FAIL"
    BOOT_FAIL = "BOOT_FAIL"
    PREEMPTED = "PREEMPTED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"

    @property
    def final(self) -> bool:
        """Nothing will change any more."""
        return self in _FINAL


_FINAL = frozenset(
    JobState(name)
    for name in (
        "REJECTED LOST COMPLETED CANCELLED FAILED TIMEOUT DEADLINE NODE_FAIL BOOT_FAIL PREEMPTED "
        "OUT_OF_MEMORY"
    ).split()
)


class JobKind(StrEnum):
    CELL = "cell"  # Python, run by node/runner.py
    PROGRAM = "program"  # text that starts with `#!`, run as it is inside the image
    SCRIPT = "script"  # a batch script, handed to sbatch as written (%%sbatch)


class JobSpec(Struct, frozen=True, kw_only=True):
    """What is asked for. `id` is made by who asks: submitting the same id twice is one job."""

    id: str
    """Eight of `a-z2-7`; ends up in Slurm's job name and comment."""
    name: str
    """Shown to people; letters, digits, `.`, `_`, `-`."""
    code: str
    kind: JobKind = JobKind.CELL
    cluster: str | None = None
    """None: the default cluster."""
    options: dict[str, str] = field(default_factory=dict)
    """sbatch's long option names -> normalised values ("" for a flag), without those of ours."""
    image: str | None = None
    runtime: str | None = None
    """None: the profile's."""
    modules: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    """`SRC[:DST[:ro]]`."""
    cwd: str | None = None
    """Where the code runs; None: the user's home."""
    names_in: tuple[str, ...] = ()
    names_out: tuple[str, ...] = ()
    inputs: str | None = None
    """A local file in `places.spool_dir()` with the variables in; it is moved into the job dir."""
    python: tuple[int, int] | None = None
    """The Python that wrote `inputs`, where that matters (code travels by value), else None."""
    notebook: str | None = None
    fingerprint: str | None = None
    """Equal for the same cell of the same notebook, run unchanged; None: never attach to it."""
    push: str | None = None
    """A folder of this machine: the job runs in a copy of it, made when it is submitted."""
    fetch: tuple[str, ...] = ()
    """Patterns of files, relative to the folder where the job runs, that `Api.fetch` brings."""
    fetch_to: str | None = None
    """The folder of this machine that they come to; None: there is nothing to fetch."""


class Usage(Struct, frozen=True, kw_only=True):
    """What a job used, against what it had; None where nobody measured."""

    elapsed_s: float | None = None
    cpu_s: float | None = None
    cpus: int | None = None
    peak_memory_mib: float | None = None
    memory_mib: float | None = None
    """What it had asked for."""
    gpus: int | None = None

    @property
    def cpu_efficiency(self) -> float | None:
        """CPU seconds used, of those held: 0 to 1."""
        if not (self.cpu_s and self.cpus and self.elapsed_s):
            return None
        return min(1.0, self.cpu_s / (self.cpus * self.elapsed_s))


class Job(Struct, frozen=True, kw_only=True):
    """A job as the agent knows it. Each change raises `revision`."""

    id: str
    cluster: str
    name: str
    kind: JobKind
    state: JobState
    revision: int = 0
    slurm_id: str | None = None
    """Slurm's: `123`, `123_4`; None before sbatch has answered."""
    restarts: int = 0
    reason: str | None = None
    """Slurm's reason word or text."""
    why: str | None = None
    """The reason as a sentence; after the end, what became of the job."""
    advice: str | None = None
    """What the user can do about it."""
    warning: str | None = None
    problem: Problem | None = None
    """Why nothing newer is known: the cluster has not answered since `problem_since_s`."""
    problem_since_s: float | None = None
    created_s: float
    state_since_s: float
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    start_estimate_s: float | None = None
    limit_s: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    image: str | None = None
    runtime: str = "none"
    exit_code: int | None = None
    signal: int | None = None
    usage: Usage | None = None
    cancel_requested_s: float | None = None
    inferred: bool = False
    """The end was concluded from traces, since neither the job nor Slurm had said it."""
    delivered: bool = False
    """Somebody has had the outcome: `Api.delivered` was called."""
    notebook: str | None = None
    fingerprint: str | None = None
    job_dir: str = ""
    python: tuple[int, int, int] | None = None
    """The Python that ran the cell, once it has said so."""
    names_out: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()
    fetch_to: str | None = None
    """See `JobSpec`."""


# --- output -----------------------------------------------------------------------------------
# One struct per line of `output.N.jsonl`, which node/runner.py writes; the tag is the key "type".
# Text is valid Unicode: half a surrogate pair, which a job may print, is the text `\udce9` here.


class Hello(Struct, frozen=True, kw_only=True, tag_field="type", tag="hello"):
    """The first record: who runs the cell. `ipython` is None where the image has none."""

    python: tuple[int, int, int]
    ipython: str | None = None
    host: str = ""
    pid: int = 0
    time_s: float = 0.0


class Stream(Struct, frozen=True, kw_only=True, tag_field="type", tag="stream"):
    name: Literal["stdout", "stderr"]
    text: str


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


class LogChunk(Struct, frozen=True, kw_only=True):
    """What came since `cursor` was last given back, and the job at that moment."""

    job: Job
    outputs: tuple[Output, ...]
    cursor: str
    """Opaque; "" is the beginning. Survives restarts of everything."""
    skipped_bytes: int = 0
    """Stream text left out since the caller was too far behind its budget (displays never are)."""
    end: bool = False
    """The job is final and everything it wrote has been given."""


class Result(Struct, frozen=True, kw_only=True):
    """How a cell ended, its signature checked."""

    job: Job
    status: Literal["ok", "error", "killed", "interrupted", "none"]
    """"none": the job has ended without a result of its own; `job.why` says what happened."""
    ename: str | None = None
    evalue: str | None = None
    traceback: tuple[str, ...] = ()
    interrupted_by: str | None = None
    variables: str | None = None
    """A local file for `jobs.variables.read_variables`; None: no variables came back."""
    digest: str | None = None
    names: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    """Variables that could not come back, and why."""


class Preview(Struct, frozen=True, kw_only=True):
    """What `submit` would send (`--dry-run`)."""

    cluster: str
    script: str
    sbatch: tuple[str, ...]
    job_dir: str
    files: tuple[str, ...]


class Changes(Struct, frozen=True, kw_only=True):
    revision: int
    jobs: tuple[Job, ...]


# --- the cluster ------------------------------------------------------------------------------


class Cluster(Struct, frozen=True, kw_only=True):
    """A cluster that the profiles name."""

    name: str
    host: str | None
    """None: this machine."""
    runtime: str
    origin: str
    """The file that defines it, or how it was found."""
    default: bool
    images: tuple[str, ...] = ()
    """Aliases that the profile gives."""
    problem: Problem | None = None
    """Why it cannot be used now."""


class Partition(Struct, frozen=True, kw_only=True):
    name: str
    default: bool
    up: bool
    limit_s: int | None
    """None: no limit."""
    nodes: int
    idle_nodes: int
    gpu_types: tuple[str, ...] = ()
    gpus: int = 0
    free_gpus: int | None = None
    """None: this Slurm does not tell."""


class ClusterInfo(Struct, frozen=True, kw_only=True):
    """What a cluster offers, as its Slurm said at `asked_s`."""

    name: str
    slurm_version: str
    partitions: tuple[Partition, ...]
    accounting: bool
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    asked_s: float


class Folder(Struct, frozen=True, kw_only=True):
    """A folder of the cluster that somebody may want to use."""

    name: str
    """How people there call it: `$SCRATCH`, `/work/$USER`."""
    path: str
    writable: bool
    file_system: str
    """As `stat -f` names it: nfs, lustre, ext2/ext3 …"""
    free_mib: int | None
    shared: bool | None
    """Whether every node sees it; None: that cannot be told from outside of a job."""


class Description(Struct, frozen=True, kw_only=True):
    """What a cluster has that a profile could name, as seen on its login machine."""

    name: str
    sbatch: str | None
    """Where it is; None: it is not found."""
    runtimes: tuple[str, ...]
    """Container tools, under our names for them."""
    modules: bool
    python: str | None
    """Of the profile's interpreter, e.g. "3.11"; None: it does not run there."""
    folders: tuple[Folder, ...]


class QueueEntry(Struct, frozen=True, kw_only=True):
    """A row of the cluster's queue; `id` is ours where the job is one of ours."""

    slurm_id: str
    state: str
    name: str
    user: str
    partition: str
    reason: str | None = None
    why: str | None = None
    nodes: str | None = None
    gpus: int = 0
    submitted_s: float | None = None
    started_s: float | None = None
    start_estimate_s: float | None = None
    elapsed_s: float | None = None
    limit_s: int | None = None
    id: str | None = None


class CommandOutput(Struct, frozen=True, kw_only=True):
    """A Slurm command's own words."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class Check(Struct, frozen=True, kw_only=True):
    """One sentence of `doctor`."""

    ok: bool | None
    """None: neither good nor bad, to be known."""
    sentence: str
    hint: str | None = None


# --- the way there ----------------------------------------------------------------------------


class QuestionKind(StrEnum):
    SECRET = "secret"  # a password, passphrase or code: not shown while it is typed, never kept
    TEXT = "text"  # what may be seen while it is typed, e.g. the number of a menu's line
    HOST_KEY = "host-key"  # "yes" accepts the key and remembers it, anything else refuses


class Question(Struct, frozen=True, kw_only=True):
    """What a login wants to know of a person; `Api.answer` takes the answer."""

    id: str
    cluster: str
    host: str
    """Who asks: `alice@gateway.example.org`."""
    kind: QuestionKind
    prompt: str
    """The host's own words, or ours for a passphrase or a host key."""
    instruction: str = ""
    """What was said before the prompt; for a host key its type and fingerprint."""


class ConnectionState(StrEnum):
    LOCAL = "local"  # the cluster is this machine
    CLOSED = "closed"  # nobody has needed it yet, or somebody has closed it
    CONNECTING = "connecting"
    ASKING = "asking"  # a person has to answer
    OPEN = "open"
    LOST = "lost"  # it comes back by itself
    LOGIN_NEEDED = "login-needed"  # it comes back when a person logs in again


class Connection(Struct, frozen=True, kw_only=True):
    """The way to a cluster, as it is."""

    cluster: str
    state: ConnectionState
    since_s: float
    hosts: tuple[str, ...] = ()
    """`user@host` of each hop, the cluster's own last."""
    question: Question | None = None
    """What this caller is to answer; None while somebody else is asked."""
    problem: Problem | None = None
    """Why it is LOST, LOGIN_NEEDED or CLOSED."""
    round_trip_s: float | None = None
    via_openssh: bool = False
    """It runs over a connection that the system's own ssh holds open."""


class Tunnel(Struct, frozen=True, kw_only=True):
    """A port of this machine (127.0.0.1 only) that leads to `host:port` as the cluster sees it."""

    id: str
    cluster: str
    host: str
    port: int
    local_port: int
    route: Literal["direct", "hop", "relay"]
    """From the login node; by a login on the node; by a relay inside the job's allocation."""
    job_id: str | None = None
    opened_s: float
    connections: int = 0
    """Open now."""
    problem: Problem | None = None
    """Why new connections do not get through; None when they do."""


class TransferState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class Transfer(Struct, frozen=True, kw_only=True):
    """Files on their way between this machine and a cluster."""

    id: str
    cluster: str
    direction: Literal["push", "pull"]
    local: str
    remote: str
    state: TransferState
    files: int | None = None
    """To be sent, once that is known: those that differ."""
    bytes: int | None = None
    files_done: int = 0
    bytes_done: int = 0
    files_same: int = 0
    """Left alone, since both sides have the same."""
    began_s: float
    ended_s: float | None = None
    problem: Problem | None = None


class AgentStatus(Struct, frozen=True, kw_only=True):
    """`jupyter slurm status`."""

    version: str
    protocol: int
    pid: int
    host: str
    socket: str
    log: str
    started_s: float
    memory_mib: float
    cpu_s: float
    clients: int
    """Requests being answered now."""
    live_jobs: int
    commands: dict[str, int] = field(default_factory=dict)
    """`cluster program` -> how often it was run since the start, e.g. {"local squeue": 12}."""
