"""A small Api in memory for tests of front ends; its cluster is `fake`.

Cells run in a thread of this process. Their functions `print`, `display(data, display_id)`,
`update` and `clear` write records, and `linger()` waits until the job is cancelled or `finish` is
called. Variables use real files. test_real.py uses a real cluster.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from jupyter_slurm.errors import NotFoundError, SubmitError
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.variables import read_variables, write_variables
from jupyter_slurm.wire import (
    OUTCOME,
    AgentStatus,
    CellSpec,
    Check,
    ClearOutput,
    Cluster,
    ClusterInfo,
    CommandOutput,
    Cost,
    DashboardName,
    Description,
    DisplayData,
    Earlier,
    ErrorOutput,
    ExecuteResult,
    Folder,
    Job,
    JobDetails,
    JobSpec,
    JobState,
    JobVerb,
    LabEntry,
    ListedJob,
    LogChunk,
    Output,
    Partition,
    Preview,
    ProgramSpec,
    Refusal,
    Result,
    Row,
    Show,
    Stream,
    UpdateDisplayData,
)
from tests.far import FarSide
from tests.file_side import FileSide
from tests.image_side import ImageSide
from tests.job_side import STATUS, JobSide
from tests.queue_side import QueueSide


class FakeApi(FarSide, FileSide, ImageSide, JobSide, QueueSide):
    """The part of `Api` that front ends use. `calls` records the calls in order."""

    def __init__(self, folder: Path) -> None:
        FarSide.__init__(self)
        ImageSide.__init__(self)
        JobSide.__init__(self)
        QueueSide.__init__(self)
        self.folder = folder
        self.calls: list[str] = []
        self.specs: dict[str, JobSpec] = {}
        self.refuse: str | None = None
        self.show: Show = "full"
        self.call_wait_s = 0.01
        self.command_output = CommandOutput(argv=(), returncode=0, stdout="", stderr="")
        self.description = Description(
            name="fake",
            sbatch="/usr/bin/sbatch",
            runtimes=("charliecloud", "docker"),
            modules=True,
            python="3.9",
            folders=(
                Folder(
                    name="$HOME",
                    path="/home/alice",
                    writable=True,
                    file_system="nfs",
                    free_mib=2048,
                    shared=True,
                ),
                Folder(
                    name="$SCRATCH",
                    path="/scratch/my data",
                    writable=True,
                    file_system="lustre",
                    free_mib=900_000,
                    shared=True,
                ),
            ),
        )
        self._outputs: dict[str, list[Output]] = {}
        self._results: dict[str, Result] = {}
        self._lingering: dict[str, threading.Event] = {}
        self._threads: list[threading.Thread] = []

    # --- for tests ---

    def close(self) -> None:
        """End every job."""
        for lingering in self._lingering.values():
            lingering.set()
        for thread in self._threads:
            thread.join()

    def emit(self, job_id: str, output: Output) -> None:
        with self._changed:
            self._outputs[job_id].append(output)
            self._changed.notify_all()

    def finish(self, job_id: str) -> None:
        self._lingering[job_id].set()

    def until(self, what: Callable[[FakeApi], bool], timeout_s: float = 60.0) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: what(self), timeout_s)

    def kill(self, job_id: str, state: JobState, why: str, advice: str | None = None) -> None:
        """End the job as Slurm would, without a result."""
        self._results[job_id] = Result(job=self._jobs[job_id], status="none")
        now_s = time.time()
        self.change(job_id, state=state, why=why, advice=advice, ended_s=now_s)

    # --- Api ---

    def clusters(self) -> list[Cluster]:
        return [
            Cluster(
                name="fake",
                host=None,
                runtime="none",
                origin="tests",
                default=True,
                images=("python:3.11",),
            ),
            Cluster(name="other", host="far", runtime="none", origin="tests", default=False),
        ]

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        self.far()
        partition = Partition(
            name="gpu", default=True, up=True, limit_s=3600, nodes=2, idle_nodes=1, gpus=8
        )
        return ClusterInfo(
            name=cluster or "fake",
            slurm_version="22.05.8",
            partitions=(partition,),
            accounting=True,
            accounts=("physics",),
            qos=("normal",),
            asked_s=time.time(),
        )

    def doctor(self, cluster: str | None = None) -> list[Check]:
        self.far()
        return [
            Check(ok=True, sentence=f"{cluster or 'fake'} answers."),
            Check(ok=False, sentence="No GPUs.", hint="Request one."),
        ]

    def describe(self, cluster: str | None = None) -> Description:
        self.far()
        return self.description

    def submit(self, spec: JobSpec) -> Job:
        self.far()
        self.calls.append("submit")
        if self.refuse:
            raise SubmitError(self.refuse)
        if spec.session is not None:
            self.job(spec.session)
        self.specs[spec.id] = spec
        job: Job = kind_of(spec).recorded(
            spec,
            cluster=spec.cluster or "fake",
            state=JobState.RUNNING,
            slurm_id=str(100 + len(self.specs)),
            started_s=time.time(),
            nodes=("n1",),
        )
        with self._changed:
            self._outputs[spec.id] = []
            self._lingering[spec.id] = threading.Event()
            job = self.put(job)
        written = spec.inputs if isinstance(spec, CellSpec) else None
        inputs = read_variables(Path(written))[0] if written else {}
        thread = threading.Thread(target=self._run, args=(spec, inputs), daemon=True)
        self._threads.append(thread)
        thread.start()
        return job

    def details(self, job_id: str) -> JobDetails:
        job = self.job(job_id)
        return JobDetails(job=job, code=self.specs[job.id].code)

    def preview(self, spec: JobSpec) -> Preview:
        return Preview(
            cluster="fake",
            script=f"#!/bin/sh\n# {spec.name}",
            sbatch=("sbatch", *(f"--{key}={value}" for key, value in spec.options.items())),
            job_dir="/jobs/x",
            files=("cell.py",),
            variables=("A", "B"),
            cost=Cost(limit_s=3600, cpu_hours=1, gpu_hours=1, units=12, unit="UA", jobs=3),
            checks=(Check(ok=None, sentence="All is free.", hint="Now."),),
            start_estimate_s=time.time(),
        )

    def attachable(self, spec: JobSpec) -> Earlier | None:
        """Return an earlier job with the same code."""
        for job in reversed(self._jobs.values()):
            same = (job.fingerprint, job.notebook) == (spec.fingerprint, spec.notebook)
            if same and job.state is not JobState.CANCELLED:
                return None if job.state.final and job.delivered else Earlier(job=job)
        return None

    def job(self, job_id: str) -> Job:
        for job in self._jobs.values():
            if job_id in (job.id, job.slurm_id):
                return job
        raise NotFoundError(f"Job {job_id} not found.")

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        at, revision = map(int, cursor.split(".")) if cursor else (0, 0)
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    len(self._outputs[job_id]) > at
                    or self._jobs[job_id].revision > revision
                    or self._jobs[job_id].state.final
                ),
                wait_s,
            )
            job, outputs = self._jobs[job_id], list(self._outputs[job_id][at:])
        kept, skipped_bytes = within(outputs, budget_bytes)
        return LogChunk(
            job=job,
            outputs=tuple(kept),
            cursor=f"{at + len(outputs)}.{job.revision}",
            skipped_bytes=skipped_bytes,
            end=job.state.final,
            show=self.show,
        )

    def result(self, job_id: str) -> Result:
        self.far()
        self.calls.append("result")
        result = self._results[job_id]
        return msgspec.structs.replace(result, job=self._jobs[job_id])

    def submit_call(self, spec: CellSpec) -> Result:
        self.submit(spec)
        with self._changed:
            self._changed.wait_for(lambda: self._jobs[spec.id].state.final, self.call_wait_s)
        job = self.job(spec.id)
        if not job.state.final:
            return Result(job=job, status="none")
        self.change(job.id, delivered=True)
        return self.result(job.id)

    def delivered(self, job_id: str, others: tuple[str, ...] = ()) -> Job:
        self.calls.append("delivered")
        for other_id in others:
            self.change(other_id, delivered=True)
        return self.change(job_id, delivered=True)

    def lab_entry(self, job_id: str) -> LabEntry:
        job = self.job(job_id)
        assert job.lab is not None
        return LabEntry(login_url=f"{job.lab.url}login?next=%2Flab", token="t" * 64)

    def shell(self, spec: ProgramSpec) -> list[str]:
        return ["true", spec.name]

    def shell_in_job(self, job_id: str, code: str, node: str | None = None) -> list[str]:
        return ["true", self.job(job_id).name]

    def dashboard_entry(self, job_id: str, name: DashboardName, wait_s: float = 0.0) -> LabEntry:
        host = f"{name}-{self.job(job_id).id}.localhost"
        token = "d" * 64 if name == "ray" else ""
        return LabEntry(login_url=f"http://{host}:4001/", token=token)

    def cancel(self, job_id: str) -> Job:
        self.far()
        self.calls.append("cancel")
        job = self.job(job_id)
        self.change(job.id, cancel_requested_s=time.time())
        self.kill(job.id, JobState.CANCELLED, "It was cancelled by you.")
        return self.job(job.id)

    def control_jobs(
        self,
        verb: JobVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> list[Refusal]:
        self.calls.append("control_jobs")
        return super().control_jobs(verb, job_ids, slurm_ids, cluster)

    def requeue(self, job_id: str) -> Job:
        self.job(job_id)
        return self.change(job_id, state=JobState.REQUEUED, nodes=(), started_s=None)

    def why(self, job_id: str) -> Job:
        return self.change(self.job(job_id).id, why="It waits for a node.")

    def forget(self, job_id: str) -> None:
        job = self.job(job_id)
        self.finish(job.id)
        self.change(job.id, state=JobState.CANCELLED, ended_s=time.time())
        self.remove(job.id)

    def queue(self, cluster: str | None = None) -> list[Row]:
        self.far()
        return [
            ListedJob(
                cluster="fake",
                slurm_id="900",
                state="PENDING",
                name="<b>their job</b>\x1b[31m",
                user="ana",
                partition="gpu",
                reason="Resources",
                why="It waits for free nodes.",
            )
        ]

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        self.far()
        self.calls.append(" ".join(argv))
        return msgspec.structs.replace(self.command_output, argv=tuple(argv))

    def status(self) -> AgentStatus:
        return STATUS

    # --- the job ---

    def _run(self, spec: JobSpec, inputs: dict[str, object]) -> None:
        space = {"__name__": "__main__", **self._tools(spec.id), **inputs}
        try:
            exec(compile(spec.code or "linger()", f"slurm cell {spec.id}", "exec"), space)
        except BaseException as exc:
            lines = tuple(traceback.format_exc().splitlines())
            error = ErrorOutput(ename=type(exc).__name__, evalue=str(exc), traceback=lines)
            self.emit(spec.id, error)
            exit_code = exc.code if isinstance(exc, SystemExit) else 1
            self._end(spec, JobState.FAILED, int(exit_code or 0), space={OUTCOME: exc}, error=error)
            return
        self._end(spec, JobState.COMPLETED, 0, space=space)

    def _end(
        self,
        spec: JobSpec,
        state: JobState,
        exit_code: int,
        *,
        space: dict[str, Any] | None = None,
        error: ErrorOutput | None = None,
    ) -> None:
        with self._changed:  # the job cannot be forgotten during this block
            if spec.id not in self._jobs or self._jobs[spec.id].state.final:
                return
            names = _names_out(spec)
            there = [name for name in names if space and name in space]
            path = self.folder / f"{spec.id}.out"
            if there and space is not None:
                write_variables(path, there, space)
            self._results[spec.id] = Result(
                job=self._jobs[spec.id],
                status="error" if error else "ok",
                ename=error.ename if error else None,
                evalue=error.evalue if error else None,
                traceback=error.traceback if error else (),
                variables=str(path) if there else None,
                names=tuple(there),
                failed={}
                if error
                else {name: "the cell did not set it" for name in names if name not in there},
            )
            self.change(spec.id, state=state, exit_code=exit_code, ended_s=time.time())

    def _tools(self, job_id: str) -> dict[str, Any]:
        def show(data: dict[str, Any], display_id: str | None = None) -> None:
            self.emit(job_id, DisplayData(data=data, display_id=display_id))

        def update(data: dict[str, Any], display_id: str) -> None:
            self.emit(job_id, UpdateDisplayData(data=data, display_id=display_id))

        def write(*words: object, end: str = "\n", name: Any = "stdout") -> None:
            text = " ".join(map(str, words)) + end
            self.emit(job_id, Stream(name=name, text=text))

        return {
            "print": write,
            "display": show,
            "update": update,
            "clear": lambda wait=False: self.emit(job_id, ClearOutput(wait=wait)),
            "value": lambda text: self.emit(job_id, ExecuteResult(data={"text/plain": text})),
            "linger": lambda: self._lingering[job_id].wait(60),
        }


def within(outputs: list[Output], budget_bytes: int | None) -> tuple[list[Output], int]:
    """Return the newest stream text that fits, all other outputs, and the size of the omitted
    text."""
    left = float("inf") if budget_bytes is None else budget_bytes
    kept: list[Output] = []
    skipped_bytes = 0
    for output in reversed(outputs):
        if isinstance(output, Stream):
            size_bytes = len(output.text.encode("utf-8", "replace"))
            left -= size_bytes
            if left < 0:
                skipped_bytes += size_bytes
                continue
        kept.append(output)
    return kept[::-1], skipped_bytes


def _names_out(spec: JobSpec) -> tuple[str, ...]:
    return spec.names_out if isinstance(spec, CellSpec) else ()
