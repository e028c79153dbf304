"""What a job is asked for with: a part that all kinds have, and one struct for each kind."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import ClassVar, Literal, TypeVar

from msgspec import Struct, field

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


class _Spec(Struct, frozen=True, kw_only=True, tag_field="kind"):
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

    @property
    def kind(self) -> JobKind:
        return JobKind(str(self.__struct_config__.tag))

    @property
    def session(self) -> str | None:
        """Return the id of the session that it is to run in, as cells may."""
        return None

    @property
    def on_login(self) -> bool:
        """Tell whether it is to run on the login machine, as programs may."""
        return False


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
