"""The watch of one cluster's live jobs, with two threads regardless of the number of jobs and
viewers.

The files thread detects starts, output and ends of jobs at once. The queue thread runs one `squeue`
per interval for all jobs and all viewers of the queue (`listing.py`). It finds the reasons for
waiting, and the ends that jobs could not report. Without live jobs and viewers both threads are
idle.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import PurePosixPath

from jupyter_slurm.errors import CommandError, JupyterSlurmError, TransportError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import PROGRESS_BYTES
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.allocation import ask_usage, error_path, known_path
from jupyter_slurm.jobs.outcome.ending import Ending, is_unstarted
from jupyter_slurm.jobs.outcome.result import parse_started
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission import login_node
from jupyter_slurm.jobs.submission.session_cells import rests
from jupyter_slurm.jobs.watching.comparison import Comparison
from jupyter_slurm.jobs.watching.gpu_loads import GpuLoads
from jupyter_slurm.jobs.watching.listing import ClusterQueue
from jupyter_slurm.jobs.watching.nodes import Nodes
from jupyter_slurm.jobs.watching.on_demand import backed_off_s
from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.slurm.units import indices
from jupyter_slurm.untrusted_json import unreadable
from jupyter_slurm.wire import Job, JobState

_FILES_WAIT_S = 300.0
_FIRST_LOOK_S = 1.0
_JOIN_S = 5.0
_MOST_TASKS = 50
"""Maximum number of running array tasks whose files are watched. The files of other tasks are read
on request."""
_ACCOUNTING_PAUSES_S = (1.0, 4.0, 10.0)
"""Pauses between requests to accounting, since slurmdbd receives a job's end a few seconds
later."""
_YOUNG_S = 60.0
_CALM_FACTOR = 3.0
"""The factor for the interval if jobs have not changed for a minute."""
_OLD_S = 3600.0
_OLD_FACTOR = 10.0
"""The factor for the interval if jobs have not changed for an hour."""
_REST_FACTOR = 3.0
"""The pause after listing everyone's jobs, as a multiple of the listing's duration."""

_log = logging.getLogger(__name__)


class Watch:
    """The watch of one cluster. The first `look()` starts its threads."""

    def __init__(self, registry: JobRegistry, cluster: SlurmCluster) -> None:
        self._registry = registry
        self._cluster = cluster
        self._stop = threading.Event()
        self._files_wake = threading.Event()
        self._queue_wake = threading.Event()
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._ending: set[str] = set()
        self._stirred_s = time.monotonic()
        self._comparison = Comparison(registry, cluster, self)
        self.sweeps = self._comparison.sweeps
        self._gpu_loads = GpuLoads()
        self.listing = ClusterQueue(registry, cluster.name, cluster.profile.poll_s, self._show)
        self.nodes = Nodes(cluster, self._closed)

    def look(self) -> None:
        """Check files and queue now, for example after a submission."""
        self.stirred()
        self._begin()
        self._files_wake.set()
        self._queue_wake.set()

    def stirred(self) -> None:
        """List the queue more often for a while after a job's change."""
        self._stirred_s = time.monotonic()

    def files_changed(self) -> None:
        """Update the set of watched files."""
        self._files_wake.set()

    def is_ending(self, job_id: str) -> bool:
        """Return whether a thread is judging the job's end."""
        return job_id in self._ending

    def _begin(self) -> None:
        with self._lock:
            if not self._threads and not self._stop.is_set():
                self._start(lambda: self._keep_at(self._watch_files), "files")
                self._start(lambda: self._keep_at(self._watch_queue), "queue")

    def _closed(self) -> bool:
        return self._registry.closed or self._stop.is_set()

    def _show(self, now: bool) -> None:
        """List the queue for a new viewer, at once if `now` is set."""
        self._begin()
        if now:
            self._asked.set()
        self._queue_wake.set()

    def ask_now(self) -> None:
        """List the queue within a fraction of a second after a user's request or change."""
        self._asked.set()
        self.look()

    def way_opened(self) -> None:
        """Check again after a reconnect, since watched files may have changed."""
        self._asked.set()
        self._files_wake.set()
        self._queue_wake.set()
        self.nodes.way_opened()

    def await_cell(self, job: Job, wait_s: float) -> None:
        """Wait for the result of a session's cell, and record the cell's end as the files thread
        does."""
        result = JobDir(PurePosixPath(job.job_dir)).result(0)
        try:
            if self._cluster.transport.grown({result: 0}, wait_s=wait_s, wake=self._stop):
                self._saw(result, job.id, self._cell_ended)
        except TransportError:  # the files thread reports the error
            pass

    def wake_waiters(self) -> None:
        """Make all calls that wait for nodes check their condition."""
        self.nodes.wake()

    def close(self) -> None:
        with self._lock:
            self._stop.set()
        self.listing.close()
        self.nodes.close()
        self._asked.set()
        self._files_wake.set()
        self._queue_wake.set()
        for thread in self._threads:
            thread.join(timeout=_JOIN_S)
        self.nodes.join(_JOIN_S)

    def _start(self, work: Callable[[], None], what: str) -> None:
        name = f"{self._cluster.name}: {what}"
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        self._threads = [*(known for known in self._threads if known.is_alive()), thread]

    def _keep_at(self, work: Callable[[], None]) -> None:
        """Run `work` again after each failure, and log the failure. A dead thread would miss the
        ends of jobs."""
        while not self._stop.is_set():
            try:
                work()
            except Exception:  # noqa: BLE001 (see above)
                _log.exception("internal error in the watcher of %s", self._cluster.name)
                self._stop.wait(self._cluster.profile.poll_s)

    # --- files ---

    def _watch_files(self) -> None:
        sizes: dict[PurePosixPath, int] = {}
        looked: set[str] = set()
        errors = 0
        while not self._stop.is_set():
            wanted = self._files_wanted()
            on_login_ids = {job.id for job in login_node.begun(self._registry, self._cluster)}
            sizes = {path: sizes.get(path, 0) for path in wanted}
            if not sizes:
                self._files_wake.wait()
                self._files_wake.clear()
                continue
            try:
                # Check a new job on the login node once, whatever caused the wake-up.
                due = bool(on_login_ids - looked)
                found = self._cluster.transport.grown(
                    sizes, wait_s=0.0 if due else _FILES_WAIT_S, wake=self._files_wake
                )
                woken = self._files_wake.is_set()
                if woken:  # do not clear an event that is set later
                    self._files_wake.clear()
                for path, size in found.items():
                    if path in wanted:  # the cluster may send other names
                        self._saw(path, *wanted[path])
                        sizes[path] = size
                if woken or due or not found:
                    self._look_on_login()
                    looked = on_login_ids
            except TransportError as exc:
                errors += 1
                looked = set()
                self._silent([r.job for r in self._registry.live(self._cluster.name)], exc)
                self._files_wake.wait(backed_off_s(self._cluster.profile.poll_s, errors))
                self._files_wake.clear()
                continue
            errors = 0
            if found:
                self._registry.notify()

    def _saw(
        self, path: PurePosixPath, job_id: str, seen: Callable[[str, PurePosixPath], None]
    ) -> None:
        with self._registry.noting_errors(job_id):
            seen(job_id, path)

    def _look_on_login(self) -> None:
        """Judge jobs on the login node whose processes have ended, since a killed job may not have
        written its exit file."""
        for job in login_node.look(self._registry, self._cluster):
            self.settle(job, None)

    def _files_wanted(
        self,
    ) -> dict[PurePosixPath, tuple[str, Callable[[str, PurePosixPath], None]]]:
        wanted: dict[PurePosixPath, tuple[str, Callable[[str, PurePosixPath], None]]] = {}
        for record in self._registry.live(self._cluster.name):
            job = record.job
            kind = kind_of(job)
            if kind.is_raw_script:
                running = indices(job.tasks.get(JobState.RUNNING))
                paths = [record.stdout_path, record.stderr_path]
                for task in running[:_MOST_TASKS]:
                    paths += [known_path(record, task), error_path(record, task)]
                for path in filter(None, paths):
                    wanted[PurePosixPath(path)] = (job.id, self._output_grew)
                continue
            folder = JobDir(PurePosixPath(job.job_dir))
            if kind.has_tasks:
                wanted[folder.news] = (job.id, self._tasks_told)
                for task in indices(job.tasks.get(JobState.RUNNING))[:_MOST_TASKS]:
                    attempt = self.sweeps.table(job.id).attempts(task) - 1
                    wanted[folder.task(task).output(attempt)] = (job.id, self._output_grew)
                continue
            if job.session is not None:
                wanted |= self._session_cell_files(job, folder)
                continue
            wanted[folder.output(job.restarts)] = (job.id, self._output_grew)
            wanted[folder.log(job.restarts)] = (job.id, self._output_grew)
            wanted[folder.started(job.restarts)] = (job.id, self._started)
            wanted[folder.started(job.restarts + 1)] = (job.id, self._started_again)
            progress = kind.progress_file(job, folder)
            if progress is not None:
                wanted[progress] = (job.id, self._progress_told)
            if job.id not in self._ending:
                wanted[folder.exit(job.restarts)] = (job.id, self._exit_seen)
        return wanted

    def _session_cell_files(
        self, job: Job, folder: JobDir
    ) -> dict[PurePosixPath, tuple[str, Callable[[str, PurePosixPath], None]]]:
        """Return the files of a session's cell to watch. If the session has ended, judge the cell,
        since the cell's files no longer change."""
        if self._registry.is_over(job.session or ""):
            self.settle(job, None)
        wanted: dict[PurePosixPath, tuple[str, Callable[[str, PurePosixPath], None]]] = {}
        if job.id not in self._ending:  # before `started`, since the end includes the start
            wanted[folder.exit(0)] = (job.id, self._cell_exited)
            wanted[folder.result(0)] = (job.id, self._cell_ended)
        wanted[folder.output(0)] = (job.id, self._output_grew)
        if job.started_s is None:
            wanted[folder.started(0)] = (job.id, self._started)
        return wanted

    def _output_grew(self, job_id: str, path: PurePosixPath) -> None:
        """Do nothing, since the growth of any file already wakes waiting calls."""

    def _tasks_told(self, job_id: str, path: PurePosixPath) -> None:
        self.sweeps.table(job_id).news()

    def _progress_told(self, job_id: str, path: PurePosixPath) -> None:
        data = self._cluster.transport.read(path, -PROGRESS_BYTES) or b""
        with self._registry.lock():
            job = self._registry.job(job_id)
            # After a requeue, the next attempt has its own file.
            kind, folder = kind_of(job), JobDir(PurePosixPath(job.job_dir))
            is_its_own = path == kind.progress_file(job, folder)
            if is_its_own and not job.state.final:
                self._registry.change(job_id, **kind.progress(job, data))

    def _started_again(self, job_id: str, path: PurePosixPath) -> None:
        with self._registry.lock():
            job = self._registry.job(job_id)
            restarts = job.restarts + 1
            # Slurm may have reported this restart since the wait began.
            if path == JobDir(PurePosixPath(job.job_dir)).started(restarts):
                on_requeue = kind_of(job).on_requeue(job)
                self._registry.change(job_id, restarts=restarts, nodes=(), **on_requeue)
        self._started(job_id, path)

    def _started(self, job_id: str, path: PurePosixPath) -> None:
        if self._registry.is_over(job_id):
            return
        started = parse_started(self._cluster.transport.read(path) or b"")
        if started is None:
            return
        with self._registry.lock():
            job = self._registry.job(job_id)
            folder = JobDir(PurePosixPath(job.job_dir))
            if job.state.final or path != folder.started(job.restarts):
                return
            # Prefer the node name from Slurm, because tunnels connect to the node and the job can
            # forge this file.
            changes = {"started_s": started.time_s, **started.known(job)}
            if not job.on_login:  # on a login node, only `look` sets the reason
                changes |= {"reason": None, "why": None, "advice": None, "start_estimate_s": None}
            known = job.submitted_s is not None or job.session is not None
            if known and job.id not in self._ending:
                changes["state"] = JobState.RUNNING
            if job.session is None:
                self._registry.change(job_id, **changes)
            else:  # not saved, since the end often follows at once
                self._registry.observe(job_id, **changes)
            if kind_of(job).accepts_cells:
                rests(self._registry, job_id)

    def _exit_seen(self, job_id: str, path: PurePosixPath) -> None:
        job = self._registry.job(job_id)
        # Ignore the end of an earlier attempt, found together with the start of a later attempt.
        if path == JobDir(PurePosixPath(job.job_dir)).exit(job.restarts):
            self.settle(job, None)

    def _cell_ended(self, job_id: str, path: PurePosixPath) -> None:
        """Record the end of a session's cell at once, unless its cause is unknown."""
        job = self._registry.job(job_id)
        if job.state.final:  # the cell's other file has reported the end
            return
        if Ending(self._registry, self._cluster, job, None, self._stop).record_if_clear():
            rests(self._registry, job.session or "")

    def _cell_exited(self, job_id: str, path: PurePosixPath) -> None:
        self._cell_ended(job_id, path)
        if not self._registry.is_over(job_id):
            self._exit_seen(job_id, path)

    # --- the queue ---

    def _watch_queue(self) -> None:
        errors = 0
        while not self._stop.is_set():
            waiting = [r.job for r in self._registry.live(self._cluster.name) if r.job.slurm_id]
            if not waiting and not self.listing.has_viewers:
                self._queue_wake.wait()
                self._queue_wake.clear()
                # Wait briefly, because a job that ends at once does not need a request to the
                # controller.
                first_s = self.listing.due_s if self.listing.has_viewers else _FIRST_LOOK_S
                self._asked.wait(min(self._cluster.profile.poll_s, first_s))
                self._asked.clear()
                continue
            began_s, rest_s = time.time(), 0.0
            everyone = self.listing.everyone.has_viewers
            try:
                rows = self._list(waiting, everyone=everyone)
            except (CommandError, TransportError) as exc:
                errors += 1
                self.listing.failed(exc.problem())
                self._silent(waiting, exc)
            else:
                errors = 0
                if everyone:
                    rest_s = (time.time() - began_s) * _REST_FACTOR
                self._comparison.compare(waiting, rows, began_s)
                if any(self._registry.is_over(job.id) for job in waiting):
                    self.files_changed()
            self._pause(errors, rest_s)

    def _list(self, waiting: list[Job], *, everyone: bool) -> list[QueueRow]:
        """Run one squeue for all viewers, and return the rows of these jobs."""
        user = self._cluster.transport.user()
        argv = squeue.everyone_argv() if everyone else squeue.mine_argv(user)
        has_viewers = self.listing.has_viewers
        rows = squeue.split(self._cluster.ask(argv))
        ours = self._registry.by_slurm_id(self._cluster.name)
        loads = self._gpu_loads.read(self._cluster.transport, waiting) if has_viewers else {}
        for job in waiting:
            self._registry.observe(job.id, gpu_load=loads.get(job.id))
        self.listing.answered(rows, user, ours, everyone=everyone)
        wanted = {slurm_id for job in waiting for slurm_id in job.slurm_ids}
        own = (row for row in rows if row.user == user) if everyone else rows
        return [squeue.read(r) for r in own if r.slurm_id in wanted or r.whole_id in wanted]

    def _pause(self, errors: int, rest_s: float) -> None:
        """Wait for the profile's interval before the next squeue, and longer after errors or
        without changes."""
        least_s = interval_s = max(self._cluster.profile.poll_s, rest_s)
        quiet_s = time.monotonic() - self._stirred_s
        if errors:
            interval_s = backed_off_s(self._cluster.profile.poll_s, errors)
        elif self.listing.has_viewers:
            pass
        elif quiet_s > _OLD_S:
            interval_s *= _OLD_FACTOR
        elif quiet_s > _YOUNG_S:
            interval_s *= _CALM_FACTOR
        # A user's request ends the wait at once. New jobs end it only after the profile's interval.
        if not self._asked.wait(least_s):
            self._queue_wake.wait(max(0.0, interval_s - least_s))
        self._asked.clear()
        self._queue_wake.clear()

    def _silent(self, jobs: list[Job], error: JupyterSlurmError) -> None:
        """Record the error as the problem of these jobs and of their cells."""
        silent = {job.id for job in jobs}
        for record in self._registry.live(self._cluster.name):
            if not silent.isdisjoint((record.job.id, record.job.session)):
                self._registry.note_problem(record.job.id, error)

    # --- the end of the job ---

    def settle(self, job: Job, row: QueueRow | None) -> None:
        """Judge the end of `job` in its own thread, since Slurm may take a while to report it."""
        if row is not None and is_unstarted(job, row):
            Ending(self._registry, self._cluster, job, row, self._stop).record_unstarted()
            return
        with self._lock:
            if job.id in self._ending or self._stop.is_set():
                return
            if self._registry.is_over(job.id):  # `job` may be outdated
                return
            self._ending.add(job.id)
            self._start(lambda: self._find_out(job, row), f"end of {job.id}")

    def _complete_usage(self, job: Job) -> None:
        """Ask accounting, if the site uses it, for the usage of a job that does not measure
        itself."""
        if kind_of(job).has_result or job.slurm_id is None or job.started_s is None:
            return
        for pause_s in _ACCOUNTING_PAUSES_S:
            if self._stop.wait(pause_s):
                return
            try:
                usage = ask_usage(self._cluster, self._registry.record(job.id))
            except (CommandError, TransportError):
                return
            if usage is not None:
                self._registry.change(job.id, usage=usage)
                return

    def _find_out(self, job: Job, row: QueueRow | None) -> None:
        try:
            if Ending(self._registry, self._cluster, job, row, self._stop).run():
                if job.session is not None:
                    rests(self._registry, job.session)
                self._complete_usage(self._registry.job(job.id))
        except TransportError as exc:  # the connection dropped; judge the end later
            self._silent([job], exc)
            self._stop.wait(self._cluster.profile.poll_s)
        except Exception as exc:  # noqa: BLE001 (a thread must not die silently)
            _log.exception("judging the end of %s failed; retrying", job.id)
            self._registry.note_problem(job.id, unreadable(exc))
            self._stop.wait(self._cluster.profile.poll_s)
        finally:
            self._ending.discard(job.id)
            self.look()
