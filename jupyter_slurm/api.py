"""The contract of all front ends: `Api`, implemented by `jobs.service.Service` in the agent and by
`client.AgentClient`, which calls the agent.

Every call may raise a `JupyterSlurmError` (errors.py). A docstring names only the errors that are
particular to its call. Calls do not wait for user input: if an interactive login is needed, a call
raises LoginNeededError and has no effect. `connect` and `answer` log in.
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
    """The call that returns a socket instead of a value."""

    def kernel(self, job_id: str) -> socket.socket:
        """Return the stream to the kernel of a running job, in the frames of node/kernel_frames.py.

        The caller sends the first frame (BEGIN). Closing the socket leaves the kernel running.
        Raise RequestError if the job does not have a kernel or is not running, and ForwardError if
        its node cannot be reached.
        """


class Api(Protocol):
    # --- clusters ---
    def clusters(self) -> list[Cluster]:
        """Return the clusters of the profiles, the default first."""

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        """Return the partitions, accounts and QOS. They are at most a few minutes old."""

    def doctor(self, cluster: str | None = None) -> list[Check]:
        """Check the cluster, and return the result of each check."""

    def describe(self, cluster: str | None = None) -> Description:
        """Find a cluster's tools, Python and folders, to fill in its profile."""

    # --- connections ---
    def connect(
        self, cluster: str | None = None, caller: str = "", wait_s: float = 0.0
    ) -> Connection:
        """Log in if needed. Wait up to `wait_s` until the connection is open or has a question for
        this caller. Raise LoginError, HostKeyError or TransportError if the login fails.

        One login serves every client. Its questions go to the `caller` (any string) that started
        the login, and to other callers after half a minute without an answer.
        """

    def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
        """Answer a question; None cancels the login. Wait as `connect` does.

        Answers to questions that are no longer open are ignored.
        """

    def disconnect(self, cluster: str | None = None) -> Connection:
        """Close the connection until the next login. Jobs continue."""

    def connections(self) -> list[Connection]:
        """Return the connection to each cluster."""

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
        node or, with `job_id`, from the job's node. A `local_port` of 0 means any free port. Raise
        ForwardError if the port cannot be reached.

        A second call for the same target returns the existing tunnel. The tunnel keeps its port
        until `close_tunnel`.
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
        """Start copying a folder or file from the cluster. The folder's .gitignore does not apply,
        because it usually lists results."""

    def fetch(self, job_id: str) -> Transfer:
        """Start copying the files that the job returns (`JobSpec.fetch`)."""

    def transfer(self, transfer_id: str, wait_s: float = 0.0) -> Transfer:
        """Return a transfer. Wait up to `wait_s` for progress."""

    def stop_transfer(self, transfer_id: str) -> Transfer:
        """Stop a transfer. Copied files stay, and the next transfer resumes from them."""

    # --- single files of a cluster, as seen from its login node ---
    def list_folder(self, path: str, cluster: str | None = None) -> FileListing:
        """List a folder. All paths are absolute. Raise NotFoundError if the path does not exist,
        RequestError if it is not a folder, and FileAccessError, with the system's message, if it
        cannot be read."""

    def file_entry(self, path: str, cluster: str | None = None) -> FileEntry:
        """Return the entry of a file or folder."""

    def read_file(self, path: str, cluster: str | None = None) -> FileContent:
        """Read a file. Raise RequestError if it is larger than 40 MB or not a regular file."""

    def write_file(self, path: str, content: bytes, cluster: str | None = None) -> FileEntry:
        """Replace a file atomically and keep its mode. Raise RequestError if it is larger than 40
        MB."""

    def make_folder(self, path: str, cluster: str | None = None) -> FileEntry:
        """Create a folder."""

    def rename_file(self, path: str, to: str, cluster: str | None = None) -> FileEntry:
        """Rename a file. Raise RequestError if `to` exists."""

    def remove_file(self, path: str, cluster: str | None = None) -> None:
        """Remove a file, a symbolic link or an empty folder."""

    # --- jobs ---
    def submit(self, spec: JobSpec) -> Job:
        """Submit a job and return it once sbatch has accepted it. Repeating the call is safe.

        Raise SubmitError if Slurm refuses the job, and RequestError if the agent rejects it. Return
        the job as SUBMITTING if the cluster does not answer (`Job.problem`), or if the job has to
        wait for a pushed folder (`Job.transfer`) or for another job (`Job.why`). The agent then
        continues to submit the job. The agent sends a session's cell (`JobSpec.session`) to the
        session, without sbatch.
        """

    def submit_call(self, spec: CellSpec) -> Result:
        """Submit a cell to a session as `submit` does. If the session is on this machine and the
        cell ends within milliseconds, return the cell's result; the caller then need not call
        `delivered`. Otherwise return a result with the status "none", as for a job without a
        result."""

    def preview(self, spec: JobSpec) -> Preview:
        """Return the job that `submit` would send, its cost, and Slurm's estimate of its start
        (`sbatch --test-only`)."""

    def attachable(self, spec: JobSpec) -> Earlier | None:
        """Return this cell's newest job that is running or undelivered, but not cancelled. Return
        None if no job matches.

        `JobSpec.fingerprint` and `JobSpec.notebook` identify a cell. A job with equal inputs takes
        precedence over a job with other inputs; `Earlier` names the inputs that differ."""

    def notebook_moved(self, path: str, to: str) -> None:
        """Update the jobs of a notebook after the notebook or a folder above it was renamed. Both
        paths are absolute and local."""

    def notebook_path(self, path: str, since_s: float) -> str:
        """Return the current path of the notebook that had `path` at `since_s`."""

    def job(self, job_id: str) -> Job:
        """Return a job by our ID, or by Slurm's ID on any cluster. Raise NotFoundError if no job
        has this ID."""

    def jobs(self, cluster: str | None = None) -> list[Job]:
        """Return our jobs on a cluster (None for all clusters), newest first."""

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
        """Return the changes to jobs and connections since the cursor. Wait up to `wait_s` for a
        change. `connect` explains `caller`.

        `look` names the clusters whose queue the client shows. While the client waits, the agent
        queries their Slurm every `poll_s` seconds, once for all clients. With `everyone`, return
        the unfinished jobs of all users on these clusters, instead of this user's jobs on every
        cluster. With `ended`, wait until a job ends, rather than for any change. `results` contains
        job IDs. When one of these jobs ends, the change includes its result.
        """

    def usage(self, job_id: str, cursor: str = "", wait_s: float = 0.0) -> UsageChanges:
        """Return the job's usage samples since the cursor. Wait up to `wait_s` for a sample."""

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        """Return the output after `cursor`. Wait up to `wait_s` for output, a change or the end of
        the job.

        The answer contains about the newest `budget_bytes` of stream text, and the number of
        skipped bytes. It always contains displays and errors. If `budget_bytes` is None, the answer
        is a page of about a megabyte, and nothing is skipped. Repeat the call with the new cursor
        until `end` or an empty page.

        `task` is the index of an array task; None for the first. Raise RequestError if the task
        does not exist or Slurm no longer names its output file.
        """

    def result(self, job_id: str) -> Result:
        """Return the result of a job that has ended. Raise JobLostError if the outcome is unknown,
        and SignatureError if the job did not sign the result."""

    def sweep(self, job_id: str) -> SweepTasks:
        """Return the states, reasons and usage of a sweep's tasks. Raise RequestError if the job is
        not a sweep."""

    def retry(self, job_id: str, options: dict[str, str] | None = None) -> Job:
        """Submit the failed tasks of a sweep again, with other sbatch `options`. `2x` for `mem` or
        `time` doubles the limit. The new results are added to the sweep's results. Raise
        RequestError if no task has failed or an option is invalid, and SubmitError if Slurm refuses
        the tasks."""

    def delivered(self, job_id: str, others: tuple[str, ...] = ()) -> Job:
        """Record that a client has the result, so that running the cell again submits a new job.
        `others` contains IDs of further jobs with delivered results; unknown IDs are ignored."""

    def cancel(self, job_id: str) -> Job:
        """Cancel a job. For a session's cell, interrupt the cell; the session stays. A second call
        kills the cell's process, and the session loses its variables."""

    def control_jobs(
        self,
        verb: JobVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> list[Refusal]:
        """Cancel, hold, release or requeue many jobs of one cluster. One command handles hundreds
        of jobs. `job_ids` names jobs with a record. `slurm_ids` names jobs and array tasks without
        a record. Return the jobs that Slurm refused to change. Change nothing and raise
        LoginNeededError if a login is needed."""

    def hold(self, job_id: str) -> Job:
        """Hold a waiting job."""

    def release(self, job_id: str) -> Job:
        """Release a held job."""

    def requeue(self, job_id: str) -> Job:
        """Stop a job and queue it again from the beginning. Raise RequestError if Slurm does not
        requeue this job (`Job.no_requeue`)."""

    def extend(self, job_id: str, limit: str) -> Job:
        """Change the time limit. `limit` is written as for sbatch's --time, or like `2h` or `+1h`.
        Raise CommandError if Slurm refuses; most clusters let users only lower the limit."""

    def why(self, job_id: str) -> Job:
        """Ask Slurm for the job's reason and expected start, and return the job."""

    def forget(self, job_id: str) -> None:
        """Remove the record and the folder of a job that has ended. If its cluster no longer has a
        profile, remove only the record."""

    # --- images ---
    def images(self, cluster: str | None = None) -> list[Image]:
        """Return the images that jobs can name. They are defined in the profile, built or pulled by
        jobs, or provided by the site."""

    def make_image(self, spec: ImageSpec) -> ImageBuild:
        """Start a job that builds or pulls an image. If an image from the same recipe exists, do
        not start a job. If a build of the image is running, return its job. Raise RequestError if
        the container tool cannot build the image, NotFoundError if the base image is not found, and
        the errors of `submit`."""

    def remove_image(self, name: str, cluster: str | None = None) -> ImageRemoval:
        """Remove an image that was built or pulled, with its older versions. Raise NotFoundError if
        no image has this name."""

    # --- environments ---
    def environments(self, cluster: str | None = None) -> list[InstalledEnvironment]:
        """Return the environments whose packages jobs have installed (`JobSpec.environment`)."""

    def remove_environments(
        self, ids: list[str], cluster: str | None = None, unused_s: float | None = None
    ) -> list[InstalledEnvironment]:
        """Remove environments and, with `unused_s`, all environments that have been unused for this
        time. Return the removed environments. Raise NotFoundError if an ID is unknown, and
        RequestError if a live job uses an environment."""

    # --- labs ---
    def lab_entry(self, job_id: str) -> LabEntry:
        """Return the login address and token of a lab that is ready (`Job.lab`). Labs are submitted
        and cancelled like any other job. Raise RequestError if the job is not a lab, is not ready
        or has ended."""

    def dashboard_entry(self, job_id: str, name: DashboardName, wait_s: float = 0.0) -> LabEntry:
        """Forward a local port to a dashboard of a running job and return its address. The port
        closes when the job ends. Raise RequestError if the job is not running or does not have this
        dashboard, and NotFoundError if the dashboard does not answer within `wait_s`."""

    # --- terminals ---
    def shell(self, spec: ProgramSpec) -> list[str]:
        """Return the argv of a local program that allocates the resources of `spec` and runs its
        code on the current terminal (`srun --pty`). The allocation ends with the program. The agent
        does not record a job. Raise RequestError and NotFoundError as `submit` does, and
        ConfigError if `ssh` is not installed on this machine."""

    def shell_in_job(self, job_id: str, code: str, node: str | None = None) -> list[str]:
        """Return the argv of a local program that runs the shell code in a running job, in the
        job's image. `node` is None for the job's first node. Raise RequestError if the job is not
        running, or does not use that node, and ConfigError as `shell` does."""

    # --- the queue ---
    def queue(self, cluster: str | None = None) -> list[Row]:
        """Return the jobs of all users, one row for each, as Slurm currently lists them."""

    def node_changes(
        self, cluster: str | None = None, cursor: str = "", wait_s: float = 0.0
    ) -> NodeChanges:
        """Return all nodes and partitions. Wait up to `wait_s` for a change since the cursor. While
        a client waits, the agent queries Slurm at five times the queue's interval. If Slurm fails,
        the call sets `problem` in its result and raises no error."""

    def history(self, cluster: str | None = None, days: float = 1.0) -> list[ListedJob]:
        """Return this user's jobs that ended in the last `days` days and have no record on this
        machine, latest first; [] if the cluster has no accounting."""

    def priorities(self, job_id: str) -> list[JobPriority]:
        """Return a waiting job's priority in each of its partitions, with the points of each
        factor; [] if it has no priority now."""

    def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
        """Return the usage of this user and their accounts since a time (None for thirty days ago).
        Raise RequestError if the time is not in the last ten years."""

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        """Run one of Slurm's own commands (squeue, sinfo, sacct, scancel …) as written."""

    # --- the agent ---
    def status(self) -> AgentStatus:
        """Return the state of the agent, its use of memory and CPU, and problems with its files."""
