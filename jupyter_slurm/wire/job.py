"""Job specifications and the agent's view of jobs, one struct of each per kind.

A new kind has its two structs here, below the parts that all kinds share.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import ClassVar, Literal, TypeVar

from msgspec import Struct, field

from jupyter_slurm.wire.connection import Transfer
from jupyter_slurm.wire.environment import Environment
from jupyter_slurm.wire.lab import Lab
from jupyter_slurm.wire.problem import Problem
from jupyter_slurm.wire.state import JobState
from jupyter_slurm.wire.usage import Usage, UsageSample

__all__ = [
    "MOST_TASKS",
    "OUTCOME",
    "After",
    "CellJob",
    "CellSpec",
    "Earlier",
    "Engine",
    "InputPart",
    "Job",
    "JobDetails",
    "JobEvent",
    "JobKind",
    "JobSpec",
    "KernelJob",
    "KernelSpec",
    "LabJob",
    "LabSpec",
    "ListedJob",
    "OutFormat",
    "ProgramJob",
    "ProgramSpec",
    "Row",
    "ScriptJob",
    "ScriptSpec",
    "SessionJob",
    "SessionSpec",
    "SpecT",
    "SweepFailure",
    "SweepJob",
    "SweepSpec",
    "SweepTasks",
    "UsageChanges",
    "new_id",
]

OUTCOME = "_outcome"
"""The variable out of an `Executor`'s call: the returned value or, if the call failed, its
exception."""
OutFormat = Literal["auto", "data"]
"""The format of variables from a job: auto is data if that is exact, else pickle."""
MOST_TASKS = 100_000
"""The maximum number of tasks of a sweep."""
Engine = Literal["torchrun", "mpi", "ray", "dask"]
"""The launcher of a job on many nodes: the code runs in each of many ranks, or once with workers on
all nodes (ray, dask)."""


def new_id() -> str:
    """Return a new ID for a `JobSpec`: eight of `a-z2-7`, 40 random bits."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(8))


class JobKind(StrEnum):
    CELL = "cell"
    SWEEP = "sweep"
    PROGRAM = "program"
    SCRIPT = "script"
    SESSION = "session"
    KERNEL = "kernel"
    LAB = "lab"


class _KindDefaults(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Defaults of values that only some kinds have."""

    @property
    def kind(self) -> JobKind:
        return JobKind(str(self.__struct_config__.tag))

    @property
    def session(self) -> str | None:
        """Return the ID of the cell's session. The cell then has no `slurm_id`."""
        return None

    @property
    def launch(self) -> Engine | None:
        """Return the launcher; None: the code runs on the first node only."""
        return None

    @property
    def on_login(self) -> bool:
        """Return whether the program runs on the login node. It then has no `slurm_id`, and `nodes`
        is that machine."""
        return False


class After(Struct, frozen=True, kw_only=True):
    """A job that another one waits for."""

    job: str
    """Its ID, ours or Slurm's, or its name."""
    ends: Literal["ok", "any", "fail"] = "ok"
    """The end that lets the other one start."""


class _Spec(_KindDefaults, frozen=True, kw_only=True):
    """The common fields of all specifications. Submitting the same ID twice creates one job."""

    id: str = field(default_factory=new_id)
    """Eight of `a-z2-7`, part of Slurm's job name and comment. Each new spec gets its own."""
    name: str
    """The name for users; letters, digits, `.`, `_`, `-`."""
    cluster: str | None = None
    """None: the default cluster."""
    options: dict[str, str] = field(default_factory=dict)
    """sbatch's options, by long name, with normalized values ("" for a flag); without ours."""
    after: tuple[After, ...] = ()
    """The jobs that it waits for, in addition to `options["dependency"]`."""
    image: str | None = None
    container_name: str | None = None
    """The name of a container that stays on its node, created from `image` if missing; None: the
    container ends with the job."""
    environment: Environment | None = None
    """Packages for a job without an image; None: those of the node's Python."""
    container_remap_root: bool = False
    """Run as root inside the container (as apt needs) and as the user outside."""
    runtime: str | None = None
    """None: the profile's."""
    modules: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    """`SRC[:DST[:ro]]`."""
    cwd: str | None = None
    """The code's working directory; None: the home."""
    notebook: str | None = None
    file: str | None = None
    """The local file with the code; None: the code is not from a file."""
    fingerprint: str | None = None
    """A digest of the code; with `notebook` it identifies a cell. None: never attach to this
    job."""
    kernel: str | None = None
    """The kernel process that submits: its pid, a blank, its start in UTC epoch seconds. While it
    runs, no other kernel attaches."""
    push: str | None = None
    """A local folder to copy at submission. The job runs in the copy."""
    push_exclude: tuple[str, ...] = ()
    """.gitignore patterns of files not to push, in addition to the folder's .gitignore."""
    fetch: tuple[str, ...] = ()
    """Patterns of files for `Api.fetch`, relative to the job's working directory."""
    fetch_to: str | None = None
    """The local target folder; None: fetch nothing."""
    slurm_conf: str | None = None
    """SLURM_CONF of the submitting process. On this machine the agent compares it with the
    profile's configuration."""


class CellSpec(_Spec, frozen=True, kw_only=True, tag="cell"):
    """Python, run by node/runner.py."""

    code: str
    names_in: tuple[str, ...] = ()
    names_out: tuple[str, ...] = ()
    out_format: OutFormat | None = None
    """None: the profile's."""
    inputs: str | None = None
    """A local file in `places.spool_dir()` with the input variables; moved into the job folder."""
    inputs_digest: str | None = None
    """The digest of the values (`jobs.variables.digest_inputs`); None if unknown."""
    inputs_python: tuple[int, int] | None = None
    """The Python version that wrote `inputs`, if they contain code by value."""
    session: str | None = None
    """The ID of the session that runs the cell; None: a job of its own."""
    launch: Engine | None = None
    names_gather: tuple[str, ...] = ()
    """Variables to return as a list of each rank's value."""
    max_restarts: int = 0
    """How often torchrun restarts the ranks after a failure."""
    mpi: str | None = None
    """The MPI type, a name in `srun --mpi=list`; None: the best on the node."""
    tensorboard: str | None = None
    """The log folder for TensorBoard; None: no TensorBoard."""


class SweepSpec(_Spec, frozen=True, kw_only=True, tag="sweep"):
    """A Python cell that runs once for each task, in Slurm job arrays."""

    code: str
    tasks: str = ""
    """The indices of its tasks, as for `--array`: `0-99`."""
    names_params: tuple[str, ...] = ()
    """The variables that differ between tasks; () for `--array`, whose indices are Slurm's."""
    params: str | None = None
    """A local file in `places.spool_dir()` with a dict of parameters for each task, under its
    index; moved into the job folder."""
    params_digest: str | None = None
    """The digest of the values; None if unknown."""
    params_text: str | None = None
    """A local JSON file with the values of each parameter as text, in the order of the indices, for
    display; moved into the job folder."""
    max_running: int | None = None
    """The maximum number of tasks that run at a time."""
    max_fails: int | None = None
    """The number of failed tasks that cancels the others."""
    into: str = "results"
    """The variable for the table of results."""
    names_in: tuple[str, ...] = ()
    names_out: tuple[str, ...] = ()
    out_format: OutFormat | None = None
    inputs: str | None = None
    inputs_digest: str | None = None
    inputs_python: tuple[int, int] | None = None
    """For these, see `CellSpec`."""


class ProgramSpec(_Spec, frozen=True, kw_only=True, tag="program"):
    """A script that starts with `#!`, run in the image, or the image's own program."""

    code: str = ""
    """"": the image's ENTRYPOINT and CMD, or its runscript."""
    arguments: tuple[str, ...] = ()
    """The command-line arguments."""
    on_login: bool = False
    """Run on the login node without Slurm, to build an image or an environment."""


class ScriptSpec(_Spec, frozen=True, kw_only=True, tag="script"):
    """A batch script, passed to sbatch as written (%%sbatch)."""

    code: str
    arguments: tuple[str, ...] = ()
    """The command-line arguments."""


class SessionSpec(_Spec, frozen=True, kw_only=True, tag="session"):
    """A process on the node that runs cells on request."""

    code: ClassVar[str] = ""
    idle_s: int
    """Seconds without a cell before the session ends."""
    launch: Engine | None = None
    """`ray` or `dask`: available to the cells; `torchrun` or `mpi`: each rank runs the cells and
    has its own variables."""
    mpi: str | None = None
    """As `CellSpec.mpi`."""
    for_executor: bool = False
    """Started by an Executor for its calls."""


class KernelSpec(_Spec, frozen=True, kw_only=True, tag="kernel"):
    """An ipykernel on the node, for a local client."""

    code: ClassVar[str] = ""
    idle_s: int | None = None
    """Seconds without a client before the kernel ends; None: the profile's."""
    launch: Engine | None = None
    """`ray` or `dask`, available to the cells."""


class LabSpec(_Spec, frozen=True, kw_only=True, tag="lab"):
    """JupyterLab on the node, run by node/lab.py."""

    code: ClassVar[str] = ""
    idle_s: int | None = None
    """Seconds without use before the lab ends; None: the profile's."""
    jupyter_base_url: str | None = None
    """The base URL of the Jupyter server, if its browsers are on other machines. The lab is then
    shown below it, if the profile allows that (`lab_same_origin`). None: the browser is on this
    machine."""


JobSpec = CellSpec | SweepSpec | ProgramSpec | ScriptSpec | SessionSpec | KernelSpec | LabSpec
"""The specification of a job. In JSON, `kind` names its kind."""
SpecT = TypeVar("SpecT", bound=JobSpec)


class _Row(_KindDefaults, frozen=True, kw_only=True):
    """The common fields of listed jobs. None, 0 or (): unknown, or not applicable."""

    cluster: str
    name: str
    slurm_id: str | None = None
    """Slurm's ID: `123`, or `123_4` and `123_[5-8%2]` for tasks of an array."""
    user: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    priority: int | None = None
    reason: str | None = None
    """Slurm's reason word or text."""
    why: str | None = None
    """The reason as a sentence; after the end, the outcome."""
    nodes: tuple[str, ...] = ()
    """Names, or lists as Slurm prints them: `n[1-4]`."""
    node_count: int | None = None
    gpus: int = 0
    gpu_load: float | None = None
    """Mean GPU load in the last minutes, 0 to 1. None: not measured."""
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    start_estimate_s: float | None = None
    limit_s: int | None = None
    tasks: dict[str, str] = field(default_factory=dict)
    """For an array: Slurm's state -> its tasks, in the notation of `--array` (`0-3,7`); UNKNOWN:
    ended unobserved. {}: not an array, or too many tasks to track."""


class _Job(_Row, frozen=True, kw_only=True):
    """A job as the agent knows it, from its record and squeue. Each change raises `revision`."""

    id: str
    state: JobState
    revision: int = 0
    restarts: int = 0
    advice: str | None = None
    """A hint for the user."""
    warning: str | None = None
    problem: Problem | None = None
    """The reason for no news: the cluster has not answered since `problem_since_s`."""
    problem_since_s: float | None = None
    created_s: float
    state_since_s: float
    erased_s: float | None = None
    """The time at which the site erases `job_dir` of an ended job; None: never, as far as the
    profile says."""
    image: str | None = None
    container_name: str | None = None
    """See `JobSpec`."""
    environment_id: str | None = None
    """The `InstalledEnvironment` that it runs in; None: it asked for no packages."""
    runtime: str = "none"
    exit_code: int | None = None
    signal: int | None = None
    usage: Usage | None = None
    cancel_requested_s: float | None = None
    no_requeue: str | None = None
    """The reason why Slurm would not requeue the job; None: it would, or unknown."""
    inferred: bool = False
    """The end is inferred from traces: neither the job nor Slurm reported it."""
    delivered: bool = False
    """A front end has shown the outcome and called `Api.delivered`."""
    notebook: str | None = None
    fingerprint: str | None = None
    job_dir: str = ""
    python: tuple[int, int, int] | None = None
    """The version of the cell's Python, once reported."""
    python_path: str = ""
    """The path of that Python on the node, or in the image; "" if unknown."""
    fetch: tuple[str, ...] = ()
    fetch_to: str | None = None
    """For these, see `JobSpec`."""
    transfer: Transfer | None = None
    """The push of the folder, at most a second old; None: none is running."""

    @property
    def slurm_ids(self) -> tuple[str, ...]:
        """Return all its Slurm IDs: a sweep may have several arrays."""
        return () if self.slurm_id is None else (self.slurm_id,)

    @property
    def names_out(self) -> tuple[str, ...]:
        """Return the only names that are read from the result."""
        return ()

    @property
    def names_gather(self) -> tuple[str, ...]:
        """Return the variables of which each rank returns its own value."""
        return ()

    @property
    def idle_s(self) -> int | None:
        """Return the allowed idle seconds; None: no limit."""
        return None

    @property
    def idle_since_s(self) -> float | None:
        """Return the time since which the job is idle; None: it is not, or cannot be."""
        return None

    @property
    def lab(self) -> Lab | None:
        """Return the lab's state; None: not a lab, or ended."""
        return None


class CellJob(_Job, frozen=True, kw_only=True, tag="cell"):
    names_out: tuple[str, ...] = ()
    out_format: OutFormat = "auto"
    session: str | None = None
    session_ends_s: float | None = None
    """The end of the session's time limit, as known when the cell was sent."""
    launch: Engine | None = None
    names_gather: tuple[str, ...] = ()
    ranks: int = 0
    """The number of ranks, each with its own output; 0: the code runs once, or unknown."""
    tensorboard: str | None = None
    """The requested log folder; None: no TensorBoard."""


class SweepJob(_Job, frozen=True, kw_only=True, tag="sweep"):
    """A sweep. `tasks` has all its tasks, including those not yet submitted (PENDING);
    `slurm_id` is that of its first array."""

    names_out: tuple[str, ...] = ()
    out_format: OutFormat = "auto"
    names_params: tuple[str, ...] = ()
    max_running: int | None = None
    max_fails: int | None = None
    into: str = "results"
    """For these, see `SweepSpec`."""
    arrays: tuple[str, ...] = ()
    """The Slurm IDs of its arrays."""
    offsets: dict[str, int] = field(default_factory=dict)
    """Slurm ID of an array -> the difference between a task's index and Slurm's; without zeros."""
    stopped_s: float | None = None
    """The time when the other tasks were cancelled because of `max_fails`."""

    @property
    def slurm_ids(self) -> tuple[str, ...]:
        return self.arrays


class ProgramJob(_Job, frozen=True, kw_only=True, tag="program"):
    on_login: bool = False


class ScriptJob(_Job, frozen=True, kw_only=True, tag="script"):
    """A batch script, or a job of another tool."""


class SessionJob(_Job, frozen=True, kw_only=True, tag="session"):
    idle_s: int | None = None
    idle_since_s: float | None = None
    """The time since which no cell runs or waits; None: one does, or the session has not
    started."""
    launch: Engine | None = None
    for_executor: bool = False
    """Started by an Executor for its calls; other cells use it only by its ID."""


class KernelJob(_Job, frozen=True, kw_only=True, tag="kernel"):
    idle_s: int | None = None
    launch: Engine | None = None


class LabJob(_Job, frozen=True, kw_only=True, tag="lab"):
    idle_s: int | None = None
    idle_since_s: float | None = None
    """The time of the last use, once that is half of `idle_s` ago."""
    lab: Lab | None = None


Job = CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob
"""A job of any kind. In JSON, `kind` names its kind."""


class ListedJob(_Row, frozen=True, kw_only=True, omit_defaults=True, tag="listed"):
    """A job, or tasks of an array, without a record in the agent."""

    id: str | None = None
    """The ID of the array's record."""
    state: str
    """Slurm's state, possibly one of a newer Slurm."""
    mine: bool = False
    """Owned by this user."""
    array: str | None = None
    """For tasks: the key of their array's row. None: a whole job or array."""

    @property
    def key(self) -> str:
        """Return the row's key in `Changes.gone`."""
        return f"{self.cluster} {self.slurm_id}"


Row = Job | ListedJob
"""A job in a list: one row per job, and one per listed task of an array."""


InputPart = Literal["options", "folder", "image", "in", "in?", "push", "kernel"]
"""A part of a job's input. `in`: the values differ; `in?`: they may differ. `kernel`: submitted by
another kernel that still runs."""


class Earlier(Struct, frozen=True, kw_only=True):
    """An earlier job of the same cell."""

    job: Job
    differs: tuple[InputPart, ...] = ()
    """The inputs that differ now; (): none."""


class JobEvent(Struct, frozen=True, kw_only=True):
    """An event in the life of a job."""

    time_s: float
    state: JobState
    """The job's new state."""
    text: str | None = None
    """A sentence: why the job waits, the node where it started, who ended it."""


class JobDetails(Struct, frozen=True, kw_only=True):
    """The details of one job."""

    job: Job
    asked: JobSpec | None = None
    """The spec, without code and values of variables; None: submitted elsewhere, or recorded by an
    older version."""
    code: str | None = None
    """The user's code; None: no longer available."""
    script: str | None = None
    """The batch script as sent to sbatch; None: no longer available."""
    command: tuple[str, ...] = ()
    """sbatch with its options."""
    environment: dict[str, str | None] = field(default_factory=dict)
    """The variables set for the job; None: a withheld value."""
    record: dict[str, str] = field(default_factory=dict)
    """Slurm's record under Slurm's field names, from `scontrol show job` or sacct."""
    events: tuple[JobEvent, ...] = ()
    """Oldest first."""
    folder: str = ""
    """The working directory on the cluster, with the user's files; "" if unknown."""
    problem: Problem | None = None
    """The reason why files on the cluster are missing here: no connection, or a login is needed."""


class SweepFailure(Struct, frozen=True, kw_only=True):
    """An error that tasks of a sweep have in common."""

    tasks: str
    ename: str
    evalue: str
    traceback: tuple[str, ...] = ()


class SweepTasks(Struct, frozen=True, kw_only=True):
    """The tasks of a sweep. Tasks are written as for --array."""

    job: SweepJob
    states: dict[str, str]
    """State -> tasks, like `Job.tasks`."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The reason for ending or waiting -> tasks, without tasks that succeeded."""
    nodes: dict[str, str] = field(default_factory=dict)
    """Node -> tasks."""
    elapsed_s: tuple[float | None, ...] = ()
    """The run time of each ended task, in the order of the indices."""
    peak_mib: tuple[float | None, ...] = ()
    """The peak memory of each ended task, in the order of the indices."""
    failures: tuple[SweepFailure, ...] = ()
    """The errors of failed tasks, grouped."""
    params: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameter -> its values as text, in the order of the indices; {} if unknown."""


class UsageChanges(Struct, frozen=True, kw_only=True):
    cursor: str
    samples: tuple[UsageSample, ...]
    """The samples after the cursor, oldest first. Older samples of another node may follow."""
    job: Job
    end: bool = False
    """The job is final; no more samples follow."""
    problem: Problem | None = None
    """The reason for no samples."""
