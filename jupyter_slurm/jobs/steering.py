"""What a person does to a job that there is: cancel, hold, release, requeue, ask why, forget."""

from __future__ import annotations

import time
from pathlib import PurePosixPath

from jupyter_slurm.errors import CommandError, NotFoundError, RequestError
from jupyter_slurm.jobs.access.sessions import Sessions
from jupyter_slurm.jobs.cluster import queue
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.transfers import Transfers
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.allocation import ask_jobs
from jupyter_slurm.jobs.outcome.result_service import ResultService
from jupyter_slurm.jobs.outcome.verdict import CANCEL_NOTED
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.submission import on_login
from jupyter_slurm.jobs.submission.submit import withdraw
from jupyter_slurm.slurm import scancel, scontrol
from jupyter_slurm.slurm.rejections import explain_requeue
from jupyter_slurm.wire import CommandOutput, Job, JobState


class Steering:
    """Each call is that of `api.Api` with the same name."""

    def __init__(
        self,
        book: Book,
        clusters: Clusters,
        transfers: Transfers,
        delivery: ResultService,
        sessions: Sessions,
    ) -> None:
        self._book = book
        self._clusters = clusters
        self._transfers = transfers
        self._delivery = delivery
        self._sessions = sessions

    def cancel(self, job_id: str) -> Job:
        with self._book.alone():
            before = self._wanted_no_more(job_id)
            if before.state.final:
                return before
            # Noted first: should the job be gone before scancel returns, this says why.
            job = self._book.change(job_id, cancel_requested_s=time.time())
        if withdraw(self._book, job.id):
            return self._book.job(job.id)
        if job.state is JobState.SUBMITTING:
            self._book.found(job, why=CANCEL_NOTED)
        if job.session is not None:
            self._sessions.cancel(job, again=before.cancel_requested_s is not None)
            return self._book.job(job_id)
        if job.on_login:
            on_login.look(self._book, self._clusters.named(job.cluster))
            return self._book.job(job_id)
        if job.slurm_id is None:
            return self._book.job(job_id)
        try:
            self._steer(job, scancel.cancel_argv([job.slurm_id]))
        except NotFoundError:  # how it has ended is found out
            self._clusters.watch(self._clusters.named(job.cluster)).ask_now()
        except CommandError as exc:
            if not scancel.is_already_gone(exc.detail or ""):
                self._book.change(job_id, cancel_requested_s=before.cancel_requested_s)
                raise
        return self._book.job(job_id)

    def _wanted_no_more(self, job_id: str) -> Job:
        """Return the job whose end is asked for. NotFoundError: it may still come, and will not be
        sent then."""
        try:
            return self._book.job(job_id)
        except NotFoundError:
            self._book.unwanted(job_id)
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
            self._book.change(job_id, no_requeue=refused)
            raise RequestError(f"Job {job_id} goes on. {refused}", detail=exc.detail) from exc

    def extend(self, job_id: str, limit: str) -> Job:
        job = self._book.job(job_id)
        if job.state.final or job.slurm_id is None:
            raise RequestError(f"Job {job.id} is {job.state}: it has no time limit to change.")
        try:
            argv = scontrol.time_limit_argv(job.slurm_id, limit.strip())
        except ValueError as exc:
            raise RequestError(f"{exc}.", hint="As in `+1h`, or `4h` for all of it.") from exc
        try:
            self._steer(job, argv)
        except CommandError as exc:
            if not scontrol.is_denied(exc.detail or ""):
                raise
            raise CommandError(
                f"Slurm does not let you change the time limit of job {job.slurm_id} to that.",
                hint="Most clusters let their users only lower it. Ask the cluster's support to "
                "raise it while the job runs, or save what you have and start "
                "another with more --time.",
                detail=exc.detail,
            ) from exc
        # Not from a listing: one may be under way that is older.
        answer = self._clusters.named(job.cluster).ask(scontrol.job_argv(job.slurm_id))
        limits_s = [row.limit_s for row in scontrol.parse_jobs(answer)]
        known_s = None if not limits_s or limits_s[0] is None else int(limits_s[0])
        return self._book.change(job_id, limit_s=known_s)

    def why(self, job_id: str) -> Job:
        job = self._book.job(job_id)
        if job.slurm_id is not None and not job.state.final:
            stirs = self._book.stirs
            self._clusters.watch(self._clusters.named(job.cluster)).ask_now()
            self._book.wait(self._book.stirred_since(stirs), queue.ASK_WAIT_S)
        return self._book.job(job_id)

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        """Run a Slurm command as written, and look at the queue where it may have changed it.

        Waits, for seconds at most, until jobs of ours that `scancel` names have ended: a cell that
        runs again at once would attach to its job.
        """
        asked = self._clusters.named(cluster)
        output = queue.command(asked, argv)
        if argv[0] == "scancel" or (argv[0] == "scontrol" and "show" not in argv):
            self._clusters.watch(asked).ask_now()
        if argv[0] == "scancel":
            named = [job.id for job in self._live(asked.name) if job.slurm_id in argv]
            self._book.wait(lambda: self._have_ended(named), queue.ASK_WAIT_S)
        return output

    def _live(self, cluster: str) -> list[Job]:
        return [record.job for record in self._book.live(cluster)]

    def _have_ended(self, job_ids: list[str]) -> bool:
        return all(self._book.job(job_id).state.final for job_id in job_ids)

    def _update(self, job_id: str, verb: queue.Verb) -> Job:
        job = self._book.job(job_id)
        if job.state.final or job.slurm_id is None:
            raise RequestError(nothing_to(verb, job))
        self._steer(job, scontrol.update_argv(verb, [job.slurm_id]))
        return self.why(job_id)

    def _steer(self, job: Job, argv: list[str]) -> None:
        """Run `argv`. CommandError; NotFoundError: Slurm has no such job, or another by its id."""
        cluster = self._clusters.named(job.cluster)
        if not ask_jobs(cluster, self._book.record(job.id)):
            raise gone(job)
        cluster.ask(argv)
        self._clusters.watch(cluster).ask_now()

    def forget(self, job_id: str) -> None:
        record = self._book.record(job_id)
        job = record.job
        if record.adopted:
            self._book.remove(job.id)
            return
        try:
            cluster = self._clusters.named(job.cluster)
        except NotFoundError:  # with the cluster went its jobs and their folders
            self._book.remove(job.id)
            return
        if not job.state.final:
            raise RequestError(
                f"Job {job.id} has not ended: it is {job.state}.",
                hint="Cancel it first.",
            )
        folder, mirror = JobDir(PurePosixPath(job.job_dir)), record.mirror
        self._transfers.remove(
            cluster.transport, folder, mirror, still_used=lambda: self._others_use(mirror, job.id)
        )
        self._delivery.served(job.id)
        self._sessions.forget_cells(job.id)
        self._book.remove(job.id)

    def _others_use(self, mirror: str | None, job_id: str) -> bool:
        records = self._book.records()
        return any(one.mirror == mirror and one.job.id != job_id for one in records)


def gone(job: Job) -> NotFoundError:
    """Return the error for a job that Slurm has forgotten."""
    return NotFoundError(
        f"Slurm knows nothing of job {job.id} any more.",
        hint=f"Job {job.slurm_id} of {job.cluster}, if there is one, is another.",
    )


def nothing_to(verb: queue.Verb, job: Job) -> str:
    """Return the refusal."""
    done = {"hold": "held", "release": "released", "requeue": "requeued"}[verb]
    return f"Job {job.id} is {job.state} and cannot be {done}."
