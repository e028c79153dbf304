"""Job specifications and the agent's view of jobs. Each kind of job has two structs, one
for its specification and one for the agent's view."""

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
"""The output variable of an `Executor`'s call: the returned value or, if the call failed, its
exception."""
OutFormat = Literal["auto", "data"]
"""The format of a job's output variables. `auto` means `data` for values that this format
represents exactly, and pickle for all others."""
MOST_TASKS = 100_000
"""The maximum number of tasks of a sweep."""
Engine = Literal["torchrun", "mpi", "ray", "dask"]
"""The launcher of a job on many nodes. Ray and Dask run the code once, with workers on all nodes;
the others run it in every rank."""


def new_id() -> str:
    """Return a new ID for a `JobSpec`: eight characters of `a-z2-7`, 40 random bits."""
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
    """Defaults for values that only certain kinds of jobs have."""

    @property
    def kind(self) -> JobKind:
        return JobKind(str(self.__struct_config__.tag))

    @property
    def session(self) -> str | None:
        """Return the ID of the session that runs the cell, which then has no `slurm_id`. Return
        None for a cell with its own job."""
        return None

    @property
    def launch(self) -> Engine | None:
        """Return the launcher; None if the code runs on the first node only."""
        return None

    @property
    def on_login(self) -> bool:
        """Return whether the program runs on the login node. The job then has no `slurm_id`, and
        `nodes` is the login node."""
        return False


class After(Struct, frozen=True, kw_only=True):
    """A job that another job waits for."""

    job: str
    """The other job's ID (ours or Slurm's) or name."""
    ends: Literal["ok", "any", "fail"] = "ok"
    """The outcome that lets the waiting job start."""


class _Spec(_KindDefaults, frozen=True, kw_only=True):
    """The common fields of all job specifications. Submitting the same ID twice creates one job."""

    id: str = field(default_factory=new_id)
    """Eight characters of `a-z2-7`, part of Slurm's job name and comment. Each new spec gets a new
    ID."""
    name: str
    """The name for users; letters, digits, `.`, `_`, `-`."""
    cluster: str | None = None
    """The cluster; None for the default cluster."""
    options: dict[str, str] = field(default_factory=dict)
    """The sbatch options by long name, with normalized values ("" for a flag), without the options
    that the agent adds."""
    after: tuple[After, ...] = ()
    """The jobs that this job waits for, in addition to `options["dependency"]`."""
    image: str | None = None
    container_name: str | None = None
    """The name of a container that stays on its node, created from `image` if missing. None if the
    container ends with the job."""
    environment: Environment | None = None
    """Packages for a job without an image; None to use the packages of the node's Python."""
    container_remap_root: bool = False
    """Run as root inside the container (apt requires root) and as the user outside."""
    runtime: str | None = None
    """The container tool; None for the profile's tool."""
    modules: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    """Mounts, each `SRC[:DST[:ro]]`."""
    cwd: str | None = None
    """The code's working directory; None for the home folder."""
    notebook: str | None = None
    file: str | None = None
    """The local file with the code; None if the code is not from a file."""
    fingerprint: str | None = None
    """A digest of the code, which identifies a cell together with `notebook`. None if no cell may
    attach to this job."""
    kernel: str | None = None
    """The submitting kernel process: its pid, a blank, and its start in UTC epoch seconds. While
    that process runs, other kernels cannot attach to the job."""
    push: str | None = None
    """A local folder to copy to the cluster at submission. The job runs in the copy."""
    push_exclude: tuple[str, ...] = ()
    """.gitignore patterns of files not to push, in addition to the folder's .gitignore."""
    fetch: tuple[str, ...] = ()
    """Patterns of files for `Api.fetch`, relative to the job's working directory."""
    fetch_to: str | None = None
    """The local folder for fetched files; None to fetch nothing."""
    slurm_conf: str | None = None
    """SLURM_CONF of the submitting process. For a cluster on this machine, the agent compares it
    with the profile's configuration."""


class CellSpec(_Spec, frozen=True, kw_only=True, tag="cell"):
    """A Python cell, run by node/runner.py."""

    code: str
    names_in: tuple[str, ...] = ()
    names_out: tuple[str, ...] = ()
    out_format: OutFormat | None = None
    """The format of returned variables; None for the profile's format."""
    inputs: str | None = None
    """A local file in `places.spool_dir()` with the input variables; moved into the job folder."""
    inputs_digest: str | None = None
    """The digest of the input values (`variables.digest_inputs`); None if unknown."""
    inputs_python: tuple[int, int] | None = None
    """The Python version that wrote `inputs`, if they contain pickled code."""
    session: str | None = None
    """The ID of the session that runs the cell; None for a cell with its own job."""
    launch: Engine | None = None
    names_gather: tuple[str, ...] = ()
    """Variables to return as lists, each with the values of all ranks."""
    max_restarts: int = 0
    """The number of times that torchrun restarts failed ranks."""
    mpi: str | None = None
    """The MPI type, a name in `srun --mpi=list`; None for the best type on the node."""
    tensorboard: str | None = None
    """The log folder for TensorBoard; None for no TensorBoard."""


class SweepSpec(_Spec, frozen=True, kw_only=True, tag="sweep"):
    """A Python cell that runs once for each task of Slurm job arrays."""

    code: str
    tasks: str = ""
    """The task indices, as for `--array`: `0-99`."""
    names_params: tuple[str, ...] = ()
    """The variables that differ between tasks; () for `--array`, which has only indices."""
    params: str | None = None
    """A local file in `places.spool_dir()` with a dict of parameters for each task index; moved
    into the job folder."""
    params_digest: str | None = None
    """The digest of the parameter values; None if unknown."""
    params_text: str | None = None
    """A local JSON file with the values of each parameter as text, in the order of the indices, for
    display; moved into the job folder."""
    max_running: int | None = None
    """The maximum number of tasks that run at a time."""
    max_fails: int | None = None
    """The number of failures after which the other tasks are cancelled."""
    into: str = "results"
    """The variable for the table of results."""
    names_in: tuple[str, ...] = ()
    names_out: tuple[str, ...] = ()
    out_format: OutFormat | None = None
    inputs: str | None = None
    inputs_digest: str | None = None
    inputs_python: tuple[int, int] | None = None
    """See the fields of the same name in `CellSpec`."""


class ProgramSpec(_Spec, frozen=True, kw_only=True, tag="program"):
    """A script that starts with `#!` and runs in the image, or the image's own program."""

    code: str = ""
    """The script; "" for the image's ENTRYPOINT and CMD, or its runscript."""
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
    """With `ray` or `dask`, the cells can use the engine. With `torchrun` or `mpi`, each rank runs
    the cells and has its own variables."""
    mpi: str | None = None
    """The MPI type; see `CellSpec.mpi`."""
    for_executor: bool = False
    """An Executor started the session for its calls."""


class KernelSpec(_Spec, frozen=True, kw_only=True, tag="kernel"):
    """An ipykernel on the node, for a local client."""

    code: ClassVar[str] = ""
    idle_s: int | None = None
    """Seconds without a client before the kernel ends; None for the profile's limit."""
    launch: Engine | None = None
    """The engine that the cells can use, `ray` or `dask`."""


class LabSpec(_Spec, frozen=True, kw_only=True, tag="lab"):
    """JupyterLab on the node, run by node/lab.py."""

    code: ClassVar[str] = ""
    idle_s: int | None = None
    """Seconds without use before the lab ends; None for the profile's limit."""
    jupyter_base_url: str | None = None
    """The base URL of a Jupyter server whose browsers are on other machines; None if the browser is
    on this machine. The lab is shown below this URL if the profile allows it
    (`lab_same_origin`)."""


JobSpec = CellSpec | SweepSpec | ProgramSpec | ScriptSpec | SessionSpec | KernelSpec | LabSpec
"""The specification of a job. In JSON, `kind` names its kind."""
SpecT = TypeVar("SpecT", bound=JobSpec)


class _Row(_KindDefaults, frozen=True, kw_only=True):
    """The common fields of listed jobs. None, 0 and () mean unknown or not applicable."""

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
    """The reason for waiting as a sentence; for an ended job, the outcome."""
    nodes: tuple[str, ...] = ()
    """Node names, or lists as Slurm prints them: `n[1-4]`."""
    node_count: int | None = None
    gpus: int = 0
    gpu_load: float | None = None
    """The mean GPU load over the last minutes, 0 to 1; None if not measured."""
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    start_estimate_s: float | None = None
    limit_s: int | None = None
    tasks: dict[str, str] = field(default_factory=dict)
    """Tasks of an array by Slurm's state, in the notation of `--array` (`0-3,7`). UNKNOWN has the
    tasks that ended unobserved. {} if the job is not an array, or has too many tasks to track."""


class _Job(_Row, frozen=True, kw_only=True):
    """The agent's view of a job, from its record and squeue. Each change raises `revision`."""

    id: str
    state: JobState
    revision: int = 0
    restarts: int = 0
    advice: str | None = None
    """A hint for the user."""
    warning: str | None = None
    problem: Problem | None = None
    """The reason why the cluster has not answered since `problem_since_s`."""
    problem_since_s: float | None = None
    created_s: float
    state_since_s: float
    erased_s: float | None = None
    """The time at which the site erases the `job_dir` of an ended job; None if the profile does not
    set a period."""
    image: str | None = None
    container_name: str | None = None
    """The container that stays on its node; see `JobSpec`."""
    environment_id: str | None = None
    """The ID of the job's `InstalledEnvironment`; None if the job did not request packages."""
    runtime: str = "none"
    exit_code: int | None = None
    signal: int | None = None
    usage: Usage | None = None
    cancel_requested_s: float | None = None
    no_requeue: str | None = None
    """The reason why Slurm would not requeue the job; None if it would, or if unknown."""
    inferred: bool = False
    """The agent inferred the end from traces, because neither the job nor Slurm reported it."""
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
    """See the fields of the same name in `JobSpec`."""
    transfer: Transfer | None = None
    """The progress of pushing the folder, at most a second old; None if no push is running."""

    @property
    def slurm_ids(self) -> tuple[str, ...]:
        """Return all Slurm IDs of the job: a sweep may have several arrays."""
        return () if self.slurm_id is None else (self.slurm_id,)

    @property
    def names_out(self) -> tuple[str, ...]:
        """Return the names of the variables to read from the result; others are ignored."""
        return ()

    @property
    def names_gather(self) -> tuple[str, ...]:
        """Return the variables that each rank returns."""
        return ()

    @property
    def idle_s(self) -> int | None:
        """Return the allowed idle seconds; None for no limit."""
        return None

    @property
    def idle_since_s(self) -> float | None:
        """Return the time since which the job has been idle; None if it is busy, or of a kind that
        is never idle."""
        return None

    @property
    def lab(self) -> Lab | None:
        """Return the lab's state; None if the job is not a lab or has ended."""
        return None


class CellJob(_Job, frozen=True, kw_only=True, tag="cell"):
    names_out: tuple[str, ...] = ()
    out_format: OutFormat = "auto"
    session: str | None = None
    session_ends_s: float | None = None
    """The end of the session's time limit, as known when the agent sent the cell."""
    launch: Engine | None = None
    names_gather: tuple[str, ...] = ()
    ranks: int = 0
    """The number of ranks, each with its own output; 0 if the code runs once, or if unknown."""
    tensorboard: str | None = None
    """The requested log folder; None for no TensorBoard."""


class SweepJob(_Job, frozen=True, kw_only=True, tag="sweep"):
    """A sweep. `tasks` includes tasks not yet submitted (PENDING). `slurm_id` is the ID of its
    first array."""

    names_out: tuple[str, ...] = ()
    out_format: OutFormat = "auto"
    names_params: tuple[str, ...] = ()
    max_running: int | None = None
    max_fails: int | None = None
    into: str = "results"
    """See the fields of the same name in `SweepSpec`."""
    arrays: tuple[str, ...] = ()
    """The Slurm IDs of its arrays."""
    offsets: dict[str, int] = field(default_factory=dict)
    """Offsets between our task indices and Slurm's, by the array's Slurm ID. Arrays with an offset
    of zero are not included."""
    stopped_s: float | None = None
    """The time at which `max_fails` cancelled the other tasks."""

    @property
    def slurm_ids(self) -> tuple[str, ...]:
        return self.arrays


class ProgramJob(_Job, frozen=True, kw_only=True, tag="program"):
    on_login: bool = False


class ScriptJob(_Job, frozen=True, kw_only=True, tag="script"):
    """A batch script."""


class SessionJob(_Job, frozen=True, kw_only=True, tag="session"):
    idle_s: int | None = None
    idle_since_s: float | None = None
    """The time since which the session has been idle; None if a cell is running or waiting, or
    before the session starts."""
    launch: Engine | None = None
    for_executor: bool = False
    """An Executor started the session for its calls. Other cells can use it only by its ID."""


class KernelJob(_Job, frozen=True, kw_only=True, tag="kernel"):
    idle_s: int | None = None
    launch: Engine | None = None


class LabJob(_Job, frozen=True, kw_only=True, tag="lab"):
    idle_s: int | None = None
    idle_since_s: float | None = None
    """The time of the last use; None until half of `idle_s` has passed since then."""
    lab: Lab | None = None


Job = CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob
"""A job of any kind. In JSON, `kind` names its kind."""


class ListedJob(_Row, frozen=True, kw_only=True, omit_defaults=True, tag="listed"):
    """A job, or tasks of an array, without a record in the agent."""

    id: str | None = None
    """The ID of the array's record."""
    state: str
    """Slurm's state. A newer Slurm can report a state that is unknown to this version."""
    mine: bool = False
    """This user owns the job."""
    array: str | None = None
    """For tasks, the key of their array's row; None for a whole job or array."""

    @property
    def key(self) -> str:
        """Return the row's key in `Changes.gone`."""
        return f"{self.cluster} {self.slurm_id}"


Row = Job | ListedJob
"""A job in a list: one row per job, and one per listed task of an array."""


InputPart = Literal["options", "folder", "image", "in", "in?", "push", "kernel"]
"""A part of a job's input. `in`: the values differ; `in?`: they may differ; `kernel`: another
kernel, which still runs, submitted the job."""


class Earlier(Struct, frozen=True, kw_only=True):
    """An earlier job of the same cell."""

    job: Job
    differs: tuple[InputPart, ...] = ()
    """The inputs that differ now."""


class JobEvent(Struct, frozen=True, kw_only=True):
    """An event in the life of a job."""

    time_s: float
    state: JobState
    """The job's new state."""
    text: str | None = None
    """A sentence, e.g. why the job waits, where it started, or who ended it."""


class JobDetails(Struct, frozen=True, kw_only=True):
    """The details of one job."""

    job: Job
    asked: JobSpec | None = None
    """The spec, without code and values of variables. None if another program submitted the job, or
    an older version recorded the job."""
    code: str | None = None
    """The user's code; None if no longer available."""
    script: str | None = None
    """The batch script as sent to sbatch; None if no longer available."""
    command: tuple[str, ...] = ()
    """The sbatch command line."""
    environment: dict[str, str | None] = field(default_factory=dict)
    """The variables set for the job; None for a value that is not shown."""
    record: dict[str, str] = field(default_factory=dict)
    """Slurm's record under Slurm's field names, from `scontrol show job` or sacct."""
    events: tuple[JobEvent, ...] = ()
    """The job's events, oldest first."""
    folder: str = ""
    """The working directory on the cluster, with the user's files; "" if unknown."""
    problem: Problem | None = None
    """The reason why files on the cluster are not included, such as a lost connection or a missing
    login."""


class SweepFailure(Struct, frozen=True, kw_only=True):
    """An error that tasks of a sweep have in common."""

    tasks: str
    ename: str
    evalue: str
    traceback: tuple[str, ...] = ()


class SweepTasks(Struct, frozen=True, kw_only=True):
    """The tasks of a sweep. Tasks are in the notation of --array."""

    job: SweepJob
    states: dict[str, str]
    """Tasks by state, like `Job.tasks`."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Tasks by the reason for ending or waiting, without tasks that succeeded."""
    nodes: dict[str, str] = field(default_factory=dict)
    """Tasks by node."""
    elapsed_s: tuple[float | None, ...] = ()
    """The run time of each ended task, in the order of the indices."""
    peak_mib: tuple[float | None, ...] = ()
    """The peak memory of each ended task, in the order of the indices."""
    failures: tuple[SweepFailure, ...] = ()
    """The errors of failed tasks, grouped."""
    params: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Values of each parameter as text, in the order of the indices; {} if unknown."""


class UsageChanges(Struct, frozen=True, kw_only=True):
    cursor: str
    samples: tuple[UsageSample, ...]
    """The samples after the cursor, oldest first for each node."""
    job: Job
    end: bool = False
    """The job has ended, and no more samples follow."""
    problem: Problem | None = None
    """The reason for missing samples."""
