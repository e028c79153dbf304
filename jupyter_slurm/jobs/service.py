"""The Api, done: puts profiles, clusters, submissions, watching and logs together.

The only owner of threads and connections; lives in the agent. What a call means is in `api.py`.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import JupyterSlurmError, NotFoundError, TransportError, from_problem
from jupyter_slurm.jobs.access.dashboards import Dashboards
from jupyter_slurm.jobs.access.kernel_line import kernel_line
from jupyter_slurm.jobs.access.labs import Labs
from jupyter_slurm.jobs.access.sessions import Sessions
from jupyter_slurm.jobs.access.shells import Shells
from jupyter_slurm.jobs.access.tunnels import Tunnels
from jupyter_slurm.jobs.actions import Actions
from jupyter_slurm.jobs.cluster import describe, doctor, priorities, queue
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.files import Files
from jupyter_slurm.jobs.cluster.images import Images
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.cluster.transfers import Transfers
from jupyter_slurm.jobs.details import Details
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.lab import lab_base_url
from jupyter_slurm.jobs.outcome.result_service import ResultService, remove_old_copies
from jupyter_slurm.jobs.preflight.preview import Preflight, check_previewable, memory_mib
from jupyter_slurm.jobs.records.adoption import Adoption
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.changes import changes
from jupyter_slurm.jobs.records.store import Record, Store, without_content
from jupyter_slurm.jobs.steering import Steering
from jupyter_slurm.jobs.submission import identity, payload
from jupyter_slurm.jobs.submission.on_login import LoginSubmitter
from jupyter_slurm.jobs.submission.prepare import Submission, prepare
from jupyter_slurm.jobs.submission.resolve import resolve, with_dependency
from jupyter_slurm.jobs.submission.resolved import UNASKED, Resolved, image_of, resolved
from jupyter_slurm.jobs.submission.session_cells import CellSubmitter
from jupyter_slurm.jobs.submission.submit import Submitter
from jupyter_slurm.jobs.watching.usage import Measured
from jupyter_slurm.wire import (
    AgentStatus,
    CellSpec,
    Changes,
    Check,
    Cluster,
    Description,
    Earlier,
    Job,
    JobSpec,
    JobState,
    NodeChanges,
    Preview,
    Priorities,
    ProgramSpec,
    QueueChanges,
    QueueEntry,
    Transfer,
)

_SUBMIT_WAIT_S = 20.0
"""How long a caller waits for sbatch before it gets a job that is SUBMITTING."""
_PUSH_WAIT_S = 1.0
"""The same while a folder is pushed with it: then there is something to be seen."""
_JOIN_S = 2.0
"""Seconds for submissions to come to their end; one that hangs in a way to a cluster is left."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
"""Before the profile of a cluster that has unfinished jobs is looked for again."""
_LOGIN_KEPT_S = 12 * 3600.0
"""A connection that a person had to answer for is not given up over lunch, nor kept for ever."""

_log = logging.getLogger(__name__)


class Service:
    """`folder` is where the job records live; None: `places.data_dir()`."""

    def __init__(self, folder: Path | None = None) -> None:
        self._started_s = time.time()
        self._book = Book(Store(folder or places.data_dir()))
        self._stop = threading.Event()
        self._clusters = Clusters(self._book)
        self._tunnels = Tunnels(self._book, self._clusters, folder or places.data_dir())
        self._transfers = Transfers()
        # These calls of Api are theirs, as they are.
        self.connect, self.answer = self._clusters.connect, self._clusters.answer
        self.disconnect, self.connections = self._clusters.disconnect, self._clusters.connections
        self.left = self._clusters.logins.left
        self.forward, self.tunnels = self._tunnels.forward, self._tunnels.tunnels
        self.close_tunnel = self._tunnels.close_tunnel
        self._labs = Labs(self._book, self._tunnels, self._clusters)
        self.lab_entry = self._labs.lab_entry
        self._dashboards = Dashboards(self._book, self._tunnels, self._clusters)
        self.dashboard_entry = self._dashboards.dashboard_entry
        self._shells = Shells(self._book, self._clusters)
        self.transfer, self.stop_transfer = self._transfers.transfer, self._transfers.stop
        files = Files(self._clusters)
        self.list_folder, self.file_entry = files.list_folder, files.file_entry
        self.read_file, self.write_file = files.read_file, files.write_file
        self.make_folder, self.rename_file = files.make_folder, files.rename_file
        self.remove_file = files.remove_file
        self._preflight = Preflight(self._clusters, self.jobs)
        self.cluster_info = self._preflight.cluster_info
        self.spending = self._preflight.spending
        self._delivery = ResultService(self._book, self._clusters)
        self.logs, self.result = self._delivery.logs, self._delivery.result
        self.details = Details(self._book, self._clusters).details
        self.usage = Measured(self._book, self._clusters).usage
        self._sessions = Sessions(self._book, self._clusters)
        steering = Steering(
            self._book, self._clusters, self._transfers, self._delivery, self._sessions
        )
        self.cancel, self.forget = steering.cancel, steering.forget
        self.hold, self.release, self.command = steering.hold, steering.release, steering.command
        self.requeue, self.extend, self.why = steering.requeue, steering.extend, steering.why
        self._actions = Actions(self._book, self._clusters, steering)
        self.steer_many, self.action = self._actions.steer_many, self._actions.action
        self.stop_action = self._actions.stop_action
        self.forget_action = self._actions.forget_action
        self.adopt = Adoption(self._book, self._clusters).adopt
        images = Images(self._book, self._clusters, self.submit)
        self.images, self.make_image = images.images, images.make_image
        self.remove_image = images.remove_image
        remove_old_copies()
        self._labs.remove_pages()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        left: dict[str, list[str]] = {}
        for record in self._book.live():
            self._take_up_lab(record)
            left.setdefault(record.job.cluster, []).append(record.job.id)
        for name, job_ids in left.items():
            self._start(partial(self._take_up, name, job_ids), f"taking up {name}")

    def close(self) -> None:
        """End every wait and thread; the next Service takes up what is under way."""
        self._stop.set()
        self._book.close()
        self._transfers.close()
        self._actions.close()
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
        """Make every waiting call return now, and every later one at once."""
        self._book.close()
        self._clusters.wake_waiters()

    def live_jobs(self) -> int:
        return len(self._book.live())

    def needed(self, quiet_s: float) -> bool:
        """Tell whether ending now, after `quiet_s` without a call, would lose something."""
        if self._clusters.logins.answered_by_a_person() and quiet_s < _LOGIN_KEPT_S:
            return True
        goes_on = self._transfers.running or self._actions.running
        return bool(self.live_jobs() or self.tunnels() or goes_on)

    # --- clusters ---

    def clusters(self) -> list[Cluster]:
        return self._clusters.listed()

    def doctor(self, cluster: str | None = None) -> list[Check]:
        known = self._clusters.named(cluster)
        checks = doctor.examine(known.profile, known.run)
        ssh = known.access.connection
        sessions = None if ssh is None else ssh.sessions_limit
        connection = self._clusters.connection(known)
        records = doctor.examine_records(self._book.store.set_aside())
        return [*doctor.examine_connection(connection, sessions), *checks, *records]

    def describe(self, cluster: str | None = None) -> Description:
        known = self._clusters.named(cluster)
        return describe.describe(known.profile, known.run)

    # --- files ---

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
        job = self._book.job(job_id)
        return self._transfers.fetch(self._clusters.named(job.cluster).transport, job)

    # --- submission ---

    def submit(self, spec: JobSpec) -> Job:
        new = self._recorded(spec)
        if new is not None:
            record, made = new
            try:
                if kind_of(record.job).is_web_server:
                    self._labs.open(record.job, lab_base_url(record.spec))
                self._pursue(spec.id, record.job.cluster, made)
            except Exception:  # a port, a thread, room on the disk: any may be lacking
                self._book.remove(spec.id)  # else it would be submitted by the next agent
                raise

        def settled() -> bool:
            job = self._book.job(spec.id)
            return job.state is not JobState.SUBMITTING or job.problem is not None

        if not self._book.wait(settled, _PUSH_WAIT_S):
            self._book.wait(
                lambda: settled() or self._book.job(spec.id).transfer is not None, _SUBMIT_WAIT_S
            )
        job = self._book.job(spec.id)
        if job.state is JobState.REJECTED and job.problem is not None:
            raise from_problem(job.problem)
        return job

    def preview(self, spec: JobSpec, estimate: bool = False) -> Preview:
        check_previewable(spec)
        cluster = self._clusters.named(spec.cluster)
        job = with_dependency(resolve(spec, cluster), self._book, _SUBMIT_WAIT_S)
        return self._preflight.preview(job, cluster, estimate)

    def _recorded(self, spec: JobSpec) -> tuple[Record, Submission | None] | None:
        """Record a new job. Return its record and its submission, which is None for a session's
        cell; None: this id was submitted before."""
        with suppress(JupyterSlurmError):
            self._book.record(spec.id)
            return None
        cluster = self._cluster_for(spec)
        if cluster.access.connection is not None:  # else it would go by itself after a later login
            cluster.access.connection.check_login()
        if isinstance(spec, CellSpec) and spec.session is not None:
            cell = self._sessions.completed(spec, cluster.profile)
            record = self._sessions.new_record(cell)
            record.given = identity.given_in_session(cell)
            memory = self._book.record(record.job.session or "").memory_mib
            warning = self._preflight.judge_cell(cell, memory)
            record.job = msgspec.structs.replace(record.job, warning=warning)
            return (record, None) if self._book.add(record) else None
        cluster.check_configuration(spec.slurm_conf)
        asked = resolve(spec, cluster)
        job = with_dependency(asked, self._book, _SUBMIT_WAIT_S)
        made = prepare(job)  # refused here and now if it must be
        warning = None if job.spec.on_login else self._preflight.judge(job, cluster)
        self._check_python(job)
        first = kind_of(spec).recorded(
            job.spec,
            cluster=cluster.name,
            gpus=job.gpus,
            image=job.image,
            runtime=job.runtime.name,
            job_dir=str(job.job_dir.path),
            delivered=kind_of(spec).ends_by_request,
            warning=warning,
        )
        memory = None if job.spec.on_login else memory_mib(job)
        given = identity.given(asked)
        record = Record(
            job=first,
            spec=job.spec,
            asked=without_content(spec),
            given=given,
            memory_mib=memory,
        )
        return (record, made) if self._book.add(record) else None

    def _cluster_for(self, spec: JobSpec) -> SlurmCluster:
        if spec.session is not None:
            return self._sessions.cluster(spec.session)
        return self._clusters.named(spec.cluster)

    def _check_python(self, job: Resolved) -> None:
        """VariableError: this image's Python, as an earlier job saw it, cannot read the inputs."""
        python = job.spec.inputs_python if isinstance(job.spec, CellSpec) else None
        if python is None or job.spec.modules:
            return
        kind = (job.profile.name, job.runtime.name, job.image)
        for record in self._book.records():
            old = record.job
            if old.python is not None and (old.cluster, old.runtime, old.image) == kind:
                payload.check_python(True, python, old.python[:2])
                return

    def _pursue(self, job_id: str, cluster: str, made: Submission | None = None) -> None:
        job = self._book.job(job_id)
        kind = LoginSubmitter if job.on_login else CellSubmitter if job.session else Submitter
        find = partial(self._clusters.named, cluster)
        submitter = kind(self._book, find, self._transfers, job_id, self._stop, made)

        def work() -> None:
            try:
                submitter.run()
            except Exception as exc:  # noqa: BLE001 (a worker never dies silently)
                with suppress(NotFoundError):
                    self._book.job(job_id)  # which may have been forgotten meanwhile
                    _log.exception("the submission of %s stumbled", job_id)
                    submitter.give_up(exc)
            self._watch(cluster, [job_id])

        self._start(work, f"submission of {job_id}")

    def _start(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        with self._lock:
            self._threads = [*(known for known in self._threads if known.is_alive()), thread]

    # --- what an earlier agent left unfinished ---

    def _take_up_lab(self, record: Record) -> None:
        """Open its port as soon as the agent runs: a page in a browser may ask at any moment."""
        try:
            if kind_of(record.job).is_web_server:
                self._labs.open(record.job, lab_base_url(record.spec))
        except Exception as exc:  # noqa: BLE001 (the agent starts all the same)
            self._tell(record.job, exc)

    def _take_up(self, cluster: str, job_ids: list[str]) -> None:
        """Take up the jobs of one cluster, in a thread of its own, for its way may not be found
        yet, or not for long. A failure with one of them is noted in that job."""
        for job in self._unfinished(job_ids):
            try:
                # A cancellation may have been asked for and not yet been passed on.
                if job.submitted_s is None or job.cancel_requested_s is not None:
                    self._pursue(job.id, cluster)
            except Exception as exc:  # noqa: BLE001 (the others are to be taken up)
                self._tell(job, exc)
        self._watch(cluster, job_ids)

    def _watch(self, name: str, job_ids: list[str]) -> None:
        """Watch these jobs; return once that works, when the cluster's profile can be used."""
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            jobs = self._unfinished(job_ids)
            if not jobs:
                return
            try:
                self._clusters.watch(self._clusters.named(name)).look()
            except Exception as exc:  # noqa: BLE001 (a worker never dies silently)
                for job in jobs:
                    self._tell(job, exc)
            else:
                return
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _unfinished(self, job_ids: list[str]) -> list[Job]:
        found = []
        for job_id in job_ids:
            with suppress(NotFoundError):  # it was forgotten meanwhile
                found.append(self._book.job(job_id))
        return [job for job in found if not job.state.final]

    def _tell(self, job: Job, error: Exception) -> None:
        if not isinstance(error, JupyterSlurmError):
            _log.exception("%s could not be taken up", job.id)
            error = TransportError(f"The agent could not take this job up: {error!r}.")
        since_s = job.problem_since_s or self._started_s
        with suppress(NotFoundError, OSError):  # forgotten meanwhile; a disk that is full
            self._book.found(job, problem=error.problem(), problem_since_s=since_s)

    # --- jobs ---

    def attachable(self, spec: JobSpec) -> Earlier | None:
        cells = [
            record
            for record in self._book.records()
            if spec.fingerprint is not None
            and record.job.fingerprint == spec.fingerprint
            and record.job.notebook == spec.notebook
        ]
        return identity.earlier(cells, lambda: self._given(spec), spec.kernel)

    def notebook_moved(self, path: str, to: str) -> None:
        with self._book.alone():
            rename = self._book.store.renames.add(path, to)
            self._book.change_each(lambda record: identity.moved(record, rename))

    def notebook_path(self, path: str, since_s: float) -> str:
        return self._book.store.renames.followed(path, since_s)

    def _given(self, spec: JobSpec) -> dict[str, str]:
        """Return what the job of `spec` would get."""
        cluster = self._cluster_for(spec)
        if isinstance(spec, CellSpec) and spec.session is not None:
            return identity.given_in_session(self._sessions.completed(spec, cluster.profile))
        if image_of(spec, cluster.profile) is not None or spec.container_name is not None:
            with suppress(JupyterSlurmError):  # then it is compared by its name alone
                return identity.given(resolve(spec, cluster))
        return identity.given(resolved(spec, cluster.profile.for_job(spec), UNASKED))

    def job(self, job_id: str) -> Job:
        return self._book.job(job_id)

    def jobs(self, cluster: str | None = None) -> list[Job]:
        return [r.job for r in self._book.records() if cluster in (None, r.job.cluster)]

    def changes(self, cursor: str = "", wait_s: float = 0.0, caller: str = "") -> Changes:
        return changes(self._book, self._clusters, self._actions, cursor, wait_s, caller)

    def delivered(self, job_id: str) -> Job:
        job = self._book.change(job_id, delivered=True)
        self._delivery.served(job_id)
        return job

    # --- programs in jobs ---

    def kernel(self, job_id: str) -> socket.socket:
        return kernel_line(self._book, self._tunnels, job_id)

    def shell(self, spec: ProgramSpec) -> list[str]:
        return self._shells.shell(spec)

    def shell_in_job(self, job_id: str, code: str, node: str | None = None) -> list[str]:
        return self._shells.shell_in_job(job_id, code, node)

    # --- the queue ---

    def queue(self, cluster: str | None = None) -> list[QueueEntry]:
        known = self._clusters.named(cluster)
        return queue.entries(known, self._book.by_slurm_id(known.name))

    def history(self, cluster: str | None = None, days: float = 1.0) -> list[QueueEntry]:
        known = self._clusters.named(cluster)
        return queue.history(known, days, self._book.by_slurm_id(known.name))

    def priorities(self, cluster: str | None = None, job_id: str | None = None) -> Priorities:
        if job_id is None:
            known = self._clusters.named(cluster)
            return priorities.of_mine(known, self._book.by_slurm_id(known.name))
        job = self._book.job(job_id)
        known = self._clusters.named(job.cluster)
        return priorities.of_job(known, job, self._book.by_slurm_id(known.name))

    def queue_changes(
        self,
        cluster: str | None = None,
        cursor: str = "",
        wait_s: float = 0.0,
        everyone: bool = False,
    ) -> QueueChanges:
        watch = self._clusters.watch(self._clusters.named(cluster))
        return watch.listing.changes(cursor, wait_s, everyone)

    def node_changes(
        self, cluster: str | None = None, cursor: str = "", wait_s: float = 0.0
    ) -> NodeChanges:
        watch = self._clusters.watch(self._clusters.named(cluster))
        return watch.nodes.changes(cursor, wait_s)

    def status(self) -> AgentStatus:
        """Report on the jobs and clusters; the agent fills in version, process and socket."""
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
            checks=tuple(doctor.examine_records(self._book.store.set_aside())),
        )
