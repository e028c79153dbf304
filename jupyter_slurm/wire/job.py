"""A job, as the agent knows it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct, field

from jupyter_slurm.wire.connection import Transfer
from jupyter_slurm.wire.lab import Lab
from jupyter_slurm.wire.problem import Problem
from jupyter_slurm.wire.spec import JobKind, OutFormat


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


class _Job(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A job as the agent knows it. Each change raises `revision`."""

    id: str
    cluster: str
    name: str
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
    tasks: dict[str, str] = field(default_factory=dict)
    """Of an array: which tasks are in which of Slurm's states, as `--array` names them (`0-3,7`);
    UNKNOWN: they have ended while nobody looked. {}: it is none, or has too many to follow."""
    no_requeue: str | None = None
    """Why Slurm would not put it back into the queue; None: it would, or nobody knows yet."""
    inferred: bool = False
    """The end was concluded from traces, since neither the job nor Slurm had said it."""
    delivered: bool = False
    """Somebody has had the outcome: `Api.delivered` was called."""
    notebook: str | None = None
    fingerprint: str | None = None
    job_dir: str = ""
    python: tuple[int, int, int] | None = None
    """The Python that ran the cell, once it has said so."""
    python_path: str = ""
    """Where it lies on the node, or in the image; empty: not known."""
    fetch: tuple[str, ...] = ()
    fetch_to: str | None = None
    """These: see `JobSpec`."""
    transfer: Transfer | None = None
    """The folder that is pushed with it, as it was a second ago; None: none is on its way."""

    @property
    def kind(self) -> JobKind:
        return JobKind(str(self.__struct_config__.tag))

    @property
    def session(self) -> str | None:
        """Return the id of the session that it runs in, as cells may; it has no `slurm_id` then."""
        return None

    @property
    def on_login(self) -> bool:
        """Tell whether it runs on the login machine, as programs may: it has no `slurm_id`, and
        `nodes` is that machine."""
        return False

    @property
    def names_out(self) -> tuple[str, ...]:
        """Name the only variables that are ever read of its result."""
        return ()

    @property
    def idle_s(self) -> int | None:
        """Return how many seconds it may be idle before it ends; None: as long as it likes."""
        return None

    @property
    def idle_since_s(self) -> float | None:
        """Return since when it has been idle; None: it is not, or cannot be."""
        return None

    @property
    def lab(self) -> Lab | None:
        """Return how one comes to it, of a lab that has not ended."""
        return None


class CellJob(_Job, frozen=True, kw_only=True, tag="cell"):
    names_out: tuple[str, ...] = ()
    out_format: OutFormat = "auto"
    session: str | None = None
    session_ends_s: float | None = None
    """When that session's time is over, as was known when the cell was sent."""


class ProgramJob(_Job, frozen=True, kw_only=True, tag="program"):
    on_login: bool = False


class TerminalJob(_Job, frozen=True, kw_only=True, tag="terminal"):
    pass


class ScriptJob(_Job, frozen=True, kw_only=True, tag="script"):
    """A batch script, or a job that was submitted elsewhere."""


class SessionJob(_Job, frozen=True, kw_only=True, tag="session"):
    idle_s: int | None = None
    idle_since_s: float | None = None
    """Since when no cell runs or waits in it; None: one does, or it has not begun."""


class KernelJob(_Job, frozen=True, kw_only=True, tag="kernel"):
    idle_s: int | None = None


class LabJob(_Job, frozen=True, kw_only=True, tag="lab"):
    idle_s: int | None = None
    idle_since_s: float | None = None
    """Since when nobody does anything in it, once that is half of `idle_s` ago."""
    lab: Lab | None = None


Job = CellJob | ProgramJob | TerminalJob | ScriptJob | SessionJob | KernelJob | LabJob
"""A job of any kind. In JSON, `kind` says of which."""


InputPart = Literal["options", "folder", "image", "in", "in?", "push"]
"""What a job got: of `in` it is known that the values differ, of `in?` only that they may."""


class Earlier(Struct, frozen=True, kw_only=True):
    """A job that the same cell has started before."""

    job: Job
    differs: tuple[InputPart, ...] = ()
    """What it got otherwise than the cell would get now; none: it is this cell's job."""


class JobEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to a job."""

    time_s: float
    state: JobState
    """The job's from then on."""
    text: str | None = None
    """What is to be said of it: why it waits, on which node it began, who asked for its end."""


class JobDetails(Struct, frozen=True, kw_only=True):
    """All that can be said of a job, for somebody who looks at it alone."""

    job: Job
    code: str | None = None
    """What the user wrote; None: it is no longer there."""
    script: str | None = None
    """The batch script as sbatch had it; None: it is no longer there."""
    command: tuple[str, ...] = ()
    """sbatch with its options."""
    environment: dict[str, str | None] = field(default_factory=dict)
    """What was set for it; None: a value that is kept back."""
    record: dict[str, str] = field(default_factory=dict)
    """Slurm's own record, its field names as they are: `scontrol show job`, later sacct's."""
    events: tuple[JobEvent, ...] = ()
    """The oldest first."""
    problem: Problem | None = None
    """Why what lies on the cluster is missing here: the way there is lost, or needs a login."""


class GpuSample(Struct, frozen=True, kw_only=True):
    name: str
    utilisation: float | None
    """0 to 1; None: it does not say, as parts of a GPU (MIG) do not."""
    memory_mib: float | None
    """None, both: it does not say, as one that shares the machine's memory does not."""
    memory_total_mib: float | None


class UsageSample(Struct, frozen=True, kw_only=True):
    """What a job used at a moment, on its first node."""

    time_s: float
    cpus: float
    """Cores kept busy since the sample before."""
    memory_mib: float
    gpus: tuple[GpuSample, ...] = ()


class UsageChanges(Struct, frozen=True, kw_only=True):
    cursor: str
    samples: tuple[UsageSample, ...]
    """After the cursor, the oldest first."""
    job: Job
    end: bool = False
    """The job is final, and nothing more will come."""
    problem: Problem | None = None
    """Why nothing is measured."""
