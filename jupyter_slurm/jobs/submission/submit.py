"""The submission of one job: pursued until it is known what became of it.

Law: a job is recorded, with its token, before sbatch is called; before sbatch is called again it
is looked up, twice, with a pause between. An answer can be lost at any point (a controller that
takes the job and answers after sbatch's time-out; this process killed while sbatch runs): then the
id is in the folder's `submitted` file, or in the queue under the token, or in the file that the job
writes when it starts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

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
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster, silent_sbatch
from jupyter_slurm.jobs.cluster.transfers import Transfers
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import Files
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.allocation import ask_jobs
from jupyter_slurm.jobs.outcome.result import parse_started
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.store import Record
from jupyter_slurm.jobs.submission.options import slurm_name
from jupyter_slurm.jobs.submission.prepare import Outputs, Submission, prepare, with_key
from jupyter_slurm.jobs.submission.resolve import resolve
from jupyter_slurm.jobs.submission.sbatch_call import sbatch_call, sbatch_call_as_typed
from jupyter_slurm.jobs.watching.queue_rows import bears_id
from jupyter_slurm.readable import joined, reasons_told
from jupyter_slurm.slurm import sacct, sbatch, scancel, squeue
from jupyter_slurm.slurm.rejections import explain_rejection
from jupyter_slurm.transport import Completed
from jupyter_slurm.wire import CellSpec, JobSpec, JobState, TransferState

_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 30.0
_SILENT_S = 15.0
"""How often it is looked what keeps an sbatch that has not answered: it tries for minutes."""
_PUSH_TOLD_S = 1.0
"""How often it is told how far a folder that is pushed has come."""


def withdraw(book: Book, job_id: str) -> bool:
    """End a job of which nothing has been sent yet. False: something may have been."""
    with book.alone():
        record = book.record(job_id)
        if record.job.state is not JobState.SUBMITTING or record.sbatch_calls:
            return False
        _end_unsent(book, record)
    return True


def _end_unsent(book: Book, record: Record) -> None:
    _drop_spec(book, record)
    book.change(
        record.job.id,
        state=JobState.CANCELLED,
        ended_s=time.time(),
        why="Cancelled by you before it was sent.",
        transfer=None,
        problem=None,
        problem_since_s=None,
        **kind_of(record.job).at_end,
    )


def _drop_spec(book: Book, record: Record) -> None:
    """Drop the spec and its variables: it will not be sent any more."""
    if isinstance(record.spec, CellSpec) and record.spec.inputs is not None:
        Path(record.spec.inputs).unlink(missing_ok=True)
    book.note(record.job.id, spec=None)


class Submitter:
    """One job's submission, run by `run()` in a thread of its own; made without asking anybody."""

    def __init__(
        self,
        book: Book,
        cluster: Callable[[], SlurmCluster],
        transfers: Transfers,
        job_id: str,
        stop: threading.Event,
        made: Submission | None = None,
    ) -> None:
        """Prepare to submit. `cluster` finds the job's, with its profile and way as they are by
        then; `made`: what was prepared and checked when the job was recorded."""
        self._book = book
        self._find_cluster = cluster
        self._transfers = transfers
        self._id = job_id
        self._stop = stop
        self._made = made
        self._dir = JobDir(PurePosixPath(book.job(job_id).job_dir))
        self._first_empty_s: float | None = None
        self._outputs = Outputs()

    def run(self) -> None:
        """Submit; return when the submission is settled, or when `stop` is set."""
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set() and not self._is_withdrawn():
            try:
                self._cluster = self._find_cluster()
            except JupyterSlurmError as exc:  # its profile cannot be used, and may be mended
                self._trouble(exc)
            else:
                try:
                    if self._step():
                        return
                    pause_s = min(pause_s, self._cluster.profile.lookup_gap_s)
                    self._clear_problem()
                except (ControllerError, TransportError) as exc:
                    self._first_empty_s = None
                    self._trouble(exc)
            self._rest(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

    def _rest(self, pause_s: float) -> None:
        """Wait, but not while a user who has just cancelled the job waits for that."""
        before_s = self._book.job(self._id).cancel_requested_s

        def wanted() -> bool:
            return self._stop.is_set() or (self._book.job(self._id).cancel_requested_s != before_s)

        self._book.wait(wanted, pause_s)
        if self._book.closed:  # nobody waits there any more, and the agent is about to end
            self._stop.wait(pause_s)

    def _is_withdrawn(self) -> bool:
        record = self._book.record(self._id)
        return record.job.state.final and not record.sbatch_calls

    def give_up(self, error: Exception) -> None:
        """Note a fault of ours: nothing more is tried until the next start of the agent."""
        self._trouble(TransportError(f"Internal error during submission: {error!r}."))

    def _step(self) -> bool:
        """Take the next step; return whether the submission is settled now."""
        record = self._book.record(self._id)
        job = record.job
        if job.submitted_s is not None and job.slurm_id is not None:
            # Sent before, perhaps by others: what is left is a cancellation to be passed on.
            self._cancel(job.slurm_id)
            return True
        if record.sbatch_calls == 0:
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
        """Reject the job where sbatch has succeeded without an ID, and two look-ups have found no
        such job: another call would get the same answer."""
        read = self._cluster.transport.read
        stdout = read(self._dir.submitted)
        if stdout is None:  # it is there once sbatch has succeeded
            return False
        return self._reject(
            SubmitError(
                "sbatch succeeded without printing a job ID, and Slurm knows no such job.",
                hint="A wrapper or a plugin of the site probably refused the job. Change the "
                "request as its words say, or ask the site.",
                detail=_words(read(self._dir.submit_err), stdout) or None,
            )
        )

    def _call_sbatch(self) -> bool:
        record = self._book.record(self._id)
        spec = record.spec
        if spec is None:
            return self._reject(SubmitError("The text of this job is no longer there to submit."))
        try:
            submission = self._submission(spec)
            if spec.push is not None and not self._has_pushed(spec, spec.push):
                return self._cancelled_meanwhile()
        except (RequestError, NotFoundError, FileAccessError) as exc:
            return self._reject(exc)
        self._outputs = submission.outputs
        files = with_key(submission.files, self._book.store.new_key(self._id))
        with self._book.alone():
            if self._book.job(self._id).state.final:  # withdrawn meanwhile
                return True
            calls = record.sbatch_calls
            self._book.note(
                self._id,
                sbatch_calls=calls + 1,
                command=submission.sbatch,
                folder=submission.job.folder,
            )
        try:
            done = self._hand_over(submission, files)
        except FileAccessError as exc:  # sbatch was not called
            return self._reject(SubmitError(exc.message, hint=exc.hint, detail=exc.detail))
        except ConnectionLostError:  # it may have been
            raise
        except TransportError:  # nothing was begun
            self._book.note(self._id, sbatch_calls=calls)
            raise
        refusal = _passing_refusal(done)
        if refusal is not None:  # sbatch says that it has not handed it over
            self._book.note(self._id, sbatch_calls=calls)
            if calls == 0 and self._cancelled_meanwhile():
                return True
            raise refusal
        return self._judge(done)

    def _submission(self, spec: JobSpec) -> Submission:
        """Return what was prepared when the job was recorded. Prepare it anew for a second attempt,
        or where the profile has changed since."""
        made, self._made = self._made, None
        if made is not None and made.job.profile == self._cluster.profile.for_job(spec):
            return made
        return prepare(resolve(spec, self._cluster, self._dir))

    def _hand_over(self, submission: Submission, files: Files) -> Completed:
        """Put the job's folder in place with `files`, and have it begun there."""
        argv = sbatch_call(submission.sbatch)
        if submission.job.kind.is_as_written:
            argv = sbatch_call_as_typed(submission.sbatch, self._cluster.profile.env)
        with self._silence_told():
            return self._cluster.deliver(self._dir.path, files, argv)

    @contextmanager
    def _silence_told(self) -> Iterator[None]:
        """Say what keeps sbatch while it runs for long."""
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
            job = self._book.job(self._id)
            words = self._cluster.transport.read(self._dir.submit_err) or b""
        except JupyterSlurmError:  # as the call of sbatch will find out
            return
        said = words.decode(errors="replace").strip()
        known = explain_rejection(said)
        if known is not None and known.known:
            error = ControllerError(known.sentence, hint=known.advice, detail=said)
        else:
            error = silent_sbatch(self._cluster.name, said)
        if job.state is JobState.SUBMITTING and not answered.is_set():
            since_s = job.problem_since_s or time.time()
            with suppress(NotFoundError):  # it was forgotten meanwhile
                self._book.found(job, problem=error.problem(), problem_since_s=since_s)

    def _has_pushed(self, spec: JobSpec, folder: str) -> bool:
        """Push the folder, once for a job: edits while it waits change nothing. False: it was
        stopped, or nobody wants the job any more."""
        cluster = self._cluster
        now = self._transfers.snapshot(
            cluster.name,
            cluster.transport,
            folder,
            self._dir,
            spec.push_exclude,
        )
        self._book.note(self._id, mirror=now.remote)
        try:
            while now.state is TransferState.RUNNING and not self._stop.is_set():
                job = self._book.job(self._id)
                if job.cancel_requested_s is not None:  # an ended job is not shown to be pushed
                    self._transfers.stop(now.id)
                    return False
                self._book.found(job, transfer=now)
                now = self._transfers.outcome(now.id, _PUSH_TOLD_S)
        finally:
            job = self._book.change(self._id, transfer=None)
        if now.state is TransferState.FAILED and now.problem is not None:
            raise from_problem(now.problem)
        if now.left_out is not None:
            told = ["Not pushed:", *reasons_told(now.left_out.reasons, now.left_out.count)]
            warning = joined(job.warning, *told, between="\n")
            self._book.change(self._id, warning=warning)
        return now.state is TransferState.DONE and job.cancel_requested_s is None

    def _judge(self, done: Completed) -> bool:
        answer = sbatch.parse(done.stdout)
        if done.returncode == 0 and answer is not None:
            warning = done.stderr.decode(errors="replace").strip()
            return self._settle(answer[0], warning=warning or None)
        words = _words(done.stderr, done.stdout)
        rejection = explain_rejection(words)
        if done.returncode != 0 and (rejection is None or rejection.category == "definitive"):
            sentence = rejection.sentence if rejection else "sbatch failed without a word."
            hint = rejection.advice if rejection else None
            # What nobody knows is told in Slurm's words: they need not stand there twice.
            detail = words if rejection is not None and rejection.known else None
            return self._reject(SubmitError(sentence, hint=hint, detail=detail))
        raise ControllerError(
            f"sbatch got no clear answer on {self._cluster.name}; whether the job was taken is "
            "being found out.",
            detail=words or None,
        )

    def _look_up(self) -> str | None:
        """Return Slurm's id of this job; None: all have answered and none knows it."""
        said = self._cluster.transport.read(self._dir.submitted)
        answer = sbatch.parse(said) if said else None
        if answer is not None:
            return answer[0]
        started = parse_started(self._cluster.transport.read(self._dir.started(0)) or b"")
        if started is not None:
            return started.slurm_id
        rows = squeue.parse(self._cluster.ask(squeue.mine_argv(self._cluster.transport.user())))
        for row in rows:
            if bears_id(self._id, row):
                return row.whole_id
        return self._look_up_history()

    def _look_up_history(self) -> str | None:
        record = self._book.record(self._id)
        if record.spec is None or kind_of(record.spec).is_as_written:
            return None
        since_s = record.job.created_s - 300
        try:
            output = self._cluster.ask(
                sacct.names_argv(self._cluster.transport.user(), [slurm_name(record.spec)], since_s)
            )
        except CommandError as exc:
            if isinstance(exc, ControllerError) and not sacct.is_disabled(exc.detail or ""):
                raise
            return None
        rows = sacct.parse(output)
        return rows[0].slurm_id if rows else None

    def _learned(self, answer: str) -> dict[str, object]:
        """Return what `answer`, which settles it, changes in the job."""
        return {"slurm_id": answer}

    def _settle(self, answer: str, warning: str | None = None) -> bool:
        # Its files may have told before sbatch answered that it runs or has ended, or tell now.
        with self._book.alone():
            record = self._book.record(self._id)
            record.spec = None
            record.stdout_path, record.stderr_path = self._outputs.of(answer)
            job = self._book.job(self._id)
            changes: dict[str, object] = {**self._learned(answer), "submitted_s": time.time()}
            if job.state is JobState.SUBMITTING:
                state = JobState.RUNNING if job.started_s is not None else JobState.PENDING
                changes |= {"state": state, "problem": None, "problem_since_s": None, "why": None}
            if warning:
                changes["warning"] = joined(job.warning, warning, between="\n")
            job = self._book.change(self._id, **changes)
        if job.cancel_requested_s is not None and not job.state.final:
            self._cancel(answer)
        return True

    def _cancel(self, slurm_id: str) -> None:
        """Pass on a cancellation that was asked for before there was an id. ControllerError: it is
        tried again, for the next look-up finds the same id."""
        try:
            if ask_jobs(self._cluster, self._book.record(self._id)):
                self._cluster.ask(scancel.cancel_argv([slurm_id]))
        except CommandError as exc:
            if isinstance(exc, ControllerError) or not scancel.is_already_gone(exc.detail or ""):
                raise

    def _reject(self, error: JupyterSlurmError) -> bool:
        with self._book.alone():
            job = self._book.job(self._id)
            if job.state.final:  # withdrawn, with what it was made of
                return True
            _drop_spec(self._book, self._book.record(self._id))
            self._book.change(
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
        with self._book.alone():
            job = self._book.job(self._id)
            if job.state.final or job.cancel_requested_s is None:
                return job.state.final
            _end_unsent(self._book, self._book.record(self._id))
        return True

    def _trouble(self, error: JupyterSlurmError) -> None:
        job = self._book.job(self._id)
        if not job.state.final:
            since_s = job.problem_since_s or time.time()
            self._book.found(job, problem=error.problem(), problem_since_s=since_s)

    def _clear_problem(self) -> None:
        self._book.change(self._id, problem=None, problem_since_s=None)


def _words(stderr: bytes | None, stdout: bytes | None) -> str:
    """Return all that a failed sbatch has printed: a site's wrapper may explain itself on either
    stream."""
    parts = (part.decode(errors="replace").strip() for part in (stderr, stdout) if part)
    return "\n".join(filter(None, parts))


def _passing_refusal(done: Completed) -> ControllerError | None:
    """Return a refusal that may pass; None: sbatch may have the job, or refused for good."""
    words = _words(done.stderr, done.stdout)
    refusal = explain_rejection(words) if done.returncode else None
    if refusal is None or refusal.category != "transient":
        return None
    return ControllerError(refusal.sentence, hint=refusal.advice, detail=words)
