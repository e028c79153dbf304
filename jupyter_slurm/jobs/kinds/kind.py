"""Define what of a job its kind decides, and what holds where a kind says nothing itself. PURE."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.wire import DashboardName, Job, JobSpec, JobState, SpecT

if TYPE_CHECKING:
    from jupyter_slurm.jobs.outcome.verdict import Evidence
    from jupyter_slurm.jobs.submission.resolved import Resolved
    from jupyter_slurm.profiles.profile import ClusterProfile

Files = Mapping[str, bytes | Path]
"""Name in the job's folder -> content, or a local file to move there."""
Explained = tuple[str, str]
"""Why a job failed, and what to do."""
RANKED = ("torchrun", "mpi")
"""The engines that run the code in each of many ranks; with the others it runs once."""
PROGRESS_BYTES = 4096
"""Limits what is read of the end of a progress file; its last line always fits."""


_WITH_DASHBOARD: tuple[DashboardName, ...] = ("ray", "dask")
"""The engines that have one."""


SUCCEEDED = "Succeeded."
SHUT_DOWN = "Shut down."
"""The end of a lab, a session or a kernel by its user, whichever way."""


class Kind(Generic[SpecT]):
    """One kind of job, without any state. The defaults are those of a program that just runs."""

    __slots__ = ()

    spec: ClassVar[type[JobSpec]]
    """The spec that asks for a job of this kind: `SpecT`."""
    job: ClassVar[type[Job]]
    """The struct of such a job."""

    # --- its words ---
    noun: ClassVar[str] = "job"
    """Names a job of this kind in a sentence."""
    idle_without: ClassVar[str] = "without a cell"
    """Completes `ends after 30 min …`, where a job ends when it is idle."""

    # --- what its spec may hold ---
    is_raw_script: ClassVar[bool] = False
    """It is handed to sbatch as its user wrote it, with no script and no file of ours: only Slurm
    knows its name, start, output, usage and end."""
    is_python: ClassVar[bool] = False
    """Its code is Python, compiled before it is sent: variables travel, a session can run it."""
    takes_arguments: ClassVar[bool] = False
    """Words may follow its code, after `--`."""
    starts_tasks: ClassVar[bool] = False
    """The job's text may start tasks on other nodes. The GPUs of any other job must be on one."""
    makes_images: ClassVar[bool] = False
    """Images are made by such jobs, also on the login machine; its log says where that failed."""
    is_in_home: ClassVar[bool] = False
    """On another machine it runs in the home, for what is written in it is to stay."""

    identified_by: ClassVar[tuple[str, ...]] = ()
    """Names what of its own in its spec makes it another job than the same cell's earlier one."""

    # --- what it is on the node ---
    runner: ClassVar[str | None] = None
    """Names our program that the image's Python runs as the one process; None: its code runs."""
    rank_runner: ClassVar[str | None] = None
    """Names that program where a launcher starts it in each of many ranks; None: it cannot."""
    code_file: ClassVar[str | None] = None
    """Names the file with the user's code, or None where the user writes none."""
    node_files: ClassVar[tuple[str, ...]] = ()
    """Names the files of node/ that it runs, or how their names begin."""
    uses_runner: ClassVar[bool] = False
    """node/runner.py runs its code: what that shows are records, its log is the tools' alone, and
    signals interrupt it."""
    listens: ClassVar[bool] = False
    """It listens at the socket `socket_name` for a kernel's client."""
    accepts_cells: ClassVar[bool] = False
    """Cells are sent to it while it runs; what happens to it happens to them."""
    is_web_server: ClassVar[bool] = False
    """Browsers go there: it gets a port on this machine, or an address below a hub's."""

    # --- its end ---
    has_result: ClassVar[bool] = False
    """It says itself whether it went well, and what it used; of others the exit code is all."""
    is_service: ClassVar[bool] = False
    """It goes on until it is stopped, idle or out of time: nobody waits for an outcome."""
    at_end: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Fields of `job` that its end changes in the same moment."""
    failures: ClassVar[Mapping[int, Explained]] = MappingProxyType({})
    """Its own exit codes, beside those of the script around it."""

    def check(self, spec: SpecT) -> None:
        """Raise RequestError where a job of this kind could not be given `spec` unchanged."""
        if self.code_file == layout.PROGRAM and not spec.code.startswith("#!"):
            raise RequestError("A program begins with `#!` and its interpreter, e.g. `#!/bin/sh`.")

    def completed(self, spec: SpecT, profile: ClusterProfile) -> SpecT:
        """Return the spec with what the profile says of settings that it leaves open."""
        return spec

    def recorded(self, spec: SpecT, **known: Any) -> Job:
        """Return the job as it is first recorded: with what its spec says of it, which is
        completed, and with what else is known of it."""
        both = {*self.spec.__struct_fields__} & {*self.job.__struct_fields__}
        now_s = time.time()
        told = {"state": JobState.SUBMITTING, "created_s": now_s, "state_since_s": now_s}
        said = {name: one for name in both if (one := getattr(spec, name)) is not None}
        return self.job(**{**told, **said, **known})

    def files(self, spec: SpecT, job: Resolved) -> Files:
        """Return what lies in its folder beside what every job has there, its key still empty.
        `spec` is the job's."""
        # Front ends read traits and send nothing; payload loads importlib.metadata, which is slow.
        from jupyter_slurm.jobs.submission.payload import node_files  # noqa: PLC0415

        code = {self.code_file: spec.code.encode()} if self.code_file else {}
        return code | {n: text for one in self.node_files for n, text in node_files(one).items()}

    def dashboards(self, job: SpecT | Job) -> tuple[DashboardName, ...]:
        """Name the dashboards that such a job has while it runs."""
        return tuple(name for name in _WITH_DASHBOARD if name == job.launch)

    def progress_file(self, job: Job, folder: JobDir) -> PurePosixPath | None:
        """Return the file in which it tells how far it is; None: it does not."""
        return None

    def progress(self, job: Job, tail: bytes) -> dict[str, Any]:
        """Return what the end of that file says of a job that has not ended: fields of `Job`."""
        return {}

    def on_requeue(self, job: Job) -> dict[str, Any]:
        """Return what the queue's having it again makes of it: fields of `Job`."""
        return {}

    def success_reason(self, evidence: Evidence) -> str:
        """Return the reason why a job that succeeded is over."""
        return SUCCEEDED

    def cause(self, evidence: Evidence) -> str | None:
        """Return the probable cause of the code's failure, as far as the job has told it. None: it
        has told none."""
        return None

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        """Explain, by the end of its log, what the job did not find where it ran; None: that was
        not it. `bare`: on the node, in no image."""
        return None


def socket_name(job_id: str) -> str:
    """Name the socket where the kernel of a job listens."""
    return f"jslurm-{job_id}"
