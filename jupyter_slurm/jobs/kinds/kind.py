"""The base classes of all kinds of jobs, with the defaults. No I/O."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.wire import DashboardName, Job, JobSpec, JobState, SpecT

if TYPE_CHECKING:
    from jupyter_slurm.jobs.outcome.verdict import Evidence
    from jupyter_slurm.jobs.submission.resolve import Resolved
    from jupyter_slurm.profiles.profile import ClusterProfile

Files = Mapping[str, bytes | Path]
"""File contents, or local files to move, by name in the job's folder."""
Explained = tuple[str, str]
"""The reason for a failure, and a hint."""
RANKED = ("torchrun", "mpi")
"""The launchers that run the code in each of many ranks."""
PROGRESS_BYTES = 4096
"""Bytes to read from the end of a progress file."""
_NO_PYTHON = re.compile(
    r"^\S*sh: .*exec: (?:line \d+: )?(?P<python>.+?): (?:not found|.*No such file)", re.MULTILINE
)
"""The error of dash, bash and busybox if Python is missing."""
_OLD_PYTHON = re.compile(
    r"^jupyter-slurm: this is (?P<python>Python \S+), and a cell needs", re.MULTILINE
)
"""The error of `node/runner.py` if Python is too old."""
_WITH_DASHBOARD: tuple[DashboardName, ...] = ("ray", "dask")
"""The engines with a dashboard."""


SUCCEEDED = "Succeeded."
SHUT_DOWN = "Shut down."
"""The message when a user ends a lab, a session or a kernel."""


class Kind(Generic[SpecT]):
    """One kind of job, without state. The defaults describe a program."""

    __slots__ = ()

    spec: ClassVar[type[JobSpec]]
    """The class of the job's spec, `SpecT`."""
    job: ClassVar[type[Job]]
    """The subclass of `Job` for this kind."""

    # --- texts for users ---
    noun: ClassVar[str] = "job"
    """The noun for the job in sentences."""
    idle_without: ClassVar[str] = "without a cell"
    """The end of the sentence `ends after 30 min …`, for jobs with an idle time."""

    # --- the spec ---
    is_raw_script: ClassVar[bool] = False
    """Set if the script is passed to sbatch unchanged. Only Slurm then records the job's start, end
    and usage."""
    is_python: ClassVar[bool] = False
    """Set for Python code. It is checked before submission, can have variables, and can run in a
    session."""
    takes_arguments: ClassVar[bool] = False
    """Set if the job may have arguments after `--`."""
    starts_tasks: ClassVar[bool] = False
    """Set if the job may start tasks on other nodes. Otherwise all of its GPUs must be on one node.
    """
    makes_images: ClassVar[bool] = False
    """Set if the job may build images or install packages, also on the login node."""
    needs_packages: ClassVar[tuple[str, ...]] = ()
    """Packages that our program imports, in addition to the user's packages."""
    has_tasks: ClassVar[bool] = False
    """Set if the code runs once for each task, in job arrays."""
    is_in_home: ClassVar[bool] = False
    """Set if the job runs in the home folder on a remote cluster, because its files must remain."""

    identified_by: ClassVar[tuple[str, ...]] = ()
    """Spec fields that distinguish a job from an earlier job of the same cell."""

    # --- on the node ---
    runner: ClassVar[str | None] = None
    """Our program that runs the code; None if the code is the program."""
    rank_runner: ClassVar[str | None] = None
    """Our program that runs in each of many ranks; None if the job cannot have ranks."""
    code_file: ClassVar[str | None] = None
    """The file with the user's code; None if the job has no code."""
    node_files: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the names of the job's files in node/."""
    uses_runner: ClassVar[bool] = False
    """Set if node/runner.py runs the code. It writes output records and handles interrupts."""
    listens: ClassVar[bool] = False
    """Set if the job listens on the socket `socket_name` for a kernel client."""
    accepts_cells: ClassVar[bool] = False
    """Set if the job runs cells on request."""
    is_web_server: ClassVar[bool] = False
    """Set for a web server. It gets a port on this machine, and may get a URL below the URL of a
    Jupyter server."""

    # --- the end of the job ---
    has_result: ClassVar[bool] = False
    """Set if the job writes a result. Other jobs have only an exit code."""
    is_service: ClassVar[bool] = False
    """Set if the job runs until it is stopped, idle or out of time."""
    at_end: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Fields of `job` to set at the end."""
    failures: ClassVar[Mapping[int, Explained]] = MappingProxyType({})
    """Explanations of this kind's own exit codes. `submission/script.py` explains the script's exit
    codes."""

    def check(self, spec: SpecT) -> None:
        """Raise RequestError if `spec` is invalid."""
        if self.code_file == layout.PROGRAM and not spec.code.startswith("#!"):
            raise RequestError(
                "A program must begin with `#!` and its interpreter, e.g. `#!/bin/sh`."
            )

    def completed(self, spec: SpecT, profile: ClusterProfile) -> SpecT:
        """Return the spec with the profile's defaults."""
        return spec

    def recorded(self, spec: SpecT, **known: Any) -> Job:
        """Return the `Job` for a new job. `spec` is complete; `known` contains the other fields."""
        both = {*self.spec.__struct_fields__} & {*self.job.__struct_fields__}
        now_s = time.time()
        told = {"state": JobState.SUBMITTING, "created_s": now_s, "state_since_s": now_s}
        said = {name: one for name in both if (one := getattr(spec, name)) is not None}
        return self.job(**{**told, **said, **known})

    def files(self, spec: SpecT, job: Resolved) -> Files:
        """Return the files of a job with this spec. The key file, if any, is empty."""
        code = {self.code_file: spec.code.encode()} if self.code_file else {}
        return code | {n: text for one in self.node_files for n, text in node_files(one).items()}

    def dashboards(self, job: SpecT | Job) -> tuple[DashboardName, ...]:
        """Return the names of the job's dashboards."""
        return tuple(name for name in _WITH_DASHBOARD if name == job.launch)

    def progress_file(self, job: Job, folder: JobDir) -> PurePosixPath | None:
        """Return the file with the job's progress; None if the job does not write progress."""
        return None

    def progress(self, job: Job, tail: bytes) -> dict[str, Any]:
        """Return fields of a running `Job` from the end of the progress file."""
        return {}

    def on_requeue(self, job: Job) -> dict[str, Any]:
        """Return the fields to change when the job is requeued."""
        return {}

    def success_reason(self, evidence: Evidence) -> str:
        """Explain the end of a job that succeeded."""
        return SUCCEEDED

    def cause(self, evidence: Evidence) -> str | None:
        """Return the probable cause of a failure of the code, from the job's progress; None if
        unknown."""
        return None

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        """Explain from the log which requirement the node did not meet. Return None for other
        failures. `bare` is set for a job without an image."""
        return None


class ByPython(Kind[SpecT]):
    """A kind that runs our program (`runner`) with Python."""

    __slots__ = ()

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        missing, old = _NO_PYTHON.search(log_tail), _OLD_PYTHON.search(log_tail)
        if old:
            why = f"A cell needs Python 3.6 or later. This is {old['python']}."
        elif missing and bare:
            why = f"The node has no {missing['python']}."
        elif missing:
            why = "The image has no Python."
        else:
            return None
        if bare:
            return why, (
                "Set `python` in the cluster's profile, or load a module with Python (--module)."
            )
        return why, ("Use an image with python3 (3.6 or later), or start the cell with #!/bin/sh.")


@cache
def node_files(beginning: str) -> Mapping[str, bytes]:
    """Return the contents of files in node/ whose names begin with `beginning`, by file name."""
    from importlib import resources  # noqa: PLC0415 - front ends do not need it

    folder = resources.files("jupyter_slurm") / "node"
    return {
        entry.name: entry.read_bytes()
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.startswith(beginning) and entry.name.endswith((".py", ".js", ".json"))
    }


def socket_name(job_id: str) -> str:
    """Return the name of the kernel's abstract socket."""
    return f"jslurm-{job_id}"
