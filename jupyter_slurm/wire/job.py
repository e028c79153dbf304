"""A job: what is asked for, and what the agent knows of it; a struct of each for each kind.

A new kind has its two structs here, below the parts that all kinds have."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import ClassVar, Literal, TypeVar

from msgspec import Struct, field

from jupyter_slurm.wire.connection import Transfer
from jupyter_slurm.wire.lab import Lab
from jupyter_slurm.wire.message import Text
from jupyter_slurm.wire.problem import Problem
from jupyter_slurm.wire.state import JobState
from jupyter_slurm.wire.usage import Usage, UsageSample

OutFormat = Literal["auto", "data"]
"""How variables come back: as data where that is exact and pickled where not, or as data alone."""


def new_id() -> str:
    """Make an id for a `JobSpec`: eight of `a-z2-7`, 40 random bits."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(8))


class JobKind(StrEnum):
    CELL = "cell"
    PROGRAM = "program"
    TERMINAL = "terminal"
    SCRIPT = "script"
    SESSION = "session"
    KERNEL = "kernel"
    LAB = "lab"


class _OfAKind(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Answers of any job what only some kinds say of themselves."""

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


class _Spec(_OfAKind, frozen=True, kw_only=True):
    """What jobs of all kinds can be asked for with. Submitting the same id twice is one job."""

    id: str = field(default_factory=new_id)
    """Eight of `a-z2-7`; ends up in Slurm's job name and comment. Two specs made without one are
    two jobs."""
    name: str
    """Shown to people; letters, digits, `.`, `_`, `-`."""
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
    notebook: str | None = None
    fingerprint: str | None = None
    """Equal for the same code in the same notebook; None: never attach to it."""
    push: str | None = None
    """A folder of this machine: the job runs in a copy of it, made when it is submitted."""
    push_exclude: tuple[str, ...] = ()
    """Patterns as in .gitignore of what stays behind, beside those of its own .gitignore."""
    fetch: tuple[str, ...] = ()
    """Patterns of files, relative to the folder where the job runs, that `Api.fetch` brings."""
    fetch_to: str | None = None
    """The folder of this machine that they come to; None: there is nothing to fetch."""
    slurm_conf: str | None = None
    """SLURM_CONF where it was submitted. The agent does not have it: on this machine it is compared
    with the configuration that the profile leads to."""


class CellSpec(_Spec, frozen=True, kw_only=True, tag="cell"):
    """Python, run by node/runner.py."""

    code: str
    names_in: tuple[str, ...] = ()
    names_out: tuple[str, ...] = ()
    out_format: OutFormat | None = None
    """None: the profile's."""
    inputs: str | None = None
    """A local file in `places.spool_dir()` with the variables in; it is moved into the job dir."""
    inputs_digest: str | None = None
    """Of their values (`jobs.variables.digest_inputs`); None: they are not known."""
    inputs_memory_mib: int = 0
    """What they take as Python's objects, about; 0: that is not known."""
    inputs_python: tuple[int, int] | None = None
    """The Python that wrote `inputs`, where that matters (code travels by value), else None."""
    session: str | None = None
    """The id of the session that the cell runs in; None: in a job of its own."""


class ProgramSpec(_Spec, frozen=True, kw_only=True, tag="program"):
    """Text that starts with `#!`, run as it is inside the image."""

    code: str
    arguments: tuple[str, ...] = ()
    """The words behind its name."""
    on_login: bool = False
    """It is run on the login machine itself and not handed to Slurm: an image is made there."""


class TerminalSpec(_Spec, frozen=True, kw_only=True, tag="terminal"):
    """Text that starts with `#!`, run on a terminal to which somebody comes."""

    code: str
    keep_s: float = 1800.0
    """How long it waits for somebody to come, or to come back."""


class ScriptSpec(_Spec, frozen=True, kw_only=True, tag="script"):
    """A batch script, handed to sbatch as written (%%sbatch)."""

    code: str
    arguments: tuple[str, ...] = ()
    """The words behind its name."""


class SessionSpec(_Spec, frozen=True, kw_only=True, tag="session"):
    """A process on the node that runs cells as they come."""

    code: ClassVar[str] = ""
    idle_s: int
    """After so long without a cell it ends."""


class KernelSpec(_Spec, frozen=True, kw_only=True, tag="kernel"):
    """An ipykernel on the node, for a client here."""

    code: ClassVar[str] = ""
    idle_s: int | None = None
    """After so long with nobody connected it ends; None: the profile says how long."""


class LabSpec(_Spec, frozen=True, kw_only=True, tag="lab"):
    """JupyterLab on the node, run by node/lab.py."""

    code: ClassVar[str] = ""
    idle_s: int | None = None
    """After so long without anybody's doing anything in it it ends; None: the profile says."""
    install: bool = False
    """JupyterLab is installed beside an image that has none, once for all labs."""
    jupyter_base_url: str | None = None
    """That of the Jupyter server which asks for it, where its browsers are on other machines. The
    lab is then shown below it, where the profile lets that be (`lab_same_origin`). None: the
    browser is on this machine."""


JobSpec = CellSpec | ProgramSpec | TerminalSpec | ScriptSpec | SessionSpec | KernelSpec | LabSpec
"""A job as it is asked for. In JSON, `kind` says which."""
SpecT = TypeVar("SpecT", bound=JobSpec)


class _Job(_OfAKind, frozen=True, kw_only=True):
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
    why: Text | None = None
    """The reason as a sentence; after the end, what became of the job."""
    advice: Text | None = None
    """What the user can do about it."""
    warning: Text | None = None
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
    no_requeue: Text | None = None
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
    text: Text | None = None
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


class UsageChanges(Struct, frozen=True, kw_only=True):
    cursor: str
    samples: tuple[UsageSample, ...]
    """After the cursor, the oldest first."""
    job: Job
    end: bool = False
    """The job is final, and nothing more will come."""
    problem: Problem | None = None
    """Why nothing is measured."""
