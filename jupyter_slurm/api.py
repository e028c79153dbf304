"""The calls that every front end uses, as a Protocol: no code lives here.

`jobs.service.Service` is the one that does the work; `client.AgentClient` speaks the same to the
agent, which holds a Service. Magics, widgets and the command line know nothing but this.
Every call may raise a `JupyterSlurmError` (errors.py); each docstring names the particular ones.
No call waits for a person: one that needs a login that only a person can do raises
LoginNeededError and has done nothing. `connect` and `answer` are the way to log in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jupyter_slurm.wire import (
    Action,
    ActionVerb,
    AgentStatus,
    Changes,
    Check,
    Cluster,
    ClusterInfo,
    CommandOutput,
    Connection,
    DashboardName,
    Description,
    Earlier,
    FileContent,
    FileEntry,
    FileListing,
    Image,
    ImageBuild,
    ImageRemoval,
    ImageSpec,
    Job,
    JobDetails,
    JobSpec,
    LabEntry,
    LogChunk,
    NodeChanges,
    Preview,
    Priorities,
    ProgramSpec,
    QueueChanges,
    QueueEntry,
    Result,
    Spending,
    Transfer,
    Tunnel,
    UsageChanges,
)

if TYPE_CHECKING:
    import socket


class KernelStreams(Protocol):
    """The request that returns a socket instead of a value."""

    def kernel(self, job_id: str) -> socket.socket:
        """The stream of the kernel in a running job, in the frames of node/kernel_frames.py.

        The caller speaks first (BEGIN); closing the socket leaves the kernel. RequestError: the
        job has no kernel or does not run; ForwardError: no way could be made to its node.
        """


class Api(Protocol):
    # --- clusters ---
    def clusters(self) -> list[Cluster]:
        """Those that the profiles name, the default first."""

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        """Partitions, accounts, QOS: asked at most every few minutes."""

    def doctor(self, cluster: str | None = None) -> list[Check]:
        """What works on this cluster and what does not, in sentences."""

    def describe(self, cluster: str | None = None) -> Description:
        """What a profile of this cluster could name: tools, Python, folders; asked anew."""

    # --- connections ---
    def connect(
        self, cluster: str | None = None, caller: str = "", wait_s: float = 0.0
    ) -> Connection:
        """Logs in where that is needed. Waits up to `wait_s` until the connection is open or there
        is a question for this caller. LoginError, HostKeyError, TransportError: it failed.

        One login serves everybody. Its questions go to the `caller` (any text of its own) that
        began it; others get them too when they have lain unanswered for half a minute.
        """

    def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
        """The answer to a question; None ends the login. Waits as `connect` does.

        An answer to a question that is no longer open changes nothing.
        """

    def disconnect(self, cluster: str | None = None) -> Connection:
        """Closes it; jobs run on. It stays closed until somebody logs in again."""

    def connections(self) -> list[Connection]:
        """One for each cluster."""

    # --- tunnels ---
    def forward(
        self,
        host: str,
        port: int,
        cluster: str | None = None,
        job_id: str | None = None,
        local_port: int = 0,
    ) -> Tunnel:
        """A port of this machine, on both loopbacks, that leads to `host:port` as the login node
        sees it, or, with a running job, as its node sees it. 0: any free port. ForwardError.

        The same target gives the same tunnel. It stays, on the same port, until `close_tunnel`.
        """

    def tunnels(self) -> list[Tunnel]: ...

    def close_tunnel(self, tunnel_id: str) -> None: ...

    # --- files ---
    def push(
        self,
        local: str,
        remote: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        """Begins to make the folder (or file) `remote` like `local`; files that only `remote` has
        stay. `exclude`: patterns as in .gitignore, beside those of the folder's own .gitignore.
        """

    def pull(
        self,
        remote: str,
        local: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        """The same the other way round; .gitignore does not count, for it names results."""

    def fetch(self, job_id: str) -> Transfer:
        """Begins to bring the files that the job was told to give back (`JobSpec.fetch`)."""

    def transfer(self, transfer_id: str, wait_s: float = 0.0) -> Transfer:
        """How far it is; waits up to `wait_s` for it to get further."""

    def stop_transfer(self, transfer_id: str) -> Transfer:
        """Ends it; what has arrived stays, and the next one goes on from there."""

    # --- single files of a cluster, as its login node sees them ---
    def list_folder(self, path: str, cluster: str | None = None) -> FileListing:
        """What is in a folder; paths are absolute here and below. NotFoundError; FileAccessError,
        with the words of that machine; RequestError: it is none."""

    def file_entry(self, path: str, cluster: str | None = None) -> FileEntry:
        """The file or folder itself."""

    def read_file(self, path: str, cluster: str | None = None) -> FileContent:
        """RequestError: larger than 40 MB, or nothing that is read."""

    def write_file(self, path: str, content: bytes, cluster: str | None = None) -> FileEntry:
        """Put in place whole, with the rights that it had. RequestError: larger than 40 MB."""

    def make_folder(self, path: str, cluster: str | None = None) -> FileEntry: ...

    def rename_file(self, path: str, to: str, cluster: str | None = None) -> FileEntry:
        """RequestError: `to` is there already."""

    def remove_file(self, path: str, cluster: str | None = None) -> None:
        """A file, a link, or a folder that is empty."""

    # --- jobs ---
    def submit(self, spec: JobSpec) -> Job:
        """The job, once sbatch has taken it. Calling again with the same spec is safe.

        SubmitError: sbatch refused, or is known to. RequestError: it was refused here. When the
        cluster does not answer (`Job.problem`), or a pushed folder takes its time (`Job.transfer`),
        the job comes back SUBMITTING: the agent goes on. A cell for a session (`JobSpec.session`)
        is sent there, without sbatch.
        """

    def preview(self, spec: JobSpec, estimate: bool = False) -> Preview:
        """What `submit` would send; nothing is sent. `estimate`: Slurm is asked when it would
        start (one RPC, `sbatch --test-only`)."""

    def attachable(self, spec: JobSpec) -> Earlier | None:
        """The newest job of this cell to attach to: it was not cancelled, and still runs or has an
        outcome that was not delivered. None: there is none.

        A cell is known by `JobSpec.fingerprint` and `JobSpec.notebook`. A job that was sent the
        same variables comes before one that was sent others; `Earlier` names those that differ."""

    def notebook_moved(self, path: str, to: str) -> None:
        """Let jobs follow the rename of their notebook, or of a folder above it. Both paths are
        absolute, on this machine."""

    def notebook_path(self, path: str, since_s: float) -> str:
        """Return the path now of the notebook that had `path` at `since_s`."""

    def job(self, job_id: str) -> Job:
        """By our id, or by Slurm's on any cluster. NotFoundError."""

    def jobs(self, cluster: str | None = None) -> list[Job]:
        """Ours, newest first; None: of every cluster."""

    def adopt(self, slurm_id: str, cluster: str | None = None) -> Job:
        """A job of this user's that was submitted elsewhere, as one of ours from now on: watched,
        steered, its output read from where Slurm says that it writes. One that is ours already is
        given back as it is. NotFoundError; RequestError: it is somebody else's."""

    def details(self, job_id: str) -> JobDetails:
        """All that can be said of one job: Slurm is asked for its record."""

    def changes(self, cursor: str = "", wait_s: float = 0.0, caller: str = "") -> Changes:
        """What is new of jobs and connections; waits up to `wait_s` for the first of it.

        `caller`: whose questions the connections show, see `connect`.
        """

    def usage(self, job_id: str, cursor: str = "", wait_s: float = 0.0) -> UsageChanges:
        """What it used over time, as measured in the job every few seconds, later less often;
        waits up to `wait_s` for the first sample after `cursor`."""

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        """Output after `cursor`; waits up to `wait_s` for output, a change of the job or its end.

        About `budget_bytes` of stream text come back, the newest; what is older is skipped and
        counted. Displays and errors are never skipped. None: nothing is skipped, and what there
        is comes in pages of about a megabyte: call again with the new cursor until `end`, or
        until a page is empty.

        `task`: of an array, by its index; None: of its first. RequestError: there is none such,
        or Slurm has forgotten where it wrote.
        """

    def result(self, job_id: str) -> Result:
        """How a job that has ended did so. JobLostError, SignatureError."""

    def delivered(self, job_id: str) -> Job:
        """Notes that the client has the outcome: the cell, run again, is another job."""

    def cancel(self, job_id: str) -> Job:
        """Asks it to end. The cell of a session is interrupted and leaves the session alone; asked
        again, it is ended with the process that runs it, and what the session holds is lost."""

    def steer_many(
        self,
        verb: ActionVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> Action:
        """Begins to do this to many jobs of one cluster, hundreds by one of Slurm's commands: jobs
        of ours, and jobs and tasks there that only Slurm knows, by its ids. It goes on whoever
        leaves; all are tried, even where one is refused. LoginNeededError: nothing was begun."""

    def action(self, action_id: str, wait_s: float = 0.0) -> Action:
        """How far it is; waits up to `wait_s` for its end."""

    def stop_action(self, action_id: str) -> Action:
        """Ends it after the jobs that Slurm is being asked about and those that are next, a
        thousand at most; what is done stays done."""

    def forget_action(self, action_id: str) -> None:
        """Takes one that has ended from `Changes.actions`: its end has been told."""

    def hold(self, job_id: str) -> Job: ...

    def release(self, job_id: str) -> Job: ...

    def requeue(self, job_id: str) -> Job:
        """Ends it and puts it back into the queue, from its beginning; what it has not saved is
        lost. RequestError: Slurm does not do that with this job (`Job.no_requeue`)."""

    def extend(self, job_id: str, limit: str) -> Job:
        """Changes its time limit, as sbatch's --time or like `2h` has it; `+1h`: by so much.
        CommandError: Slurm does not let one; most clusters let their users only lower it."""

    def why(self, job_id: str) -> Job:
        """The job, Slurm asked anew for its reason and expected start."""

    def forget(self, job_id: str) -> None:
        """Removes a job that has ended, or whose cluster is no more: its record here and its job
        dir there. Of one that was adopted the record, at any time; there, nothing is touched."""

    # --- images ---
    def images(self, cluster: str | None = None) -> list[Image]:
        """Those that jobs can name there: the profile's, those made here, the site's."""

    def make_image(self, spec: ImageSpec) -> ImageBuild:
        """Begins to build or pull an image, by a job. There is none when the image is there,
        made from the same recipe; one that is being made has its job. RequestError: the cluster's
        container tool cannot make that; NotFoundError: its base; and as `submit`."""

    def remove_image(self, name: str, cluster: str | None = None) -> ImageRemoval:
        """Remove an image that was built or pulled, with its older versions. NotFoundError."""

    # --- labs ---
    def lab_entry(self, job_id: str) -> LabEntry:
        """What lets a browser into a lab that is ready (`Job.lab`): a secret. A lab is a job of
        kind LAB, submitted and cancelled as any other. RequestError: it is none, not ready, or has
        ended."""

    def dashboard_entry(self, job_id: str, name: DashboardName, wait_s: float = 0.0) -> LabEntry:
        """Open a port of this machine for a dashboard of a running job and return its address. The
        port closes when the job ends. RequestError: the job does not run, or has no such
        dashboard; NotFoundError: it does not answer within `wait_s`."""

    # --- terminals ---
    def shell(self, spec: ProgramSpec) -> list[str]:
        """Return the argv of a program of this machine that allocates what `spec` asks for and runs
        its code on the terminal that the program is started in (`srun --pty`). The allocation ends
        with it. The agent records no job. RequestError, NotFoundError: as of `submit`;
        ConfigError: this machine has no `ssh`."""

    def shell_in_job(self, job_id: str, code: str, node: str | None = None) -> list[str]:
        """Return the argv of a program that likewise runs the sh text `code` in a running job and
        its image; `node` None: on the job's first node. RequestError: the job does not run, or not
        on that node; ConfigError: as of `shell`."""

    # --- the queue ---
    def queue(self, cluster: str | None = None) -> list[QueueEntry]:
        """Everybody's jobs, as Slurm lists them."""

    def queue_changes(
        self,
        cluster: str | None = None,
        cursor: str = "",
        wait_s: float = 0.0,
        everyone: bool = False,
    ) -> QueueChanges:
        """What is new of the queue, this user's jobs or everyone's; waits up to `wait_s` for the
        first of it, and makes the agent ask Slurm as often as the profile allows (`poll_s`) while
        somebody waits here: once for all who do. A problem is no error but part of the answer."""

    def node_changes(
        self, cluster: str | None = None, cursor: str = "", wait_s: float = 0.0
    ) -> NodeChanges:
        """The same of nodes and partitions, asked a fifth as often."""

    def history(self, cluster: str | None = None, days: float = 1.0) -> list[QueueEntry]:
        """This user's jobs that have ended in the last days, as accounting has them, the latest
        first; [] where there is no accounting."""

    def priorities(self, cluster: str | None = None, job_id: str | None = None) -> Priorities:
        """Return this user's waiting jobs with what each factor gives to their priority, or that
        one job (of any cluster) with sentences of where it stands and what would change that."""

    def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
        """Return what this user and their accounts have spent since a time (None: thirty days),
        and what is left of quotas that Slurm knows. RequestError."""

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        """Runs one of Slurm's own commands (squeue, sinfo, sacct, scancel …) as written."""

    # --- the agent ---
    def status(self) -> AgentStatus: ...
