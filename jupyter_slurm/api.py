"""The contract of all front ends: `Api`, implemented by `jobs.service.Service` in the agent and by
`client.AgentClient`, which calls the agent.

Every call may raise a `JupyterSlurmError` (errors.py); docstrings name the particular ones. No call
waits for user input: a call that needs an interactive login raises LoginNeededError and has no
effect. `connect` and `answer` log in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jupyter_slurm.wire import (
    AgentStatus,
    CellSpec,
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
    InstalledEnvironment,
    Job,
    JobDetails,
    JobPriority,
    JobSpec,
    JobVerb,
    LabEntry,
    ListedJob,
    LogChunk,
    NodeChanges,
    Preview,
    ProgramSpec,
    Refusal,
    Result,
    Row,
    Spending,
    SweepTasks,
    Transfer,
    Tunnel,
    UsageChanges,
)

if TYPE_CHECKING:
    import socket


class KernelStreams(Protocol):
    """The request that returns a socket instead of a value."""

    def kernel(self, job_id: str) -> socket.socket:
        """Return the stream to the kernel of a running job, in the frames of node/kernel_frames.py.

        The caller sends first (BEGIN). Closing the socket leaves the kernel running. RequestError:
        the job has no kernel or does not run; ForwardError: its node cannot be reached.
        """


class Api(Protocol):
    # --- clusters ---
    def clusters(self) -> list[Cluster]:
        """Return the clusters of the profiles, the default first."""

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        """Return partitions, accounts and QOS, at most a few minutes old."""

    def doctor(self, cluster: str | None = None) -> list[Check]:
        """Check the cluster, and return the result of each check."""

    def describe(self, cluster: str | None = None) -> Description:
        """Find tools, Python and folders of this cluster for its profile."""

    # --- connections ---
    def connect(
        self, cluster: str | None = None, caller: str = "", wait_s: float = 0.0
    ) -> Connection:
        """Log in if needed. Wait up to `wait_s` until the connection is open or has a question for
        this caller. LoginError, HostKeyError, TransportError: the login failed.

        One login serves every client. Its questions go to the `caller` (any string) that started
        it, and to other callers after half a minute without an answer.
        """

    def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
        """Answer a question; None cancels the login. Wait as `connect` does.

        Answers to questions that are no longer open are ignored.
        """

    def disconnect(self, cluster: str | None = None) -> Connection:
        """Close the connection until the next login; jobs continue."""

    def connections(self) -> list[Connection]:
        """Return the connection of each cluster."""

    # --- tunnels ---
    def forward(
        self,
        host: str,
        port: int,
        cluster: str | None = None,
        job_id: str | None = None,
        local_port: int = 0,
    ) -> Tunnel:
        """Forward a local port, on both loopback addresses, to `host:port` as seen from the login
        node or, with `job_id`, from the job's node. 0: any free port. ForwardError.

        The same target returns the same tunnel, which keeps its port until `close_tunnel`.
        """

    def tunnels(self) -> list[Tunnel]:
        """Return the open tunnels."""

    def close_tunnel(self, tunnel_id: str) -> None:
        """Close a tunnel."""

    # --- folders ---
    def push(
        self,
        local: str,
        remote: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        """Start copying a local folder or file to the cluster. Files that exist only in `remote`
        stay. `exclude` takes .gitignore patterns, in addition to the folder's .gitignore."""

    def pull(
        self,
        remote: str,
        local: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        """Start copying from the cluster. .gitignore does not apply, since it names results."""

    def fetch(self, job_id: str) -> Transfer:
        """Start copying the files that the job returns (`JobSpec.fetch`)."""

    def transfer(self, transfer_id: str, wait_s: float = 0.0) -> Transfer:
        """Return a transfer; wait up to `wait_s` for progress."""

    def stop_transfer(self, transfer_id: str) -> Transfer:
        """Stop a transfer. Copied files stay, and the next transfer resumes from there."""

    # --- single files of a cluster, as seen from its login node ---
    def list_folder(self, path: str, cluster: str | None = None) -> FileListing:
        """List a folder. All paths are absolute. NotFoundError; FileAccessError, with the system's
        message; RequestError: not a folder."""

    def file_entry(self, path: str, cluster: str | None = None) -> FileEntry:
        """Return the entry of a file or folder."""

    def read_file(self, path: str, cluster: str | None = None) -> FileContent:
        """Read a file. RequestError: larger than 40 MB, or not a regular file."""

    def write_file(self, path: str, content: bytes, cluster: str | None = None) -> FileEntry:
        """Replace a file atomically and keep its mode. RequestError: larger than 40 MB."""

    def make_folder(self, path: str, cluster: str | None = None) -> FileEntry:
        """Create a folder."""

    def rename_file(self, path: str, to: str, cluster: str | None = None) -> FileEntry:
        """Rename a file. RequestError: `to` exists."""

    def remove_file(self, path: str, cluster: str | None = None) -> None:
        """Remove a file, a link or an empty folder."""

    # --- jobs ---
    def submit(self, spec: JobSpec) -> Job:
        """Submit a job and return it once sbatch has accepted it. Repeating the call is safe.

        SubmitError: Slurm refused the job. RequestError: the agent refused it. If the cluster does
        not answer (`Job.problem`), or a pushed folder (`Job.transfer`) or another job (`Job.why`)
        takes long, the job is returned as SUBMITTING and the agent goes on. A session's cell
        (`JobSpec.session`) is sent to the session, without sbatch.
        """

    def submit_call(self, spec: CellSpec) -> Result:
        """Submit a cell to a session as `submit` does, and return its result if it ends within
        milliseconds on this machine. It needs no call of `delivered`. Otherwise the status is
        "none", as for a job without a result."""

    def preview(self, spec: JobSpec) -> Preview:
        """Return the job that `submit` would send, its cost, and Slurm's estimate of its start
        (`sbatch --test-only`)."""

    def attachable(self, spec: JobSpec) -> Earlier | None:
        """Return the newest job of this cell that was not cancelled and is running or undelivered;
        None: there is none.

        `JobSpec.fingerprint` and `JobSpec.notebook` identify a cell. A job with equal inputs comes
        before a job with others; `Earlier` names the inputs that differ."""

    def notebook_moved(self, path: str, to: str) -> None:
        """Update the jobs of a notebook after its rename, or that of a folder above it. Both paths
        are absolute and local."""

    def notebook_path(self, path: str, since_s: float) -> str:
        """Return the current path of the notebook that had `path` at `since_s`."""

    def job(self, job_id: str) -> Job:
        """Return a job by our ID, or by Slurm's on any cluster. NotFoundError."""

    def jobs(self, cluster: str | None = None) -> list[Job]:
        """Return our jobs, newest first; None: of every cluster."""

    def details(self, job_id: str) -> JobDetails:
        """Return the details of one job, with Slurm's record."""

    def changes(
        self,
        cursor: str = "",
        wait_s: float = 0.0,
        caller: str = "",
        look: tuple[str, ...] = (),
        everyone: bool = False,
        ended: bool = False,
        results: tuple[str, ...] = (),
    ) -> Changes:
        """Return changes of jobs and connections since the cursor; wait up to `wait_s` for the
        first. For `caller` see `connect`.

        `look`: the clusters whose queue the client shows. While a client waits here, the agent
        asks Slurm every `poll_s` seconds, once for all clients.
        `everyone`: return the unfinished jobs of all users on these clusters, else this user's
        jobs on every cluster.
        `ended`: wait for a job that has ended, rather than for any change.
        `results`: IDs of jobs whose results to return with the change that reports their end.
        """

    def usage(self, job_id: str, cursor: str = "", wait_s: float = 0.0) -> UsageChanges:
        """Return the job's usage samples since the cursor; wait up to `wait_s` for the first."""

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        """Return output after `cursor`; wait up to `wait_s` for output, a change or the end of the
        job.

        The answer has the newest `budget_bytes` of stream text, approximately, and counts what it
        skips. Displays and errors are never skipped. None: skip nothing, and return pages of about
        a megabyte. Repeat with the new cursor until `end` or an empty page.

        `task`: index of an array task; None: the first. RequestError: no such task, or Slurm has
        forgotten its output file.
        """

    def result(self, job_id: str) -> Result:
        """Return the result of a job that has ended. JobLostError, SignatureError."""

    def sweep(self, job_id: str) -> SweepTasks:
        """Return the states, reasons and usage of a sweep's tasks. RequestError: not a sweep."""

    def retry(self, job_id: str, options: dict[str, str] | None = None) -> Job:
        """Submit the failed tasks of a sweep again, with other `options` of sbatch; `2x` for `mem`
        or `time` doubles the limit. Their results join the others. RequestError: no task has
        failed, or an option is invalid; SubmitError: Slurm refused them."""

    def delivered(self, job_id: str, others: tuple[str, ...] = ()) -> Job:
        """Note that a client has the result: running the cell again submits a new job. `others`:
        more jobs, of which forgotten ones are ignored."""

    def cancel(self, job_id: str) -> Job:
        """Cancel a job. A session's cell is interrupted and the session stays. A second call kills
        the process of the cell, and the session's variables are lost."""

    def control_jobs(
        self,
        verb: JobVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> list[Refusal]:
        """Cancel, hold, release or requeue many jobs of one cluster, hundreds by one command: our
        jobs, and by Slurm's IDs jobs and array tasks that only Slurm knows. Return the jobs that
        Slurm refused. LoginNeededError: nothing was done."""

    def hold(self, job_id: str) -> Job:
        """Hold a waiting job."""

    def release(self, job_id: str) -> Job:
        """Release a held job."""

    def requeue(self, job_id: str) -> Job:
        """Stop a job and queue it again from the beginning. RequestError: Slurm does not requeue
        this job (`Job.no_requeue`)."""

    def extend(self, job_id: str, limit: str) -> Job:
        """Change the time limit, written as for sbatch's --time, as `2h`, or as `+1h`.
        CommandError: Slurm refused; most clusters let users only lower it."""

    def why(self, job_id: str) -> Job:
        """Ask Slurm for the job's reason and expected start, and return the job."""

    def forget(self, job_id: str) -> None:
        """Remove the record and the folder of a job that has ended; only the record if its cluster
        has no profile any more."""

    # --- images ---
    def images(self, cluster: str | None = None) -> list[Image]:
        """Return the images that jobs can name: the profile's, ours and the site's."""

    def make_image(self, spec: ImageSpec) -> ImageBuild:
        """Start a job that builds or pulls an image; return no job if the image exists from the
        same recipe, and the running one if it is being built. RequestError: the container tool
        cannot build it; NotFoundError: no base image; and the errors of `submit`."""

    def remove_image(self, name: str, cluster: str | None = None) -> ImageRemoval:
        """Remove an image that was built or pulled, with its older versions. NotFoundError."""

    # --- environments ---
    def environments(self, cluster: str | None = None) -> list[InstalledEnvironment]:
        """Return the environments whose packages jobs have installed (`JobSpec.environment`)."""

    def remove_environments(
        self, ids: list[str], cluster: str | None = None, unused_s: float | None = None
    ) -> list[InstalledEnvironment]:
        """Remove environments, and with `unused_s` all that have been unused for this time. Return
        them. NotFoundError; RequestError: a live job uses one."""

    # --- labs ---
    def lab_entry(self, job_id: str) -> LabEntry:
        """Return the login address and token of a lab that is ready (`Job.lab`). A lab is submitted
        and cancelled as any job. RequestError: not a lab, not ready, or ended."""

    def dashboard_entry(self, job_id: str, name: DashboardName, wait_s: float = 0.0) -> LabEntry:
        """Forward a local port to a dashboard of a running job and return its address. The port
        closes when the job ends. RequestError: the job does not run or has no such dashboard;
        NotFoundError: the dashboard does not answer within `wait_s`."""

    # --- terminals ---
    def shell(self, spec: ProgramSpec) -> list[str]:
        """Return the argv of a local program that allocates what `spec` asks for and runs its code
        on the current terminal (`srun --pty`). The allocation ends with the program. The agent
        records no job. RequestError, NotFoundError as in `submit`; ConfigError: no local `ssh`."""

    def shell_in_job(self, job_id: str, code: str, node: str | None = None) -> list[str]:
        """Return the argv of a local program that runs the shell code in a running job and its
        image. `node` None: the job's first. RequestError: the job does not run, or not on that
        node; ConfigError as in `shell`."""

    # --- the queue ---
    def queue(self, cluster: str | None = None) -> list[Row]:
        """Return everyone's jobs, one row each, as Slurm lists them now."""

    def node_changes(
        self, cluster: str | None = None, cursor: str = "", wait_s: float = 0.0
    ) -> NodeChanges:
        """Return changes of nodes and partitions; wait up to `wait_s` for the first. While a client
        waits, the agent asks Slurm a fifth as often as for the queue. A problem is part of the
        answer, not an error."""

    def history(self, cluster: str | None = None, days: float = 1.0) -> list[ListedJob]:
        """Return this user's jobs that ended in the last days and have no record here, latest
        first; [] without accounting."""

    def priorities(self, job_id: str) -> list[JobPriority]:
        """Return a waiting job's priority in each of its partitions, with the points of each
        factor. []: it has none now."""

    def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
        """Return the usage of this user and their accounts since a time (None: thirty days).
        RequestError."""

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        """Run one of Slurm's own commands (squeue, sinfo, sacct, scancel …) as written."""

    # --- the agent ---
    def status(self) -> AgentStatus:
        """Return the state of the agent, its use of memory and CPU, and problems with its files."""
