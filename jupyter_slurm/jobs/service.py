"""`Service`, the implementation of `api.Api` in the agent. It owns connections and jobs."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import JupyterSlurmError, NotFoundError, TransportError, from_problem
from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.access.dashboards import Dashboards
from jupyter_slurm.jobs.access.kernel_line import kernel_line
from jupyter_slurm.jobs.access.labs import Labs
from jupyter_slurm.jobs.access.sessions import Sessions
from jupyter_slurm.jobs.access.shells import Shells
from jupyter_slurm.jobs.access.tunnels import Tunnels
from jupyter_slurm.jobs.cluster import describe, doctor, queue
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.environments import Environments
from jupyter_slurm.jobs.cluster.files import Files
from jupyter_slurm.jobs.cluster.images import Images
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.cluster.transfers import Transfers
from jupyter_slurm.jobs.control import JobControl
from jupyter_slurm.jobs.details import details
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.lab import lab_base_url
from jupyter_slurm.jobs.outcome.result_service import ResultService, remove_old_files
from jupyter_slurm.jobs.preflight import checks
from jupyter_slurm.jobs.preflight.preview import Preflight, check_previewable
from jupyter_slurm.jobs.records.changes import changes
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store, without_content
from jupyter_slurm.jobs.submission import identity
from jupyter_slurm.jobs.submission.dependencies import after_by_id, with_after, with_dependency
from jupyter_slurm.jobs.submission.login_node import LoginNodeRunner
from jupyter_slurm.jobs.submission.prepare import Submission, prepare
from jupyter_slurm.jobs.submission.resolve import UNASKED, Resolved, image_of, resolve, resolved
from jupyter_slurm.jobs.submission.session_cells import CellSubmitter
from jupyter_slurm.jobs.submission.submit import Submitter, spooled
from jupyter_slurm.jobs.submission.sweep_arrays import SweepSubmitter, sha256_of
from jupyter_slurm.jobs.watching.usage import Measured
from jupyter_slurm.variables import check_python
from jupyter_slurm.wire import (
    OUTCOME,
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
    JobState,
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
    SweepSpec,
    SweepTasks,
    Transfer,
    Tunnel,
    UsageChanges,
)

_SUBMIT_WAIT_S = 20.0
"""Seconds to wait for sbatch before returning the job as SUBMITTING."""
_CALL_WAIT_S = 0.01
"""Seconds to wait for the end of an Executor's call in a session on this machine."""
_PUSH_WAIT_S = 1.0
"""Seconds to wait for the push of a folder or for another job before returning the job with its
progress."""
_JOIN_S = 2.0
"""Seconds to wait for submissions to end. Abandon a submission that hangs in a connection."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
"""The first and the longest pause before rereading the profile of a cluster with unfinished
jobs."""
_LOGIN_KEPT_S = 12 * 3600.0
"""Seconds to keep a connection whose login needed an answer."""

_log = logging.getLogger(__name__)


class Service:
    """The implementation of `api.Api`, which documents the calls."""

    def __init__(self) -> None:
        folder = places.data_dir()
        self._started_s = time.time()
        self._registry = JobRegistry(Store(folder))
        self._stop = threading.Event()
        self._clusters = Clusters(self._registry)
        self._tunnels = Tunnels(self._registry, self._clusters, folder)
        self._transfers = Transfers()
        self._files = Files(self._clusters)
        self._labs = Labs(self._registry, self._tunnels, self._clusters)
        self._dashboards = Dashboards(self._registry, self._tunnels, self._clusters)
        self._shells = Shells(self._registry, self._clusters)
        self._preflight = Preflight(self._clusters, self.jobs)
        self._results = ResultService(self._registry, self._clusters)
        self._measured = Measured(self._registry, self._clusters)
        self._sessions = Sessions(self._registry, self._clusters)
        self._images = Images(self._registry, self._clusters, self.submit)
        self._environments = Environments(self._registry, self._clusters, self.submit)
        self._control = JobControl(
            self._registry, self._clusters, self._transfers, self._results, self._sessions
        )
        records = self._registry.records()
        remove_old_files({path.name for one in records for path in spooled(one.spec)})
        self._labs.remove_pages()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._turn = threading.Condition()
        self._submitting: set[str] = set()
        unfinished: dict[str, list[str]] = {}
        for record in self._registry.live():
            self._reopen_lab(record)
            unfinished.setdefault(record.job.cluster, []).append(record.job.id)
        for name, job_ids in unfinished.items():
            self._start(partial(self._resume, name, job_ids), f"resuming jobs of {name}")

    def close(self) -> None:
        """Stop all threads and waiting calls. The next Service resumes unfinished work."""
        self._stop.set()
        self._registry.close()
        self._transfers.close()
        self._labs.close()
        self._dashboards.close()
        self._tunnels.close()
        with self._lock:
            threads = list(self._threads)
        give_up_s = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(timeout=max(0.0, give_up_s - time.monotonic()))
        self._clusters.close()

    def wake_waiters(self) -> None:
        """Make all waiting and later calls return immediately."""
        self._registry.close()
        self._clusters.wake_waiters()

    def live_jobs(self) -> int:
        return len(self._registry.live())

    def needed(self, quiet_s: float) -> bool:
        """Return whether the agent must keep running after `quiet_s` without a call."""
        if self._clusters.logins.answered_by_a_person() and quiet_s < _LOGIN_KEPT_S:
            return True
        return bool(self.live_jobs() or self.tunnels() or self._transfers.running)

    # --- clusters ---

    def clusters(self) -> list[Cluster]:
        return self._clusters.listed()

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        return self._preflight.cluster_info(cluster)

    def doctor(self, cluster: str | None = None) -> list[Check]:
        known = self._clusters.named(cluster)
        checks = doctor.examine(known.profile, known.run)
        ssh = known.access.connection
        sessions = None if ssh is None else ssh.sessions_limit
        connection = self._clusters.connection(known)
        return [
            *doctor.examine_connection(connection, sessions),
            *checks,
            *self._unreadable_records(),
        ]

    def _unreadable_records(self) -> list[Check]:
        return list(doctor.examine_records(self._registry.store.unreadable()))

    def describe(self, cluster: str | None = None) -> Description:
        known = self._clusters.named(cluster)
        return describe.describe(known.profile, known.run)

    # --- connections ---

    def connect(
        self, cluster: str | None = None, caller: str = "", wait_s: float = 0.0
    ) -> Connection:
        return self._clusters.connect(cluster, caller, wait_s)

    def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
        return self._clusters.answer(question_id, text, wait_s)

    def disconnect(self, cluster: str | None = None) -> Connection:
        return self._clusters.disconnect(cluster)

    def connections(self) -> list[Connection]:
        return self._clusters.connections()

    def left(self, caller: str) -> None:
        """Record that the process of `caller` has disconnected."""
        self._clusters.logins.left(caller)

    # --- tunnels ---

    def forward(
        self,
        host: str,
        port: int,
        cluster: str | None = None,
        job_id: str | None = None,
        local_port: int = 0,
    ) -> Tunnel:
        return self._tunnels.forward(host, port, cluster, job_id, local_port)

    def tunnels(self) -> list[Tunnel]:
        return self._tunnels.tunnels()

    def close_tunnel(self, tunnel_id: str) -> None:
        self._tunnels.close_tunnel(tunnel_id)

    # --- folders ---

    def push(
        self,
        local: str,
        remote: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        known = self._clusters.named(cluster)
        return self._transfers.push(known.name, known.transport, local, remote, exclude)

    def pull(
        self,
        remote: str,
        local: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        known = self._clusters.named(cluster)
        return self._transfers.pull(known.name, known.transport, remote, local, exclude)

    def fetch(self, job_id: str) -> Transfer:
        job = self._registry.job(job_id)
        return self._transfers.fetch(self._clusters.named(job.cluster).transport, job)

    def transfer(self, transfer_id: str, wait_s: float = 0.0) -> Transfer:
        return self._transfers.transfer(transfer_id, wait_s)

    def stop_transfer(self, transfer_id: str) -> Transfer:
        return self._transfers.stop(transfer_id)

    # --- single files of a cluster ---

    def list_folder(self, path: str, cluster: str | None = None) -> FileListing:
        return self._files.list_folder(path, cluster)

    def file_entry(self, path: str, cluster: str | None = None) -> FileEntry:
        return self._files.file_entry(path, cluster)

    def read_file(self, path: str, cluster: str | None = None) -> FileContent:
        return self._files.read_file(path, cluster)

    def write_file(self, path: str, content: bytes, cluster: str | None = None) -> FileEntry:
        return self._files.write_file(path, content, cluster)

    def make_folder(self, path: str, cluster: str | None = None) -> FileEntry:
        return self._files.make_folder(path, cluster)

    def rename_file(self, path: str, to: str, cluster: str | None = None) -> FileEntry:
        return self._files.rename_file(path, to, cluster)

    def remove_file(self, path: str, cluster: str | None = None) -> None:
        self._files.remove_file(path, cluster)

    # --- submission ---

    def submit(self, spec: JobSpec) -> Job:
        new = self._recorded(spec)
        if new is not None:
            record, cluster, made = new
            try:
                if kind_of(record.job).is_web_server:
                    self._labs.open(record.job, lab_base_url(record.spec))
                if record.job.session is None or not self._send_at_once(record.job, cluster):
                    self._pursue(spec.id, record.job.cluster, made)
            except Exception:  # no free port, thread or disk space
                self._registry.remove(spec.id)  # otherwise the next agent would submit the job
                raise

        def settled() -> bool:
            job = self._registry.job(spec.id)
            return job.state is not JobState.SUBMITTING or job.problem is not None

        if not self._registry.wait(settled, _PUSH_WAIT_S):
            self._registry.wait(
                lambda: settled() or _waits(self._registry.job(spec.id)),
                _SUBMIT_WAIT_S,
            )
        job = self._registry.job(spec.id)
        if job.state is JobState.REJECTED and job.problem is not None:
            raise from_problem(job.problem)
        return job

    def submit_call(self, spec: CellSpec) -> Result:
        job = self.submit(spec)
        found = self._results.readable([job] if job.state.final else [])
        return found[0] if found else Result(job=job, status="none")

    def preview(self, spec: JobSpec) -> Preview:
        check_previewable(spec)
        cluster = self._clusters.named(spec.cluster)
        job = with_dependency(resolve(spec, cluster), self._registry, _SUBMIT_WAIT_S)
        return self._preflight.preview(with_after(job, self._registry), cluster)

    def _recorded(self, spec: JobSpec) -> tuple[Record, SlurmCluster, Submission | None] | None:
        """Record a new job. Return its record, cluster and submission. The submission is None for a
        session's cell. Return None if a job with this ID is already recorded."""
        if self._registry.has(spec.id):
            return None
        cluster = self._cluster_for(spec)
        if cluster.access.connection is not None:  # a later login must not submit the job
            cluster.access.connection.check_login()
        if isinstance(spec, CellSpec) and spec.session is not None:
            cell = self._sessions.completed(spec, cluster.profile)
            record = self._sessions.new_record(cell)
            if cell.fingerprint is not None:  # used only to find earlier jobs
                record.given = identity.given_in_session(cell)
            warning = checks.check_cell(cell, self.jobs)
            record.job = msgspec.structs.replace(record.job, warning=warning)
            return (record, cluster, None) if self._registry.add(record) else None
        cluster.check_configuration(spec.slurm_conf)
        job = asked = resolve(spec, cluster)
        if asked.waits_for_jobs:
            job = with_dependency(asked, self._registry, _SUBMIT_WAIT_S)
            after = after_by_id(spec, self._registry, cluster.name)
            job = replace(job, spec=msgspec.structs.replace(job.spec, after=after))
        made = prepare(job)  # raises if the job cannot be submitted
        warning = None if job.spec.on_login else checks.check(job, cluster, self.jobs)
        if spec.environment is not None and spec.environment.left_out:
            omitted = ", ".join(spec.environment.left_out)
            told = f"Omitted packages that exist only on this machine: {omitted}."
            warning = joined(warning, told, between="\n")
        environment = job.site.environment
        self._check_python(job)
        first = kind_of(spec).recorded(
            job.spec,
            cluster=cluster.name,
            gpus=job.gpus,
            image=job.image,
            environment_id=None if environment is None else environment.id,
            runtime=job.runtime.name,
            job_dir=str(job.job_dir.path),
            delivered=kind_of(spec).is_service,
            warning=warning,
        )
        given = identity.given(asked)
        record = Record(
            job=first,
            spec=job.spec,
            asked=without_content(msgspec.structs.replace(spec, after=job.spec.after)),
            given=given,
            params_sha256=sha256_of(spec.params) if isinstance(spec, SweepSpec) else None,
        )
        return (record, cluster, made) if self._registry.add(record) else None

    def _cluster_for(self, spec: JobSpec) -> SlurmCluster:
        if spec.session is not None:
            return self._sessions.cluster(spec.session)
        return self._clusters.named(spec.cluster)

    def _check_python(self, job: Resolved) -> None:
        """Raise VariableError if an earlier job shows that the image's Python cannot read the
        inputs."""
        python = job.spec.inputs_python if isinstance(job.spec, CellSpec | SweepSpec) else None
        if python is None or job.spec.modules:
            return
        kind = (job.profile.name, job.runtime.name, job.image)
        for record in self._registry.records():
            old = record.job
            if old.python is not None and (old.cluster, old.runtime, old.image) == kind:
                check_python(python, old.python[:2])
                return

    def _pursue(self, job_id: str, cluster: str, made: Submission | None = None) -> Submitter:
        job = self._registry.job(job_id)
        kind = LoginNodeRunner if job.on_login else CellSubmitter if job.session else Submitter
        if kind_of(job).has_tasks:
            kind = SweepSubmitter
        find = partial(self._clusters.named, cluster)
        submitter = kind(
            self._registry, find, self._transfers, self._environments, job_id, self._stop, made
        )

        if isinstance(submitter, SweepSubmitter):
            submitter.on_sent = partial(self._watch, cluster, [job_id])

        def work() -> None:
            try:
                with self._one_submitter(job_id):
                    submitter.run()
            except Exception as exc:  # noqa: BLE001 (a thread must not die silently)
                with suppress(NotFoundError):  # the user forgot the job
                    self._registry.job(job_id)
                    _log.exception("the submission of %s failed", job_id)
                    submitter.give_up(exc)
            self._watch(cluster, [job_id])

        self._start(work, f"submission of {job_id}")
        return submitter

    def _send_at_once(self, job: Job, cluster: SlurmCluster) -> bool:
        """Send a cell to its session on this machine. Return False if a thread has to send it."""
        if cluster.access.connection is not None:
            return False
        with self._one_submitter(job.id):
            try:
                submitter = CellSubmitter(
                    self._registry,
                    lambda: cluster,
                    self._transfers,
                    self._environments,
                    job.id,
                    self._stop,
                )
                if not submitter.try_once():
                    return False
                if OUTCOME in job.names_out:  # the watcher would report a short call later
                    self._clusters.watch(cluster).await_cell(job, _CALL_WAIT_S)
            except Exception:  # noqa: BLE001 (the thread retries, and reports the error)
                return False
        self._watch(job.cluster, [job.id])
        return True

    @contextmanager
    def _one_submitter(self, job_id: str) -> Iterator[None]:
        """Wait while another thread is submitting this job. A retry may start while the sweep waits
        because of the submit limit."""
        with self._turn:
            self._turn.wait_for(lambda: job_id not in self._submitting)
            self._submitting.add(job_id)
        try:
            yield
        finally:
            with self._turn:
                self._submitting.remove(job_id)
                self._turn.notify_all()

    def _start(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        with self._lock:
            self._threads = [*(known for known in self._threads if known.is_alive()), thread]

    # --- resuming the jobs of an earlier agent ---

    def _reopen_lab(self, record: Record) -> None:
        """Open the port of a lab at the agent's start, since a browser may request the page at any
        time."""
        try:
            if kind_of(record.job).is_web_server:
                self._labs.open(record.job, lab_base_url(record.spec))
        except Exception as exc:  # noqa: BLE001 (the agent must start)
            self._note_problem(record.job, exc)

    def _resume(self, cluster: str, job_ids: list[str]) -> None:
        """Resume the jobs of one cluster, which may be slow to answer. Record each failure as the
        job's problem."""
        for job in self._unfinished(job_ids):
            try:
                # A requested cancellation may not have been sent yet.
                is_sent = job.submitted_s is not None and not self._has_unsent_arrays(job.id)
                if not is_sent or job.cancel_requested_s is not None:
                    self._pursue(job.id, cluster)
            except Exception as exc:  # noqa: BLE001 (the other jobs are resumed)
                self._note_problem(job, exc)
        self._watch(cluster, job_ids)

    def _has_unsent_arrays(self, job_id: str) -> bool:
        return any(one.slurm_id is None for one in self._registry.record(job_id).arrays)

    def _watch(self, name: str, job_ids: list[str]) -> None:
        """Start watching these jobs. Retry until the cluster's profile is usable."""
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            jobs = self._unfinished(job_ids)
            if not jobs:
                return
            try:
                self._clusters.watch(self._clusters.named(name)).look()
            except Exception as exc:  # noqa: BLE001 (a thread must not die silently)
                for job in jobs:
                    self._note_problem(job, exc)
            else:
                return
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _unfinished(self, job_ids: list[str]) -> list[Job]:
        found = []
        for job_id in job_ids:
            with suppress(NotFoundError):  # the user forgot the job
                found.append(self._registry.job(job_id))
        return [job for job in found if not job.state.final]

    def _note_problem(self, job: Job, error: Exception) -> None:
        if not isinstance(error, JupyterSlurmError):
            _log.exception("%s could not be resumed", job.id)
            error = TransportError(f"Cannot resume this job: {error!r}.")
        with suppress(OSError):  # the disk is full
            self._registry.note_problem(job.id, error)

    # --- jobs ---

    def attachable(self, spec: JobSpec) -> Earlier | None:
        cells = [
            record
            for record in self._registry.records()
            if spec.fingerprint is not None
            and record.job.fingerprint == spec.fingerprint
            and record.job.notebook == spec.notebook
        ]
        return identity.earlier(cells, lambda: self._given(spec), spec.kernel)

    def notebook_moved(self, path: str, to: str) -> None:
        with self._registry.lock():
            rename = self._registry.store.renames.add(path, to)
            self._registry.change_each(lambda record: identity.moved(record, rename))

    def notebook_path(self, path: str, since_s: float) -> str:
        return self._registry.store.renames.followed(path, since_s)

    def _given(self, spec: JobSpec) -> dict[str, str]:
        """Return the digests of the inputs of `spec`."""
        cluster = self._cluster_for(spec)
        if isinstance(spec, CellSpec) and spec.session is not None:
            return identity.given_in_session(self._sessions.completed(spec, cluster.profile))
        if image_of(spec, cluster.profile) is not None or spec.container_name is not None:
            with suppress(JupyterSlurmError):  # compare the image by name alone
                return identity.given(resolve(spec, cluster))
        return identity.given(resolved(spec, cluster.profile.for_job(spec), UNASKED))

    def job(self, job_id: str) -> Job:
        return self._registry.job(job_id)

    def jobs(self, cluster: str | None = None) -> list[Job]:
        return [r.job for r in self._registry.records() if cluster in (None, r.job.cluster)]

    def details(self, job_id: str) -> JobDetails:
        record = self._registry.record(job_id)
        return details(record, self._clusters.named(record.job.cluster))

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
        found = changes(
            self._registry, self._clusters, cursor, wait_s, caller, look, everyone, ended
        )
        wanted = [job for job in found.jobs if job.state.final and job.id in results]
        return msgspec.structs.replace(found, results=self._results.readable(wanted))

    def usage(self, job_id: str, cursor: str = "", wait_s: float = 0.0) -> UsageChanges:
        return self._measured.usage(job_id, cursor, wait_s)

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        return self._results.logs(job_id, cursor, wait_s, budget_bytes, task)

    def result(self, job_id: str) -> Result:
        return self._results.result(job_id)

    def sweep(self, job_id: str) -> SweepTasks:
        return self._results.sweep(job_id)

    def retry(self, job_id: str, options: dict[str, str] | None = None) -> Job:
        job = self._control.retry(job_id, options or {})
        arrays = self._registry.record(job.id).arrays
        token = next((one.token for one in arrays if one.base and one.slurm_id is None), None)
        submitter = self._pursue(job.id, job.cluster)
        assert isinstance(submitter, SweepSubmitter)

        def settled() -> bool:
            record = self._registry.record(job.id)
            unsent = [one.token for one in record.arrays if one.slurm_id is None]
            return token not in unsent or record.job.problem is not None

        self._registry.wait(settled, _SUBMIT_WAIT_S)
        if submitter.refusal is not None:
            raise submitter.refusal
        return self._registry.job(job.id)

    def delivered(self, job_id: str, others: tuple[str, ...] = ()) -> Job:
        for other_id in others:
            with suppress(NotFoundError):  # the user forgot the job
                self.delivered(other_id)
        job = self._registry.change(job_id, delivered=True)
        self._results.served(job_id)
        return job

    def cancel(self, job_id: str) -> Job:
        return self._control.cancel(job_id)

    def control_jobs(
        self,
        verb: JobVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> list[Refusal]:
        return self._control.control_jobs(verb, job_ids, slurm_ids, cluster)

    def hold(self, job_id: str) -> Job:
        return self._control.hold(job_id)

    def release(self, job_id: str) -> Job:
        return self._control.release(job_id)

    def requeue(self, job_id: str) -> Job:
        return self._control.requeue(job_id)

    def extend(self, job_id: str, limit: str) -> Job:
        return self._control.extend(job_id, limit)

    def why(self, job_id: str) -> Job:
        return self._control.why(job_id)

    def forget(self, job_id: str) -> None:
        self._control.forget(job_id)

    # --- images ---

    def images(self, cluster: str | None = None) -> list[Image]:
        return self._images.images(cluster)

    def make_image(self, spec: ImageSpec) -> ImageBuild:
        return self._images.make_image(spec)

    def remove_image(self, name: str, cluster: str | None = None) -> ImageRemoval:
        return self._images.remove_image(name, cluster)

    # --- environments ---

    def environments(self, cluster: str | None = None) -> list[InstalledEnvironment]:
        return self._environments.environments(cluster)

    def remove_environments(
        self, ids: list[str], cluster: str | None = None, unused_s: float | None = None
    ) -> list[InstalledEnvironment]:
        return self._environments.remove_environments(ids, cluster, unused_s)

    # --- labs, kernels, shells ---

    def lab_entry(self, job_id: str) -> LabEntry:
        return self._labs.lab_entry(job_id)

    def dashboard_entry(self, job_id: str, name: DashboardName, wait_s: float = 0.0) -> LabEntry:
        return self._dashboards.dashboard_entry(job_id, name, wait_s)

    def kernel(self, job_id: str) -> socket.socket:
        return kernel_line(self._registry, self._tunnels, job_id)

    def shell(self, spec: ProgramSpec) -> list[str]:
        return self._shells.shell(spec)

    def shell_in_job(self, job_id: str, code: str, node: str | None = None) -> list[str]:
        return self._shells.shell_in_job(job_id, code, node)

    # --- the queue ---

    def queue(self, cluster: str | None = None) -> list[Row]:
        known = self._clusters.named(cluster)
        return queue.rows(known, self._registry.by_slurm_id(known.name))

    def history(self, cluster: str | None = None, days: float = 1.0) -> list[ListedJob]:
        known = self._clusters.named(cluster)
        return queue.history(known, days, self._registry.by_slurm_id(known.name))

    def priorities(self, job_id: str) -> list[JobPriority]:
        job = self._registry.job(job_id)
        if job.state is not JobState.PENDING:
            return []
        return queue.priorities(self._clusters.named(job.cluster), job)

    def node_changes(
        self, cluster: str | None = None, cursor: str = "", wait_s: float = 0.0
    ) -> NodeChanges:
        watch = self._clusters.watch(self._clusters.named(cluster))
        return watch.nodes.changes(cursor, wait_s)

    def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
        return self._preflight.spending(cluster, since_s)

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        return self._control.command(argv, cluster)

    def status(self) -> AgentStatus:
        """Return the status of jobs and clusters; the agent adds version, process and socket."""
        return AgentStatus(
            version="",
            protocol=0,
            pid=0,
            host=places.host(),
            socket="",
            log="",
            started_s=self._started_s,
            memory_mib=0.0,
            cpu_s=time.process_time(),
            clients=0,
            live_jobs=self.live_jobs(),
            commands=self._clusters.counts(),
            checks=tuple(self._unreadable_records()),
        )


def _waits(job: Job) -> bool:
    """Return whether the submission waits for a folder or for another job."""
    return job.transfer is not None or job.why is not None
