"""An agent that tests can break: the real process around an Api in memory.

As a program it runs `python -m jupyter_slurm.agent` with that service. Some job IDs and options
make calls misbehave: see `MemoryService.job` and `submit`.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Literal

import msgspec

from jupyter_slurm.agent.__main__ import main
from jupyter_slurm.errors import (
    ConfigError,
    ForwardError,
    NotFoundError,
    RequestError,
    SubmitError,
)
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.wire import (
    AgentStatus,
    CellSpec,
    Check,
    Cluster,
    ClusterInfo,
    CommandOutput,
    Connection,
    ConnectionState,
    DashboardName,
    Description,
    Earlier,
    Image,
    ImageBuild,
    ImageOrigin,
    ImageRemoval,
    ImageSpec,
    InstalledEnvironment,
    Job,
    JobDetails,
    JobPriority,
    JobSpec,
    JobState,
    LabEntry,
    LogChunk,
    Preview,
    ProgramSpec,
    Result,
    Row,
    Stream,
    Transfer,
    TransferState,
    Tunnel,
)
from tests.file_side import FileSide
from tests.job_side import STATUS, JobSide
from tests.queue_side import QueueSide

SCRIPT = Path(__file__)
LIVE_VARIABLE = "JUPYTER_SLURM_TEST_LIVE"
LABS_VARIABLE = "JUPYTER_SLURM_TEST_LABS"
"""Environment variable for the path of a JSON file. The file has the results of `lab_entry` by job
ID and the results of `dashboard_entry` by ID/NAME."""
BROKEN_VARIABLE = "JUPYTER_SLURM_TEST_BROKEN"


class MemoryService(FileSide, JobSide, QueueSide):
    """Jobs in this process. They run when submitted, and print their code."""

    def __init__(self) -> None:
        if os.environ.get(BROKEN_VARIABLE):
            raise ConfigError("clusters.toml, line 3: no.", hint="Fix it.")
        JobSide.__init__(self)
        QueueSide.__init__(self)
        self._live = int(os.environ.get(LIVE_VARIABLE, "0"))
        self._code: dict[str, str] = {}
        self._left: list[str] = []

    # --- what the agent needs in addition to Api ---
    def kernel(self, job_id: str) -> socket.socket:
        """Return a socket that echoes all data."""
        if job_id == "nojob":
            raise NotFoundError("Job nojob not found.")
        near, far = socket.socketpair()
        threading.Thread(target=_echo, args=[far], daemon=True).start()
        return near

    def needed(self, quiet_s: float) -> bool:
        return self._live > 0

    def left(self, caller: str) -> None:
        with self._changed:
            self._left.append(caller)
            self._changed.notify_all()

    def wake_waiters(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        self.wake_waiters()

    # --- clusters ---
    def clusters(self) -> list[Cluster]:
        return [
            Cluster(name="here", host=None, runtime="none", origin="memory", default=True),
            Cluster(name="arandu", host="arandu", runtime="docker", origin="ü.toml", default=False),
        ]

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        name = cluster or "here"
        return ClusterInfo(
            name=name, slurm_version="22.05", partitions=(), accounting=False, asked_s=0.0
        )

    def doctor(self, cluster: str | None = None) -> list[Check]:
        return [Check(ok=None, sentence=f"{cluster} is in memory.")]

    def describe(self, cluster: str | None = None) -> Description:
        return Description(
            name=cluster or "here", sbatch=None, runtimes=(), modules=False, python=None, folders=()
        )

    # --- connections: the cluster is this process ---
    def connect(
        self, cluster: str | None = None, caller: str = "", wait_s: float = 0.0
    ) -> Connection:
        return Connection(cluster=cluster or "here", state=ConnectionState.LOCAL, since_s=0.0)

    def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
        return self.connect()

    def disconnect(self, cluster: str | None = None) -> Connection:
        return self.connect(cluster)

    def connections(self) -> list[Connection]:
        """Return the only cluster's connection, and a connection for each disconnected caller."""
        return [self.connect(), *map(self.connect, self._left)]

    # --- tunnels ---
    def forward(
        self,
        host: str,
        port: int,
        cluster: str | None = None,
        job_id: str | None = None,
        local_port: int = 0,
    ) -> Tunnel:
        raise ForwardError(f"{host}:{port} cannot be reached from memory.")

    def tunnels(self) -> list[Tunnel]:
        return []

    def close_tunnel(self, tunnel_id: str) -> None:
        raise NotFoundError(f"Tunnel {tunnel_id} not found.")

    # --- files: nothing is transferred ---
    def push(
        self,
        local: str,
        remote: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        return _sent("push", local, remote)

    def pull(
        self,
        remote: str,
        local: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        return _sent("pull", local, remote)

    def fetch(self, job_id: str) -> Transfer:
        return _sent("pull", "/", f"/{self.job(job_id).id}")

    def transfer(self, transfer_id: str, wait_s: float = 0.0) -> Transfer:
        return _sent("push", "/", "/")

    def stop_transfer(self, transfer_id: str) -> Transfer:
        return _sent("push", "/", "/")

    # --- jobs ---
    def submit(self, spec: JobSpec) -> Job:
        if spec.options.get("time") == "never":
            raise SubmitError("sbatch refused the job.", hint="Give a time.", detail="sbatch: no")
        if "gate" in spec.options:
            _wait_at(Path(spec.options["gate"]))
        with self._changed:
            if spec.id not in self._jobs:
                self._code[spec.id] = spec.code
                self.put(
                    kind_of(spec).recorded(
                        spec,
                        cluster=spec.cluster or "here",
                        state=JobState.RUNNING,
                        slurm_id=str(len(self._jobs) + 1),
                    )
                )
            return self._jobs[spec.id]

    def priorities(self, job_id: str) -> list[JobPriority]:
        self.job(job_id)
        return super().priorities(job_id)

    def details(self, job_id: str) -> JobDetails:
        job = self.job(job_id)
        return JobDetails(job=job, code=self._code[job.id])

    def preview(self, spec: JobSpec) -> Preview:
        return Preview(
            cluster="here",
            script=spec.code,
            sbatch=("sbatch",),
            job_dir="~/j",
            files=(),
            start_estimate_s=0.0,
        )

    def attachable(self, spec: JobSpec) -> Earlier | None:
        same = [
            job
            for job in self._jobs.values()
            if (job.fingerprint, job.notebook) == (spec.fingerprint, spec.notebook)
            and job.state is not JobState.CANCELLED
        ]
        return Earlier(job=same[-1]) if same and not same[-1].delivered else None

    def job(self, job_id: str) -> Job:
        if job_id == "dies":
            os._exit(9)
        if job_id == "a bug":
            raise ZeroDivisionError(f"while running {job_id}")
        if job_id not in self._jobs:
            raise NotFoundError(f"Job {job_id!r} not found.", hint="List them with `%slurm jobs`.")
        return self._jobs[job_id]

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        job = self.job(job_id)
        outputs = () if cursor else (Stream(name="stdout", text=self._code[job.id]),)
        return LogChunk(job=job, outputs=outputs, cursor="1", end=job.state.final)

    def submit_call(self, spec: CellSpec) -> Result:
        return Result(job=self.submit(spec), status="none")

    def result(self, job_id: str) -> Result:
        job = self.job(job_id)
        if not job.state.final:
            raise RequestError(f"Job {job_id} has not ended.")
        return Result(job=job, status="killed")

    def delivered(self, job_id: str, others: tuple[str, ...] = ()) -> Job:
        for other_id in others:
            self.change(other_id, delivered=True)
        return self.change(job_id, delivered=True)

    def lab_entry(self, job_id: str) -> LabEntry:
        if LABS_VARIABLE in os.environ:
            return self._told(job_id)
        return LabEntry(login_url=f"http://lab-{job_id}.localhost:4000/login", token="t" * 64)

    def shell(self, spec: ProgramSpec) -> list[str]:
        return ["true", spec.name]

    def shell_in_job(self, job_id: str, code: str, node: str | None = None) -> list[str]:
        return ["true", self.job(job_id).name]

    def dashboard_entry(self, job_id: str, name: DashboardName, wait_s: float = 0.0) -> LabEntry:
        if LABS_VARIABLE in os.environ:
            return self._told(f"{job_id}/{name}")
        host = f"{name}-{self.job(job_id).id}.localhost"
        token = "d" * 64 if name == "ray" else ""
        return LabEntry(login_url=f"http://{host}:4001/", token=token)

    def _told(self, which: str) -> LabEntry:
        labs = Path(os.environ[LABS_VARIABLE])
        known = msgspec.json.decode(labs.read_bytes(), type=dict[str, LabEntry])
        if which not in known:
            raise NotFoundError(f"Job {which!r} not found.")
        return known[which]

    def cancel(self, job_id: str) -> Job:
        return self.change(self.job(job_id).id, state=JobState.CANCELLED)

    def requeue(self, job_id: str) -> Job:
        return self.change(job_id, state=JobState.PENDING, restarts=1)

    def why(self, job_id: str) -> Job:
        return self.change(job_id, why="It runs.")

    def forget(self, job_id: str) -> None:
        if not self.job(job_id).state.final:
            raise RequestError(f"Job {job_id} has not ended.", hint="Cancel it first.")
        self.remove(job_id)

    # --- images ---
    def images(self, cluster: str | None = None) -> list[Image]:
        return []

    def make_image(self, spec: ImageSpec) -> ImageBuild:
        job = self.submit(CellSpec(id=spec.id, name="image", code=spec.recipe or ""))
        image = Image(name=spec.name, origin=ImageOrigin.BUILT, path="/images/mine")
        return ImageBuild(image=image, job=job)

    def remove_image(self, name: str, cluster: str | None = None) -> ImageRemoval:
        raise NotFoundError(f"Image {name!r} not found.")

    def environments(self, cluster: str | None = None) -> list[InstalledEnvironment]:
        return []

    def remove_environments(
        self, ids: list[str], cluster: str | None = None, unused_s: float | None = None
    ) -> list[InstalledEnvironment]:
        return []

    # --- the queue ---
    def queue(self, cluster: str | None = None) -> list[Row]:
        return [
            msgspec.structs.replace(job, user="ada", partition="all") for job in self.jobs(cluster)
        ]

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        return CommandOutput(argv=tuple(argv), returncode=0, stdout="\t".join(argv), stderr="")

    # --- the agent ---
    def status(self) -> AgentStatus:
        return msgspec.structs.replace(STATUS, live_jobs=self._live, commands={"here squeue": 3})


def _sent(direction: Literal["push", "pull"], local: str, remote: str) -> Transfer:
    return Transfer(
        id="sent",
        cluster="here",
        direction=direction,
        local=local,
        remote=remote,
        state=TransferState.DONE,
        began_s=0.0,
        ended_s=0.0,
    )


def _echo(sock: socket.socket) -> None:
    with sock:
        while data := sock.recv(1 << 16):
            sock.sendall(data)


def _wait_at(gate: Path) -> None:
    """Report a call at the `gate`, and wait until the file `gate`.open exists."""
    gate.touch()
    while not gate.with_suffix(".open").exists():
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], MemoryService))
