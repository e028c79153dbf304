"""A job: its specification, and the agent's view of it; each kind has a struct of both.

A new kind has its two structs here, below the parts that all kinds have."""

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
    "UsageChanges",
    "new_id",
]

OutFormat = Literal["auto", "data"]
"""How variables come back: as data if that is exact and pickled if not, or as data alone."""
Engine = Literal["torchrun", "mpi", "ray", "dask"]
"""How the nodes of a job work together: the code runs in each of many ranks, or once with workers
on all nodes (ray)."""


def new_id() -> str:
    """Make an id for a `JobSpec`: eight of `a-z2-7`, 40 random bits."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(8))


class JobKind(StrEnum):
    CELL = "cell"
    PROGRAM = "program"
    SCRIPT = "script"
    SESSION = "session"
    KERNEL = "kernel"
    LAB = "lab"


class _KindDefaults(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """The defaults, for any job, of values that only some kinds have."""

    @property
    def kind(self) -> JobKind:
        return JobKind(str(self.__struct_config__.tag))

    @property
    def session(self) -> str | None:
        """Return the id of the session that the job runs in, as cells may; it then has no
        `slurm_id`."""
        return None

    @property
    def launch(self) -> Engine | None:
        """Return how the job's nodes work together; None: its code runs on the first one alone."""
        return None

    @property
    def on_login(self) -> bool:
        """Tell whether the job runs on the login machine, as programs may: it then has no
        `slurm_id`, and `nodes` is that machine."""
        return False


class After(Struct, frozen=True, kw_only=True):
    """A job that another one waits for."""

    job: str
    """Its ID, ours or Slurm's, or its name."""
    ends: Literal["ok", "any", "fail"] = "ok"
    """The end that lets the other one start."""


class _Spec(_KindDefaults, frozen=True, kw_only=True):
    """The fields that the specifications of all kinds have. Submitting the same id twice is one
    job."""

    id: str = field(default_factory=new_id)
    """Eight of `a-z2-7`; Slurm's job name and comment contain it. Two specs made without one are
    two jobs."""
    name: str
    """The name for users; letters, digits, `.`, `_`, `-`."""
    cluster: str | None = None
    """None: the default cluster."""
    options: dict[str, str] = field(default_factory=dict)
    """sbatch's long option names -> normalised values ("" for a flag), without our options."""
    after: tuple[After, ...] = ()
    """The jobs that it waits for, in addition to `options["dependency"]`."""
    image: str | None = None
    container_name: str | None = None
    """The name of a container that stays on its node, made from `image` where there is none; None:
    the job's container goes with the job."""
    environment: Environment | None = None
    """Packages for a job without an image; None: those of the node's Python."""
    container_remap_root: bool = False
    """Whether the program is root in its container, and the user outside, as apt needs it."""
    runtime: str | None = None
    """None: the profile's."""
    modules: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    """`SRC[:DST[:ro]]`."""
    cwd: str | None = None
    """Where the code runs; None: the user's home."""
    notebook: str | None = None
    file: str | None = None
    """The file of this machine that the job was made of; None: it was made of a text."""
    fingerprint: str | None = None
    """Equal for the same code: with `notebook` it names a cell. None: never attach to it."""
    kernel: str | None = None
    """The kernel's process that submits it: its pid, a blank, its start in UTC epoch seconds. While
    that runs, no other kernel attaches."""
    push: str | None = None
    """A folder of this machine: the job runs in a copy of it, made when it is submitted."""
    push_exclude: tuple[str, ...] = ()
    """Patterns, as in .gitignore, of files not to push, beside those of its own .gitignore."""
    fetch: tuple[str, ...] = ()
    """Patterns of files, relative to the folder where the job runs, that `Api.fetch` brings."""
    fetch_to: str | None = None
    """The folder of this machine that they go to; None: there is nothing to fetch."""
    slurm_conf: str | None = None
    """SLURM_CONF of the submitting process, which the agent lacks: on this machine the agent
    compares it with the configuration that the profile leads to."""


class CellSpec(_Spec, frozen=True, kw_only=True, tag="cell"):
    """Python, run by node/runner.py."""

    code: str
    names_in: tuple[str, ...] = ()
    names_out: tuple[str, ...] = ()
    out_format: OutFormat | None = None
    """None: the profile's."""
    inputs: str | None = None
    """A local file in `places.spool_dir()` with the input variables; it moves into the job dir."""
    inputs_digest: str | None = None
    """The digest of their values (`jobs.variables.digest_inputs`); None: not known."""
    inputs_python: tuple[int, int] | None = None
    """The Python that wrote `inputs`, if that matters (code travels by value), else None."""
    session: str | None = None
    """The id of the session that the cell runs in; None: it runs in a job of its own."""
    launch: Engine | None = None
    names_gather: tuple[str, ...] = ()
    """Variables of which each rank gives its own; they come back as lists."""
    max_restarts: int = 0
    """How often torchrun starts the ranks again when one has failed."""
    mpi: str | None = None
    """The way in which ranks of MPI find each other, as `srun --mpi=list` names it; None: the best
    that the node has."""
    tensorboard: str | None = None
    """The folder whose logs TensorBoard shows beside the cell; None: it does not run."""


class ProgramSpec(_Spec, frozen=True, kw_only=True, tag="program"):
    """Text that starts with `#!`, run as it is inside the image, or the image's own program."""

    code: str = ""
    """"": what the image names by ENTRYPOINT and CMD, or as its runscript."""
    arguments: tuple[str, ...] = ()
    """The words behind its name."""
    on_login: bool = False
    """Whether it runs on the login machine itself, without Slurm, to make an image or an
    environment."""


class ScriptSpec(_Spec, frozen=True, kw_only=True, tag="script"):
    """A batch script, handed to sbatch as written (%%sbatch)."""

    code: str
    arguments: tuple[str, ...] = ()
    """The words behind its name."""


class SessionSpec(_Spec, frozen=True, kw_only=True, tag="session"):
    """A process on the node that runs cells as they come."""

    code: ClassVar[str] = ""
    idle_s: int
    """How long it waits without a cell before it ends."""
    launch: Engine | None = None
    """`ray` or `dask`: its cells use it; `torchrun` or `mpi`: each rank runs them, and keeps its
    own variables."""
    mpi: str | None = None
    """As `CellSpec.mpi`."""


class KernelSpec(_Spec, frozen=True, kw_only=True, tag="kernel"):
    """An ipykernel on the node, for a client here."""

    code: ClassVar[str] = ""
    idle_s: int | None = None
    """How long it waits without a client before it ends; None: the profile says how long."""
    launch: Engine | None = None
    """`ray` or `dask`: its cells use it."""


class LabSpec(_Spec, frozen=True, kw_only=True, tag="lab"):
    """JupyterLab on the node, run by node/lab.py."""

    code: ClassVar[str] = ""
    idle_s: int | None = None
    """How long it may be unused before it ends; None: the profile says how long."""
    jupyter_base_url: str | None = None
    """The base URL of the Jupyter server that asks for it, if its browsers are on other machines.
    The lab is then shown below it, if the profile allows that (`lab_same_origin`). None: the
    browser is on this machine."""


JobSpec = CellSpec | ProgramSpec | ScriptSpec | SessionSpec | KernelSpec | LabSpec
"""The specification of a job. In JSON, `kind` says of which kind."""
SpecT = TypeVar("SpecT", bound=JobSpec)


class _Row(_KindDefaults, frozen=True, kw_only=True):
    """The fields that every job in a list has. None, 0 or (): unknown, or does not apply."""

    cluster: str
    name: str
    slurm_id: str | None = None
    """Slurm's id: `123`, or `123_4` and `123_[5-8%2]` for tasks of an array."""
    user: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    priority: int | None = None
    reason: str | None = None
    """Slurm's reason word or text."""
    why: str | None = None
    """The reason as a sentence; after the end, what became of the job."""
    nodes: tuple[str, ...] = ()
    """Names, or lists as Slurm prints them: `n[1-4]`."""
    node_count: int | None = None
    gpus: int = 0
    gpu_load: float | None = None
    """Mean load of the job's GPUs in the last minutes, 0 to 1. None: not measured."""
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    start_estimate_s: float | None = None
    limit_s: int | None = None
    tasks: dict[str, str] = field(default_factory=dict)
    """For an array: Slurm's state -> the tasks in it, in the notation of `--array` (`0-3,7`);
    UNKNOWN: they ended unobserved. {}: it is not an array, or has too many to follow."""


class _Job(_Row, frozen=True, kw_only=True):
    """A job as the agent knows it, from its record and from squeue. Each change raises
    `revision`."""

    id: str
    state: JobState
    revision: int = 0
    restarts: int = 0
    advice: str | None = None
    """What the user can do about it."""
    warning: str | None = None
    problem: Problem | None = None
    """Why nothing newer is known: the cluster has not answered since `problem_since_s`."""
    problem_since_s: float | None = None
    created_s: float
    state_since_s: float
    erased_s: float | None = None
    """When the site erases `job_dir`, once the job has ended; None: it does not, as far as the
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
    """Why Slurm would not put it back into the queue; None: it would, or that is not known yet."""
    inferred: bool = False
    """Whether the end was inferred from traces, since neither the job nor Slurm reported it."""
    delivered: bool = False
    """A front end has shown the outcome: it called `Api.delivered`."""
    notebook: str | None = None
    fingerprint: str | None = None
    job_dir: str = ""
    python: tuple[int, int, int] | None = None
    """The Python that ran the cell, once it has reported that."""
    python_path: str = ""
    """Its path on the node, or in the image; empty: not known."""
    fetch: tuple[str, ...] = ()
    fetch_to: str | None = None
    """These: see `JobSpec`."""
    transfer: Transfer | None = None
    """The push of its folder, as it was a second ago; None: none is on its way."""

    @property
    def names_out(self) -> tuple[str, ...]:
        """Return the names of the only variables ever read from its result."""
        return ()

    @property
    def names_gather(self) -> tuple[str, ...]:
        """Return the names of the variables of which each rank gives its own."""
        return ()

    @property
    def idle_s(self) -> int | None:
        """Return how many seconds it may be idle before it ends; None: no limit."""
        return None

    @property
    def idle_since_s(self) -> float | None:
        """Return since when it has been idle; None: it is not, or cannot be."""
        return None

    @property
    def lab(self) -> Lab | None:
        """Return the way into a lab that has not ended."""
        return None


class CellJob(_Job, frozen=True, kw_only=True, tag="cell"):
    names_out: tuple[str, ...] = ()
    out_format: OutFormat = "auto"
    session: str | None = None
    session_ends_s: float | None = None
    """When that session's time is over, as known when the cell was sent."""
    launch: Engine | None = None
    names_gather: tuple[str, ...] = ()
    ranks: int = 0
    """How many ranks run the code, each with an output of its own; 0: it runs once, or that is not
    known yet."""
    tensorboard: str | None = None
    """The folder of its logs, as asked for; None: the job has no TensorBoard."""


class ProgramJob(_Job, frozen=True, kw_only=True, tag="program"):
    on_login: bool = False


class ScriptJob(_Job, frozen=True, kw_only=True, tag="script"):
    """A batch script, or a job that was submitted elsewhere."""


class SessionJob(_Job, frozen=True, kw_only=True, tag="session"):
    idle_s: int | None = None
    idle_since_s: float | None = None
    """Since when no cell has run or waited in it; None: one does, or it has not begun."""
    launch: Engine | None = None


class KernelJob(_Job, frozen=True, kw_only=True, tag="kernel"):
    idle_s: int | None = None
    launch: Engine | None = None


class LabJob(_Job, frozen=True, kw_only=True, tag="lab"):
    idle_s: int | None = None
    idle_since_s: float | None = None
    """Since when nobody has used it, once that is half of `idle_s` ago."""
    lab: Lab | None = None


Job = CellJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob
"""A job of any kind. In JSON, `kind` says of which kind."""


class ListedJob(_Row, frozen=True, kw_only=True, omit_defaults=True, tag="listed"):
    """A job that only Slurm lists, or some tasks of an array: the agent has no record of it."""

    id: str | None = None
    """For tasks of an array with a record: its id."""
    state: str
    """Slurm's state, which a newer Slurm may have added."""
    mine: bool = False
    """Whether it is this user's."""
    array: str | None = None
    """For tasks: the key of their array's row. None: it is a whole job, or a whole array."""

    @property
    def key(self) -> str:
        """Return its name in `Changes.gone`."""
        return f"{self.cluster} {self.slurm_id}"


Row = Job | ListedJob
"""A job in a list: one row for each job, and one for each listed task of an array."""


InputPart = Literal["options", "folder", "image", "in", "in?", "push", "kernel"]
"""A part of a job's input: for `in` the values differ, for `in?` they only may. `kernel`: another
kernel submitted the job, and still runs."""


class Earlier(Struct, frozen=True, kw_only=True):
    """A job that the same cell has started before."""

    job: Job
    differs: tuple[InputPart, ...] = ()
    """The input that differs from what the cell would get now; (): it is this cell's job."""


class JobEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to a job."""

    time_s: float
    state: JobState
    """The job's state from then on."""
    text: str | None = None
    """A sentence for it: why the job waits, on which node it began, who asked for its end."""


class JobDetails(Struct, frozen=True, kw_only=True):
    """All that can be said of a job, for somebody who looks at it alone."""

    job: Job
    asked: JobSpec | None = None
    """What was asked for, without code and the values of its variables; None: it was submitted
    elsewhere, or recorded by an older version."""
    code: str | None = None
    """The user's code; None: it is no longer there."""
    script: str | None = None
    """The batch script as sbatch got it; None: it is no longer there."""
    command: tuple[str, ...] = ()
    """sbatch with its options."""
    environment: dict[str, str | None] = field(default_factory=dict)
    """The variables set for it; None: a value that is withheld."""
    record: dict[str, str] = field(default_factory=dict)
    """Slurm's own record under Slurm's field names: `scontrol show job`, later sacct's."""
    events: tuple[JobEvent, ...] = ()
    """The oldest first."""
    folder: str = ""
    """The folder on the cluster where it runs, or ran, with the user's files; "": not known."""
    problem: Problem | None = None
    """Why what lies on the cluster is missing here: the connection is lost or needs a login."""


class UsageChanges(Struct, frozen=True, kw_only=True):
    cursor: str
    samples: tuple[UsageSample, ...]
    """The samples after the cursor, the oldest first; of another node older ones may follow."""
    job: Job
    end: bool = False
    """Whether the job is final, and no more samples will come."""
    problem: Problem | None = None
    """Why nothing is measured."""
