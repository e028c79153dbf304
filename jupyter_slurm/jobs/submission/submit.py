"""The submission of one job, which continues until its outcome is known.

The agent always records a job with its token before it calls sbatch. Before it calls sbatch again,
it looks the job up twice, with a pause. The answer can be lost at any point, for example if the
controller accepts the job after sbatch has timed out, or if this process is killed while sbatch
runs. The ID is then in the folder's `submitted` file, in the queue under the token, or in the file
that the job writes when it starts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from jupyter_slurm.errors import (
    CommandError,
    ConnectionLostError,
    ControllerError,
    FileAccessError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
    SubmitError,
    TransportError,
    from_problem,
)
from jupyter_slurm.formatting import joined, reasons_told
from jupyter_slurm.jobs.cluster.environment_script import EnvironmentPlan
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster, silent_sbatch
from jupyter_slurm.jobs.cluster.transfers import Transfers
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import Files
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome import array_tasks
from jupyter_slurm.jobs.outcome.allocation import ask_jobs
from jupyter_slurm.jobs.outcome.result import parse_started
from jupyter_slurm.jobs.records.registry import JobRegistry, Record
from jupyter_slurm.jobs.submission.dependencies import awaited, with_after
from jupyter_slurm.jobs.submission.options import slurm_name
from jupyter_slurm.jobs.submission.prepare import Outputs, Submission, prepare, with_key
from jupyter_slurm.jobs.submission.resolve import resolve
from jupyter_slurm.jobs.watching.queue_rows import bears_id
from jupyter_slurm.slurm import sacct, sbatch, squeue
from jupyter_slurm.slurm.rejections import explain_rejection
from jupyter_slurm.transport import Completed
from jupyter_slurm.wire import CellSpec, JobSpec, JobState, SweepSpec, TransferState

if TYPE_CHECKING:
    from jupyter_slurm.jobs.cluster.environments import Environments

_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 30.0
_SILENT_S = 15.0
"""Seconds between checks of an sbatch that has not answered. sbatch retries for minutes."""
_PUSH_TOLD_S = 1.0
"""Seconds between progress reports for a pushed folder."""
_WAIT_TOLD_S = 1.0
"""Seconds between reports on another job that the submission waits for."""


def withdraw(registry: JobRegistry, job_id: str) -> bool:
    """Cancel an unsent job. Return False if the job may have been sent."""
    with registry.lock():
        record = registry.record(job_id)
        if record.job.state is not JobState.SUBMITTING or record.sbatch_calls:
            return False
        _end_unsent(registry, record)
    return True


def _end_unsent(registry: JobRegistry, record: Record) -> None:
    _drop_spec(registry, record)
    tasks = array_tasks.every(record.job.tasks)
    registry.change(
        record.job.id,
        tasks={"CANCELLED": tasks} if tasks else {},
        state=JobState.CANCELLED,
        ended_s=time.time(),
        why="Cancelled by you before it was sent.",
        transfer=None,
        problem=None,
        problem_since_s=None,
        **kind_of(record.job).at_end,
    )


def _drop_spec(registry: JobRegistry, record: Record) -> None:
    """Delete the spec and the local files of its variables."""
    for path in spooled(record.spec):
        path.unlink(missing_ok=True)
    registry.note(record.job.id, spec=None)


def spooled(spec: JobSpec | None) -> list[Path]:
    """Return the local files of a job's variables. Submitting moves them into the job's folder."""
    inputs = spec.inputs if isinstance(spec, CellSpec | SweepSpec) else None
    params = (spec.params, spec.params_text) if isinstance(spec, SweepSpec) else ()
    return [Path(path) for path in (inputs, *params) if path is not None]


class Submitter:
    """The submission of one job; `run` blocks until it is settled."""

    def __init__(
        self,
        registry: JobRegistry,
        cluster: Callable[[], SlurmCluster],
        transfers: Transfers,
        environments: Environments,
        job_id: str,
        stop: threading.Event,
        made: Submission | None = None,
    ) -> None:
        """`cluster` returns the job's cluster, with its current profile and connection. `made` is
        the submission that was prepared when the job was recorded."""
        self._registry = registry
        self._find_cluster = cluster
        self._transfers = transfers
        self._environments = environments
        self._id = job_id
        self._stop = stop
        self._made = made
        self._whole = PurePosixPath(registry.job(job_id).job_dir)
        self._dir = JobDir(self._whole)
        """The folder with the file `submitted`. sbatch is called in it."""
        self._first_empty_s: float | None = None
        self._outputs = Outputs()

    def run(self) -> None:
        """Submit; return when the submission is settled or `stop` is set."""
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set() and not self._is_withdrawn():
            try:
                self._cluster = self._find_cluster()
            except JupyterSlurmError as exc:  # the user may fix the invalid profile
                self._registry.note_problem(self._id, exc)
            else:
                try:
                    if self._step():
                        return
                    pause_s = min(pause_s, self._cluster.profile.lookup_gap_s)
                    self._registry.clear_problem(self._id)
                except (ControllerError, TransportError) as exc:
                    self._first_empty_s = None
                    self._registry.note_problem(self._id, exc)
            self._rest(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

    def _rest(self, pause_s: float) -> None:
        """Wait before the next try; return at once if the user cancels the job."""
        before_s = self._registry.job(self._id).cancel_requested_s

        def wanted() -> bool:
            return self._stop.is_set() or (
                self._registry.job(self._id).cancel_requested_s != before_s
            )

        self._registry.wait(wanted, pause_s)
        if self._registry.closed:  # the agent is exiting
            self._stop.wait(pause_s)

    def _is_withdrawn(self) -> bool:
        record = self._registry.record(self._id)
        return record.job.state.final and not record.sbatch_calls

    def give_up(self, error: Exception) -> None:
        """Record an internal error; the next agent tries again."""
        self._registry.note_problem(
            self._id, TransportError(f"Internal error during submission: {error!r}.")
        )

    def _step(self) -> bool:
        """Take the next step; return whether the submission is settled."""
        job = self._registry.job(self._id)
        if job.submitted_s is not None and job.slurm_id is not None:
            # The job was sent before, perhaps by another agent. A cancellation may be pending.
            self._cancel(job.slurm_id)
            return True
        return self._pursue()

    def _pursue(self) -> bool:
        """Look up the outcome of an earlier call of sbatch, or call sbatch. Return whether the
        submission is settled."""
        if self._calls == 0:
            return self._cancelled_meanwhile() or self._call_sbatch()
        answer = self._look_up()
        if answer is not None:
            return self._settle(answer)
        now_s = time.monotonic()
        if self._first_empty_s is None:
            self._first_empty_s = now_s
            return False
        if now_s - self._first_empty_s < self._cluster.profile.lookup_gap_s:
            return False
        self._first_empty_s = None
        return self._cancelled_meanwhile() or self._told_no_id() or self._call_sbatch()

    def _told_no_id(self) -> bool:
        """Reject the job if sbatch succeeded without an ID and two look-ups did not find the job.
        Another call would get the same answer."""
        read = self._cluster.transport.read
        stdout = read(self._dir.submitted)
        if stdout is None:  # it exists once sbatch has succeeded
            return False
        return self._reject(
            SubmitError(
                "sbatch succeeded without printing a job ID, and Slurm has no record of the job. A "
                "wrapper or a plugin of the site probably refused the job.",
                hint="Change the options as the output of sbatch says, or ask the site's support.",
                detail=_words(read(self._dir.submit_err), stdout) or None,
            )
        )

    def _call_sbatch(self) -> bool:
        record = self._registry.record(self._id)
        spec = record.spec
        if spec is None:
            return self._reject(SubmitError("The code of this job is no longer available."))
        try:
            submission = self._ready(spec, self._submission(spec))
        except (RequestError, NotFoundError, FileAccessError, SubmitError) as exc:
            return self._reject(exc)
        if submission is None:
            return self._cancelled_meanwhile()
        self._outputs = submission.outputs
        files = with_key(submission.files, self._registry.store.new_key(self._id))
        return self._called(
            lambda: self._hand_over(submission, files),
            command=submission.sbatch,
            folder=submission.job.folder,
        )

    @property
    def _calls(self) -> int:
        """The number of times that sbatch may have been called."""
        return self._registry.record(self._id).sbatch_calls

    def _note_calls(self, calls: int, **known: Any) -> None:
        self._registry.note(self._id, sbatch_calls=calls, **known)

    def _called(self, hand_over: Callable[[], Completed], **known: Any) -> bool:
        """Record the call and the `known` fields, then call sbatch with `hand_over`."""
        with self._registry.lock():
            if self._registry.job(self._id).state.final:  # the user withdrew the job
                return True
            calls = self._calls
            self._note_calls(calls + 1, **known)
        try:
            done = hand_over()
        except FileAccessError as exc:  # sbatch was not called
            return self._reject(SubmitError(exc.message, hint=exc.hint, detail=exc.detail))
        except ConnectionLostError:  # sbatch may have been called
            raise
        except TransportError:  # no program was started
            self._note_calls(calls)
            raise
        refusal = self._passing_refusal(done)
        if refusal is not None:  # sbatch reports that it did not submit the job
            self._note_calls(calls)
            if calls == 0 and self._cancelled_meanwhile():
                return True
            raise refusal
        return self._judge(done)

    def _passing_refusal(self, done: Completed) -> ControllerError | None:
        """Return a temporary refusal; None if sbatch may have submitted the job or refused it
        permanently."""
        refusal = explain_rejection(sbatch_words(done)) if done.returncode else None
        if refusal is None or refusal.category != "transient":
            return None
        return ControllerError(f"Slurm did not accept the job: {refusal.text}", hint=refusal.hint)

    def _submission(self, spec: JobSpec) -> Submission:
        """Return the prepared submission. Prepare again for a second attempt, or if the profile has
        changed."""
        made, self._made = self._made, None
        if made is not None and made.job.profile == self._cluster.profile.for_job(spec):
            return made
        return prepare(resolve(spec, self._cluster, self._dir))

    def _hand_over(self, submission: Submission, files: Files) -> Completed:
        """Create the job's folder with `files` and call sbatch in it."""
        argv = sbatch.call_once(submission.sbatch)
        if submission.job.kind.is_raw_script:
            argv = sbatch.call_once_as_typed(submission.sbatch, self._cluster.profile.env)
        with self._silence_told():
            return self._cluster.deliver(self._dir.path, files, argv)

    @contextmanager
    def _silence_told(self) -> Iterator[None]:
        """While sbatch takes long, record the reason as the job's problem."""
        answered = threading.Event()

        def look() -> None:
            while not answered.wait(_SILENT_S):
                self._tell_silence(answered)

        threading.Thread(target=look, name=f"silence of {self._id}", daemon=True).start()
        try:
            yield
        finally:
            answered.set()

    def _tell_silence(self, answered: threading.Event) -> None:
        try:
            job = self._registry.job(self._id)
            words = self._cluster.transport.read(self._dir.submit_err) or b""
        except JupyterSlurmError:  # the call of sbatch raises the same error
            return
        said = words.decode(errors="replace").strip()
        known = explain_rejection(said)
        if known is not None and known.hint is not None:
            error = ControllerError(f"sbatch is still trying: {known.text}", hint=known.hint)
        else:
            error = silent_sbatch(self._cluster.name, said)
        if job.state is JobState.SUBMITTING and not answered.is_set():
            since_s = job.problem_since_s or time.time()
            with suppress(NotFoundError):  # the user forgot the job
                self._registry.found(job, problem=error.problem(), problem_since_s=since_s)

    def _ready(self, spec: JobSpec, submission: Submission) -> Submission | None:
        """Push files, install packages and wait for other jobs; then return the submission. Return
        None if the job was cancelled or the agent stops."""
        if spec.push is not None and not self._has_pushed(spec, spec.push):
            return None
        plan = submission.job.site.environment
        if plan is not None and not self._has_packages(spec, plan):
            return None
        while spec.after and (before := awaited(spec, self._registry, self._cluster.name)):
            self._tell_wait(f"Waiting until job {before.id} is submitted.")
            if self._is_unwanted():
                return None
        self._tell_wait(None)
        return prepare(with_after(submission.job, self._registry)) if spec.after else submission

    def _has_packages(self, spec: JobSpec, plan: EnvironmentPlan) -> bool:
        """Wait until the packages are installed. Return False if the job was cancelled or the agent
        stops. Raise SubmitError if they cannot be installed."""
        environments, cluster = self._environments, self._cluster
        installation = environments.installation(plan, cluster, spec)
        while installation is not None:
            installation = self._registry.job(installation.id)
            if installation.state.final:
                environments.check_installed(installation, cluster)
                break
            self._tell_wait(environments.told(installation, cluster))
            if self._is_unwanted(installation.id):
                return False
        return True

    def _tell_wait(self, why: str | None) -> None:
        """Record the reason why the submission waits; None once it no longer waits."""
        job = self._registry.job(self._id)
        if job.cancel_requested_s is None:
            self._registry.found(job, why=why)

    def _is_unwanted(self, other_id: str | None = None) -> bool:
        """Wait a while, or until the other job ends or this job is cancelled. Return whether this
        job was cancelled or the agent stops."""

        def cancelled() -> bool:
            job = self._registry.job(self._id)
            return job.state.final or job.cancel_requested_s is not None

        def ended() -> bool:
            return other_id is not None and self._registry.job(other_id).state.final

        self._registry.wait(lambda: cancelled() or ended(), _WAIT_TOLD_S)
        return cancelled() or self._stop.is_set() or self._registry.closed

    def _has_pushed(self, spec: JobSpec, folder: str) -> bool:
        """Push the folder once per job. Later edits do not affect the job. Return False if the push
        was stopped or the job cancelled."""
        cluster = self._cluster
        now = self._transfers.snapshot(
            cluster.name,
            cluster.transport,
            folder,
            self._dir,
            spec.push_exclude,
        )
        self._registry.note(self._id, mirror=now.remote)
        try:
            while now.state is TransferState.RUNNING and not self._stop.is_set():
                job = self._registry.job(self._id)
                if job.cancel_requested_s is not None:  # stop the push of a cancelled job
                    self._transfers.stop(now.id)
                    return False
                self._registry.found(job, transfer=now)
                now = self._transfers.outcome(now.id, _PUSH_TOLD_S)
        finally:
            job = self._registry.change(self._id, transfer=None)
        if now.state is TransferState.FAILED and now.problem is not None:
            raise from_problem(now.problem)
        if now.left_out is not None:
            told = ["Not pushed:", *reasons_told(now.left_out.reasons, now.left_out.count)]
            warning = joined(job.warning, *told, between="\n")
            self._registry.change(self._id, warning=warning)
        return now.state is TransferState.DONE and job.cancel_requested_s is None

    def _judge(self, done: Completed) -> bool:
        answer = sbatch.parse(done.stdout)
        if done.returncode == 0 and answer is not None:
            warning = done.stderr.decode(errors="replace").strip()
            return self._settle(answer[0], warning=warning or None)
        words = sbatch_words(done)
        rejection = explain_rejection(words)
        if done.returncode != 0 and (rejection is None or rejection.category == "definitive"):
            if rejection is None:
                return self._reject(SubmitError("sbatch failed and printed nothing."))
            return self._reject(
                SubmitError(
                    f"Slurm refused the job: {rejection.text}",
                    hint=rejection.hint,
                    option=rejection.option,
                )
            )
        raise ControllerError(
            f"sbatch did not get a clear answer on {self._cluster.name}. Checking whether Slurm "
            "accepted the job.",
            detail=words or None,
        )

    def _look_up(self) -> str | None:
        """Return the Slurm ID of this job, or None if all sources answered and the job was not
        found."""
        said = self._cluster.transport.read(self._dir.submitted)
        answer = sbatch.parse(said) if said else None
        if answer is not None:
            return answer[0]
        started = parse_started(self._cluster.transport.read(self._dir.started(0)) or b"")
        if started is not None:
            return started.slurm_id
        rows = squeue.parse(self._cluster.ask(squeue.mine_argv(self._cluster.transport.user())))
        for row in rows:
            if bears_id(self._token, row):
                return row.whole_id
        return self._look_up_history()

    @property
    def _token(self) -> str:
        """Our ID in the job's name and comment in Slurm."""
        return self._id

    def _look_up_history(self) -> str | None:
        job = self._registry.job(self._id)
        if kind_of(job).is_raw_script:
            return None
        name, since_s = slurm_name(job.name, self._token), job.created_s - 300
        try:
            output = self._cluster.ask(
                sacct.names_argv(self._cluster.transport.user(), [name], since_s)
            )
        except CommandError as exc:
            if isinstance(exc, ControllerError) and not sacct.is_disabled(str(exc)):
                raise
            return None
        rows = sacct.parse(output)
        return rows[0].slurm_id if rows else None

    def _learned(self, answer: str) -> dict[str, object]:
        """Return the fields of `Job` that follow from `answer`, which settles the submission."""
        return {"slurm_id": answer}

    def _settle(self, answer: str, warning: str | None = None) -> bool:
        # The job's files may report the start or the end before sbatch answers.
        with self._registry.lock():
            record = self._registry.record(self._id)
            record.spec = None
            record.stdout_path, record.stderr_path = self._outputs.of(answer)
            job = self._registry.job(self._id)
            changes: dict[str, object] = {**self._learned(answer), "submitted_s": time.time()}
            if job.state is JobState.SUBMITTING:
                state = JobState.RUNNING if job.started_s is not None else JobState.PENDING
                changes |= {"state": state, "problem": None, "problem_since_s": None, "why": None}
            if warning:
                changes["warning"] = joined(job.warning, warning, between="\n")
            job = self._registry.change(self._id, **changes)
        if job.cancel_requested_s is not None and not job.state.final:
            self._cancel(answer)
        return True

    def _cancel(self, slurm_id: str) -> None:
        """Send a cancellation that was requested before the job had an ID. After a ControllerError,
        the next step looks up the same ID and retries."""
        if ask_jobs(self._cluster, self._registry.record(self._id)):
            self._cluster.cancel([slurm_id])

    def _reject(self, error: JupyterSlurmError) -> bool:
        with self._registry.lock():
            job = self._registry.job(self._id)
            if job.state.final:  # the user withdrew the job
                return True
            _drop_spec(self._registry, self._registry.record(self._id))
            self._registry.change(
                self._id,
                state=JobState.REJECTED,
                ended_s=time.time(),
                why=error.message,
                advice=error.hint,
                problem=error.problem(),
                **kind_of(job).at_end,
            )
        return True

    def _cancelled_meanwhile(self) -> bool:
        with self._registry.lock():
            job = self._registry.job(self._id)
            if job.state.final or job.cancel_requested_s is None:
                return job.state.final
            _end_unsent(self._registry, self._registry.record(self._id))
        return True


def _words(stderr: bytes | None, stdout: bytes | None) -> str:
    """Return the whole output of a failed sbatch, since a site's wrapper may use either stream."""
    parts = (part.decode(errors="replace").strip() for part in (stderr, stdout) if part)
    return "\n".join(filter(None, parts))


def sbatch_words(done: Completed) -> str:
    """Return the output of sbatch."""
    return _words(done.stderr, done.stdout)
