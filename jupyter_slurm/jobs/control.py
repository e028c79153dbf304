"""The calls that cancel, hold, release, requeue, extend and forget jobs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from jupyter_slurm.errors import (
    CommandError,
    ControllerError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
)
from jupyter_slurm.jobs.access.sessions import Sessions
from jupyter_slurm.jobs.cluster import queue
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.cluster.transfers import Transfers
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.allocation import ask_jobs
from jupyter_slurm.jobs.outcome.array_tasks import failed_tasks, live_arrays, with_states
from jupyter_slurm.jobs.outcome.result_service import ResultService
from jupyter_slurm.jobs.outcome.verdict import CANCEL_NOTED
from jupyter_slurm.jobs.records.registry import JobRegistry, Record
from jupyter_slurm.jobs.submission import login_node
from jupyter_slurm.jobs.submission.submit import withdraw
from jupyter_slurm.jobs.submission.sweep_arrays import plan, retry_options
from jupyter_slurm.jobs.watching.queue_rows import is_same
from jupyter_slurm.slurm import scancel, scontrol, squeue, states
from jupyter_slurm.slurm.rejections import explain_requeue, message, refused
from jupyter_slurm.wire import CommandOutput, Job, JobState, JobVerb, Refusal, SweepJob

_AT_ONCE = 500
"""The maximum number of jobs in one Slurm command, because a command line has a maximum length."""


class JobControl:
    """The calls of `api.Api` that control jobs, as methods with the same names."""

    def __init__(
        self,
        registry: JobRegistry,
        clusters: Clusters,
        transfers: Transfers,
        results: ResultService,
        sessions: Sessions,
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._transfers = transfers
        self._results = results
        self._sessions = sessions

    def cancel(self, job_id: str) -> Job:
        with self._registry.lock():
            before = self._job_to_cancel(job_id)
            if before.state.final:
                return before
            # Record the request first, because the job may end before scancel returns.
            job = self._registry.change(job_id, cancel_requested_s=time.time())
        if withdraw(self._registry, job.id):
            return self._registry.job(job.id)
        if job.state is JobState.SUBMITTING:
            self._registry.found(job, why=CANCEL_NOTED)
        if job.session is not None:
            self._sessions.cancel(job, again=before.cancel_requested_s is not None)
            return self._registry.job(job_id)
        if job.on_login:
            login_node.look(self._registry, self._clusters.named(job.cluster))
            return self._registry.job(job_id)
        ids = _listed_ids(self._registry.record(job_id), "cancel")
        if not ids:
            return self._registry.job(job_id)
        try:
            self._ask_slurm(job, scancel.cancel_argv(ids))
        except NotFoundError:  # the watcher judges the job's end
            self._clusters.watch(self._clusters.named(job.cluster)).ask_now()
        except CommandError as exc:
            if not scancel.is_already_gone(exc.detail or ""):
                self._registry.change(job_id, cancel_requested_s=before.cancel_requested_s)
                raise
        return self._registry.job(job_id)

    def retry(self, job_id: str, options: Mapping[str, str]) -> Job:
        """Record new arrays for the failed tasks of a sweep, and return the job. The caller submits
        the arrays. Raises RequestError."""
        job = self._registry.job(job_id)
        if not isinstance(job, SweepJob):
            raise RequestError(f"Job {job.id} is not a sweep and has no tasks to retry.")
        cluster = self._clusters.named(job.cluster)
        record = self._registry.record(job.id)
        tasks = failed_tasks(job.tasks)
        if not tasks:
            raise RequestError(f"No task of sweep {job.id} has failed.")
        if job.limit_s is None and job.slurm_id is not None and "time" in options:
            with suppress(CommandError):  # Slurm may have forgotten the ended tasks
                self._note_limit(job, job.slurm_id)
        wanted = retry_options(record, options)
        size = cluster.max_array_size() if job.names_params else None
        ends = self._clusters.watch(cluster).sweeps.table(job.id).ends()
        base = max((ends[task].attempt for task in tasks if task in ends), default=0) + 1
        arrays = [msgspec.structs.replace(a, base=base, options=wanted) for a in plan(tasks, size)]
        with self._registry.lock():
            self._registry.note(job.id, arrays=(*record.arrays, *arrays))
            self._registry.change(
                job.id,
                state=JobState.PENDING,
                tasks=with_states(job.tasks, dict.fromkeys(tasks, "PENDING")),
                ended_s=None,
                why=None,
                advice=None,
                erased_s=None,
                delivered=False,
                cancel_requested_s=None,
                stopped_s=None,
            )
        return self._registry.job(job.id)

    def _job_to_cancel(self, job_id: str) -> Job:
        """Return the job. If the job is unknown, ensure that a later submission of the job is
        dropped, and raise NotFoundError."""
        try:
            return self._registry.job(job_id)
        except NotFoundError:
            self._registry.unwanted(job_id)
            raise

    def hold(self, job_id: str) -> Job:
        return self._update(job_id, "hold")

    def release(self, job_id: str) -> Job:
        return self._update(job_id, "release")

    def requeue(self, job_id: str) -> Job:
        try:
            return self._update(job_id, "requeue")
        except CommandError as exc:
            refused = explain_requeue(exc.detail or "")
            if refused is None:
                raise
            self._registry.change(job_id, no_requeue=refused)
            raise RequestError(f"Job {job_id} continues. {refused}", detail=exc.detail) from exc

    def control_jobs(
        self,
        verb: JobVerb,
        job_ids: Sequence[str],
        slurm_ids: Sequence[str] | None = None,
        cluster: str | None = None,
    ) -> list[Refusal]:
        known = self._clusters.named(cluster)
        try:
            wanted: dict[str, Job | None] = dict.fromkeys(scancel.checked(slurm_ids or []))
        except ValueError as exc:
            raise RequestError(f"{exc}.") from exc
        refusals: list[Refusal] = []
        unlisted: list[Job] = []
        for job_id in dict.fromkeys(job_ids):
            try:
                job = self._registry.job(job_id)
            except JupyterSlurmError as exc:
                refusals.append(Refusal(job=job_id, why=exc.message))
                continue
            if job.cluster != known.name:
                why = f"Job {job.id} is on {job.cluster}, not on {known.name}."
                refusals.append(Refusal(job=job.id, why=why))
            elif ids := _listed_ids(self._registry.record(job.id), verb):
                wanted |= dict.fromkeys(ids, job)
            elif verb == "cancel":
                unlisted.append(job)
            else:
                refusals.append(_refusal(job, nothing_to(verb, job)))
        if wanted and known.access.connection is not None:
            known.access.connection.check_login()
        for job in unlisted:
            try:
                self.cancel(job.id)
            except JupyterSlurmError as exc:
                refusals.append(_refusal(job, exc.message))
        return [*refusals, *self._control_listed(known, verb, wanted)] if wanted else refusals

    def _control_listed(
        self, cluster: SlurmCluster, verb: JobVerb, wanted: Mapping[str, Job | None]
    ) -> list[Refusal]:
        """Control the jobs of `wanted`, a mapping of Slurm's IDs to jobs. The value is None for a
        job without a record. Return the refusals."""
        ids, unknown = self._in_order(cluster, wanted)
        refusals = [] if verb == "cancel" else [_refusal(job, gone(job).message) for job in unknown]
        try:
            for at in range(0, len(ids), _AT_ONCE):
                some = {slurm_id: wanted[slurm_id] for slurm_id in ids[at : at + _AT_ONCE]}
                refusals += self._control_some(cluster, verb, some)
        finally:
            self._clusters.watch(cluster).ask_now()
        return refusals

    def _in_order(
        self, cluster: SlurmCluster, wanted: Mapping[str, Job | None]
    ) -> tuple[list[str], list[Job]]:
        """Return the known IDs, and the jobs whose IDs Slurm has forgotten or reused. IDs of
        waiting jobs come first. Otherwise waiting jobs would start as soon as running jobs are
        cancelled."""
        rows = squeue.parse(cluster.ask(squeue.mine_argv(cluster.transport.user())))
        there: set[str] = set()
        begun: set[str] = set()
        for row in rows:
            both = {row.slurm_id, row.whole_id}
            if row.state != "PENDING" and not states.is_terminal(row.state):
                begun |= both
            for slurm_id in both:
                job = wanted.get(slurm_id)
                if job is not None and is_same(self._registry.record(job.id), row):
                    there.add(slurm_id)
        known = [one for one, job in wanted.items() if job is None or one in there]
        unknown = [job for one, job in wanted.items() if job is not None and one not in there]
        return sorted(known, key=begun.__contains__), unknown

    def _control_some(
        self, cluster: SlurmCluster, verb: JobVerb, some: Mapping[str, Job | None]
    ) -> list[Refusal]:
        if verb == "cancel":
            # Record the request first, because the job may end before scancel returns.
            self._note_cancels(some.values(), requested=True)
            argv = scancel.cancel_argv(some)
        else:
            argv = scontrol.update_argv(verb, some)
        try:
            cluster.ask(argv)
        except ControllerError:
            if verb == "cancel":
                self._note_cancels(some.values(), requested=False)
            raise
        except CommandError as exc:  # Slurm names refused jobs, and continues with the others
            refusals = self._refused(exc.detail or "", verb, some)
            if verb == "cancel":
                self._note_cancels([some[slurm_id] for slurm_id in refusals], requested=False)
            return [Refusal(job=slurm_id, why=why) for slurm_id, why in refusals.items()]
        return []

    def _note_cancels(self, jobs: Iterable[Job | None], *, requested: bool) -> None:
        now_s = time.time()
        for job in filter(None, jobs):
            when_s = now_s if requested else job.cancel_requested_s
            with suppress(NotFoundError), self._registry.lock():
                if not self._registry.job(job.id).state.final:
                    self._registry.change(job.id, cancel_requested_s=when_s)

    def _refused(self, said: str, verb: JobVerb, some: Mapping[str, Job | None]) -> dict[str, str]:
        """Return Slurm's reason for each refused job, by Slurm ID. Omit ended jobs if `verb` is
        `cancel`."""
        words = refused(said, some) or dict.fromkeys(some, message(said))
        found: dict[str, str] = {}
        for slurm_id, why in words.items():
            if verb == "cancel" and scancel.is_already_gone(why):
                continue
            never = explain_requeue(why) if verb == "requeue" else None
            job = some[slurm_id]
            if never is not None and job is not None:
                self._registry.change(job.id, no_requeue=never)
            found[slurm_id] = never or f"Slurm refused: {why}."
        return found

    def extend(self, job_id: str, limit: str) -> Job:
        job = self._registry.job(job_id)
        ids = _listed_ids(self._registry.record(job.id), "hold")
        if not ids:
            raise RequestError(f"Job {job.id} is {job.state}, so its time limit cannot be changed.")
        try:
            commands = [scontrol.time_limit_argv(one, limit.strip()) for one in ids]
        except ValueError as exc:
            raise RequestError(
                f"{exc}.", hint="Use `+1h` for an hour more, or `4h` for four hours in all."
            ) from exc
        try:
            for argv in commands:
                self._ask_slurm(job, argv)
        except CommandError as exc:
            if not scontrol.is_denied(exc.detail or ""):
                raise
            raise CommandError(
                f"Slurm refused the new time limit of job {job.slurm_id}. Most clusters let users "
                "only lower the limit.",
                hint="Ask the cluster's support to raise the limit, or start another job with a "
                "longer --time.",
                detail=exc.detail,
            ) from exc
        return self._note_limit(job, ids[0])

    def _note_limit(self, job: Job, slurm_id: str) -> Job:
        """Record the time limit that Slurm reports now, and return the job. The last listing may be
        outdated. Raises CommandError."""
        answer = self._clusters.named(job.cluster).ask(scontrol.job_argv(slurm_id))
        limits_s = [row.limit_s for row in scontrol.parse_jobs(answer)]
        known_s = None if not limits_s or limits_s[0] is None else int(limits_s[0])
        return self._registry.change(job.id, limit_s=known_s)

    def why(self, job_id: str) -> Job:
        job = self._registry.job(job_id)
        if job.slurm_id is not None and not job.state.final:
            count = self._registry.change_count
            self._clusters.watch(self._clusters.named(job.cluster)).ask_now()
            self._registry.wait(self._registry.changed_since(count), queue.ASK_WAIT_S)
        return self._registry.job(job_id)

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        """Run a Slurm command as written, and list the queue if the command may have changed it.

        Wait a few seconds for the end of our jobs that `scancel` names. Otherwise a cell that is
        run again at once would attach to its cancelled job.
        """
        asked = self._clusters.named(cluster)
        output = queue.command(asked, argv)
        if argv[0] == "scancel" or (argv[0] == "scontrol" and "show" not in argv):
            self._clusters.watch(asked).ask_now()
        if argv[0] == "scancel":
            named = [job.id for job in self._live(asked.name) if job.slurm_id in argv]
            self._registry.wait(lambda: self._have_ended(named), queue.ASK_WAIT_S)
        return output

    def _live(self, cluster: str) -> list[Job]:
        return [record.job for record in self._registry.live(cluster)]

    def _have_ended(self, job_ids: list[str]) -> bool:
        return all(self._registry.job(job_id).state.final for job_id in job_ids)

    def _update(self, job_id: str, verb: Literal["hold", "release", "requeue"]) -> Job:
        job = self._registry.job(job_id)
        ids = _listed_ids(self._registry.record(job.id), verb)
        if not ids:
            raise RequestError(nothing_to(verb, job))
        self._ask_slurm(job, scontrol.update_argv(verb, ids))
        return self.why(job_id)

    def _ask_slurm(self, job: Job, argv: list[str]) -> None:
        """Run `argv`. Raises CommandError, or NotFoundError if Slurm forgot the job or reused its
        ID."""
        cluster = self._clusters.named(job.cluster)
        # Skip a sweep, because the latest listing contains its live arrays.
        if not isinstance(job, SweepJob) and not ask_jobs(cluster, self._registry.record(job.id)):
            raise gone(job)
        cluster.ask(argv)
        self._clusters.watch(cluster).ask_now()

    def forget(self, job_id: str) -> None:
        record = self._registry.record(job_id)
        job = record.job
        try:
            cluster = self._clusters.named(job.cluster)
        except NotFoundError:  # the cluster's profile is gone
            self._registry.remove(job.id)
            return
        if not job.state.final:
            raise RequestError(
                f"Job {job.id} is {job.state} and cannot be forgotten.",
                hint="Cancel it first.",
            )
        folder, mirror = JobDir(PurePosixPath(job.job_dir)), record.mirror
        self._transfers.remove(
            cluster.transport, folder, mirror, still_used=lambda: self._others_use(mirror, job.id)
        )
        self._results.served(job.id)
        self._sessions.forget_cells(job.id)
        self._registry.remove(job.id)

    def _others_use(self, mirror: str | None, job_id: str) -> bool:
        records = self._registry.records()
        return any(one.mirror == mirror and one.job.id != job_id for one in records)


def _listed_ids(record: Record, verb: JobVerb) -> list[str]:
    """Return the Slurm IDs to which `verb` applies; [] for an ended job or a session's cell. For a
    sweep, return the IDs of arrays with live tasks. To requeue a sweep, return [], because Slurm
    would run all tasks of these arrays again."""
    job = record.job
    if job.state.final or job.session is not None:
        return []
    if isinstance(job, SweepJob):
        return [] if verb == "requeue" else live_arrays(record)
    return list(job.slurm_ids)


def _refusal(job: Job, why: str) -> Refusal:
    return Refusal(job=job.slurm_id or job.id, why=why)


def gone(job: Job) -> NotFoundError:
    """Return the error for a forgotten job."""
    return NotFoundError(
        f"Slurm no longer has a record of job {job.id}.",
        hint=f"Do not use its Slurm ID {job.slurm_id}, which may now belong to a different job on "
        f"{job.cluster}.",
    )


def nothing_to(verb: JobVerb, job: Job) -> str:
    """Return the message for a job that cannot be held, released or requeued."""
    if isinstance(job, SweepJob) and verb == "requeue" and not job.state.final:
        return (
            f"Sweep {job.id} cannot be requeued as a whole. Requeue its tasks by their Slurm IDs."
        )
    done = {"hold": "held", "release": "released", "requeue": "requeued"}[verb]
    return f"Job {job.id} is {job.state} and cannot be {done}."
