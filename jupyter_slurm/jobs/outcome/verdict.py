"""The verdict on a job's end, from the evidence. No I/O.

The most credible evidence is the exit code from our own script. Next is the cause from Slurm. If
both are missing, traces in the log count, and the verdict is `inferred`. If these are missing too,
the job is LOST. A missing file never counts as success. The order follows slurm.conf(5) MinJobAge,
sacct(1), and measurements with Slurm 20.11 to 25.x.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from jupyter_slurm.containers import builders, runtime_named
from jupyter_slurm.containers.builders.script import (
    SEE_OUTPUT,
    Failure,
    read_failure,
    stopped_at,
)
from jupyter_slurm.formatting import brief, joined, memory
from jupyter_slurm.jobs.cluster import environment_script
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import SHUT_DOWN, SUCCEEDED, Explained
from jupyter_slurm.jobs.outcome.result import ExitFile, RunnerResult, StartedFile
from jupyter_slurm.jobs.submission.script import FAILURES, NO_ROOM_EXIT, SETUP_EXIT
from jupyter_slurm.slurm import diagnosis
from jupyter_slurm.slurm.reasons import Explanation
from jupyter_slurm.wire import JobKind, JobState, Usage

CANCEL_NOTED = "Slurm has not confirmed the job yet. The agent cancels it after the confirmation."


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmVerdict:
    """The end of a job, as a Slurm command reports it."""

    state: JobState
    exit_code: int | None = None
    signal: int | None = None
    ended_s: float | None = None
    cancelled_by: str | None = None
    """The name or uid of the user who cancelled the job."""
    nodelist: str | None = None
    """The job's nodes. A job with nodes has started, even if its started file is missing."""
    failed_node: tuple[str, str] | None = None
    """The node where Slurm failed to start the job, and the reason."""
    lost_nodes: tuple[str, ...] = ()
    """The nodes that Slurm lost at the job's end."""
    tasks: str | None = None
    """A sentence about the failed tasks of an array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """The end of the session in which a cell ran."""

    state: JobState
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    kind: JobKind
    runtime: str = "none"
    started: StartedFile | None = None
    exit: ExitFile | None = None
    result: RunnerResult | None = None
    slurm: SlurmVerdict | None = None
    """Slurm's verdict; None if Slurm has forgotten the job and has no accounting, or still runs the
    job."""
    slurm_goes_on: bool = False
    """Set if Slurm still reported the job as running after the wait, although its script has ended.
    """
    session: SessionEnd | None = None
    progress: bytes = b""
    """The end of the job's progress file."""
    idle_s: int | None = None
    """Seconds after which an idle lab ends."""
    slurm_out: str = ""
    """The end of slurm.out, written by slurmstepd and rarely by users' programs."""
    log_tail: str = ""
    """The end of the job's own log."""
    unstarted_claim: bool = False
    """Set if the script claimed its folder but did not report a start. The script reads the login
    files between the claim and the report."""
    folder_gone: bool = False
    """Set if the job's folder is not visible on the login node."""
    limit_passed: bool = False
    """Set if the time limit has passed since the start."""
    cancel_requested: bool = False
    unmet: str | None = None
    """The job of `--after` whose end prevents this job from starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    state: JobState
    why: str
    advice: str | None = None
    warning: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    inferred: bool = False


_TRACES = {
    JobState.TIMEOUT: re.compile(r"DUE TO TIME LIMIT"),
    JobState.PREEMPTED: re.compile(r"DUE TO PREEMPTION"),
    JobState.NODE_FAIL: re.compile(r"DUE TO NODE FAILURE"),
    # Slurm prints `oom-kill` up to 22.05 and `oom_kill` from 23.02. The second message is about the
    # limit of JobAcctGather.
    JobState.OUT_OF_MEMORY: re.compile(r"[Oo]om[-_ ]kill|xceeded (job |step )?memory limit"),
    JobState.CANCELLED: re.compile(
        r"\*\*\* (JOB|STEP) \S+ .*CANCELLED AT(?!.* DUE TO JOB REQUEUE)"
    ),
}
"""Messages of slurmstepd in the job's output (src/slurmd/slurmstepd/req.c, mgr.c)."""
_ON_NODES = re.compile(r"^jupyter-slurm: On (\S.*) alone the program ended", re.MULTILINE)
_OUR_WORDS = re.compile(r"^jupyter-slurm: (.+)$", re.MULTILINE)
"""Messages of the job script about a failed setup."""
_GONE = re.compile(r"^jupyter-slurm: (\S+) is gone: ", re.MULTILINE)
"""The message of node/launch.py about a lost node."""
_OF_THE_LAUNCHER = frozenset(("LaunchError", "EngineError", "RankLost", "WrongWorld"))
"""The names of the errors with which `node/launch.py` ends a job on many nodes."""
_UNNAMED = "Slurm does not report whether a user or an administrator cancelled it."


class Cause(Enum):
    """Causes of a job's end, each with a sentence and advice. `slurm.diagnosis` contains Slurm's
    own causes, and those suggested by a log or an exit code."""

    LOGIN_FILES = (
        "The node's login files ended the job before your code started: an `exec`, an `exit`, or a "
        "wrong PATH.",
        "Set `login_shell = false` in the cluster's profile.",
    )
    NO_FOLDER = (
        "The job's folder does not exist, so its result is unknown.",
        "Check that the file system of `job_root` is mounted on the login node.",
    )
    NO_RECORD = (
        "Slurm reports success, but the job left no exit record.",
        "Check disk space and quota, and that the job's folder is mounted on the node.",
    )
    TIME_PASSED = (
        "No exit record found. The time limit has passed, so Slurm probably stopped the job.",
    )
    SESSION_ENDED = (
        "The session ended while the cell ran.",
        "Start another session with `%slurm session start`: the old session's variables are lost.",
    )
    SESSION_ENDED_FIRST = ("The session ended before the cell started.", SESSION_ENDED[1])
    NEVER_STARTED = (
        "The job never started: {node} reports {reason}.",
        "Submit it again, and report the node to the cluster's support.",
    )
    CANCELLED_BY_YOU = ("Cancelled by you.",)
    WITHDRAWN_BY_YOU = ("Cancelled by you before it started.",)
    CANCELLED_BY = ("Cancelled by {by}.",)
    WITHDRAWN_BY = ("Cancelled by {by} before it started.",)
    CANCELLED = ("Cancelled.", _UNNAMED)
    UNMET = (
        "Slurm cancelled the job, because {job} did not end as `--after` requires.",
        "Submit both jobs again, or submit this job with `--after JOB:any`.",
    )
    WITHDRAWN = (
        "Cancelled before it started.",
        f"{_UNNAMED} Slurm itself cancels a job whose dependency can never be met.",
    )
    KILLED_AND_FORGOTTEN = (
        "Killed on its node; Slurm no longer has a record of the job.",
        "A user cancelled it, or Slurm's controller lost it.",
    )
    SCRIPT_LOST = (
        "Slurm no longer has a record of the job, and a batch script leaves no exit record.",
        "Check its output.",
    )
    LOST_UNSTARTED = (
        "Slurm no longer has a record of the job, and the job left no trace of a start.",
        "Submit it again: it probably never ran.",
    )
    LOST = (
        "Slurm no longer has a record of the job, and the job left no exit record.",
        "Check its output, and report its Slurm ID to the cluster's support.",
    )

    def __init__(self, why: str, advice: str | None = None) -> None:
        self.why = why
        self.advice = advice

    def verdict(
        self,
        state: JobState,
        more: str | None = None,
        *,
        exit_code: int | None = None,
        inferred: bool = False,
        **named: str,
    ) -> Verdict:
        """Return the verdict for this cause. Insert `named` into its sentence and append `more`."""
        return Verdict(
            state=state,
            why=joined(self.why.format(**named), more),
            advice=self.advice,
            exit_code=exit_code,
            inferred=inferred,
        )


_WARNINGS = {
    JobState.OUT_OF_MEMORY: "Succeeded, but one process ran out of memory.",
    JobState.TIMEOUT: "Succeeded, although Slurm reports that it reached its time limit.",
    JobState.CANCELLED: "Succeeded, although Slurm reports that it was cancelled.",
}
"""Warnings for a job that succeeded, by Slurm's state."""
_NAMED = frozenset(
    {
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.DEADLINE,
        JobState.NODE_FAIL,
        JobState.BOOT_FAIL,
        JobState.PREEMPTED,
        JobState.OUT_OF_MEMORY,
    }
)
"""Slurm's states that name a cause."""


def ended_by_itself(evidence: Evidence) -> Verdict | None:
    """Return the verdict from the job's own files. Return None if they do not prove the cause, as
    after a signal or without an exit file."""
    exit_file, result = evidence.exit, evidence.result
    if exit_file is None or exit_file.signal:
        return None
    if kind_of(evidence).has_result:
        if result is None or result.status not in ("ok", "error"):
            return None
        if (result.status == "ok") != (exit_file.exit_code == 0):
            return None
    elif exit_file.exit_code > 128:
        return None
    return _by_exit_code(evidence, exit_file.exit_code)


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict on all the evidence."""
    by_itself = ended_by_itself(evidence)
    slurm = evidence.slurm
    if by_itself is not None and (slurm is None or slurm.state not in _NAMED):
        return by_itself
    if by_itself is not None and by_itself.state is JobState.COMPLETED and slurm is not None:
        warning = _WARNINGS.get(slurm.state, f"Succeeded, although Slurm reports {slurm.state}.")
        return replace(by_itself, warning=warning)
    if evidence.session is not None:
        return _by_session(evidence, evidence.session)
    if slurm is not None and slurm.state in _NAMED - {JobState.CANCELLED}:
        return _by_cause(evidence, slurm, slurm.state, inferred=False)
    traced = _traced(evidence)
    if traced is not None:
        cause = slurm or SlurmVerdict(state=traced)
        return _by_cause(evidence, cause, traced, inferred=slurm is None)
    if slurm is not None and slurm.state in _NAMED:
        return _by_cause(evidence, slurm, slurm.state, inferred=False)
    if evidence.folder_gone and not kind_of(evidence).is_raw_script:
        failed = slurm is not None and slurm.state is not JobState.COMPLETED
        return Cause.NO_FOLDER.verdict(
            slurm.state if slurm is not None and failed else JobState.LOST,
            exit_code=slurm.exit_code if slurm is not None else None,
            inferred=slurm is None,
        )
    if evidence.exit is not None:
        return _by_exit_code(evidence, evidence.exit.exit_code)
    return _without_exit_file(evidence, slurm)


def _without_exit_file(evidence: Evidence, slurm: SlurmVerdict | None) -> Verdict:
    has_room = slurm is None or slurm.exit_code != NO_ROOM_EXIT
    if evidence.unstarted_claim and has_room:
        return Cause.LOGIN_FILES.verdict(JobState.FAILED)
    if slurm is not None:
        return _by_slurm_alone(evidence, slurm)
    if kind_of(evidence).is_raw_script:
        return Cause.SCRIPT_LOST.verdict(JobState.LOST, inferred=True)
    cause = Cause.LOST_UNSTARTED if evidence.started is None else Cause.LOST
    return cause.verdict(JobState.LOST, inferred=True)


def _where(log_tail: str) -> str | None:
    """Name the nodes where the program failed, unless it failed on all nodes (node/launch.py)."""
    found = _ON_NODES.search(log_tail)
    return None if found is None else f"Only {found[1]} failed."


def _by_exit_code(evidence: Evidence, exit_code: int) -> Verdict:
    verdict, result = _of_code(evidence, exit_code), evidence.result
    if exit_code == 0 or (result is not None and result.ename in _OF_THE_LAUNCHER):
        return verdict
    return replace(verdict, why=joined(verdict.why, kind_of(evidence).cause(evidence)))


def _of_code(evidence: Evidence, exit_code: int) -> Verdict:
    kind, result, log = kind_of(evidence), evidence.result, evidence.log_tail
    if exit_code == 0:
        why, warning = kind.success_reason(evidence), _warning(result)
        return Verdict(state=JobState.COMPLETED, why=why, warning=warning, exit_code=0)

    def failed(why: str, advice: str | None = None) -> Verdict:
        return Verdict(state=JobState.FAILED, why=why, advice=advice, exit_code=exit_code)

    # If MPI cannot start, it ends the process, which then counts as killed. The launcher's error
    # contains the cause.
    of_launcher = result is not None and result.ename in _OF_THE_LAUNCHER and result.evalue
    if result is not None and result.ename and (of_launcher or result.status == "error"):
        raised = f"The cell raised {result.ename}."
        if result.ename == "SystemExit":
            raised = f"Failed (exit code {exit_code})."
        return replace(failed(of_launcher or raised), warning=_warning(result))
    ours = {**kind.failures, **FAILURES}
    if exit_code in ours:
        why, advice = ours[exit_code]
        told = _OUR_WORDS.findall(log)[-1:] if exit_code == SETUP_EXIT else []
        return failed(joined(why, *(f"{words.rstrip('.')}." for words in told)), advice)
    if result is None and evidence.runtime != "none":
        container = runtime_named(evidence.runtime).explain(log)
        if container is not None:
            return failed(joined(container.sentence, _where(log)), container.advice)
    unmade = _unmade(log) if kind.makes_images else None
    if unmade is not None:
        return failed(*unmade)
    bare = evidence.runtime == "none"
    missing = kind.missing(log, exit_code, bare=bare) if result is None else None
    if missing is not None:
        return failed(*missing)
    signal = result.signal if result is not None else None
    found = diagnosis.diagnose("FAILED", exit_code, signal, evidence.slurm_out + log)
    code = joined(f"Failed (exit code {exit_code}).", _where(log))
    why = _diagnosed(found, exit_code) if found else code
    return replace(failed(why, found.advice if found else None), signal=signal)


def _unmade(log: str) -> Explained | None:
    """Explain why an image or an environment was not built. Return None if the log does not show
    such a failure."""
    image = read_failure(log)
    return environment_script.failure(log) if image is None else _image_failed(image, log)


def _image_failed(image: Failure, log: str) -> Explained:
    tool = builders.explained(image, log)
    why = f"Image {image.name} was not built: {image.doing} failed."
    advice = tool.advice if tool else SEE_OUTPUT
    return joined(why, tool.sentence if tool else None, _stopped(log)), advice


def _stopped(log_tail: str) -> str | None:
    line = stopped_at(log_tail)
    return None if line is None else f"The tool stopped at `{brief(line)}`."


def interrupted_at(evidence: Evidence) -> str | None:
    """Name the line of the recipe at which an image build stopped; return None if unknown."""
    made_none = kind_of(evidence).makes_images and read_failure(evidence.log_tail)
    return _stopped(evidence.log_tail) if made_none else None


def _diagnosed(found: Explanation, exit_code: int | None) -> str:
    """Return the diagnosis. Name the exit code first if the output only suggests the cause."""
    if not found.suggested:
        return found.sentence
    return joined(f"Failed (exit code {exit_code}). Its output suggests:", found.sentence)


def _warning(result: RunnerResult | None) -> str | None:
    if result is not None and result.lost_output_bytes:
        return (
            f"{result.lost_output_bytes} bytes of output were lost: the job's disk was full. "
            "Check disk space and quota."
        )
    if result is not None and result.interrupted_by:
        return f"Interrupted by {result.interrupted_by}; the cell handled it."
    return None


def _by_cause(
    evidence: Evidence, slurm: SlurmVerdict, state: JobState, *, inferred: bool
) -> Verdict:
    exit_code = evidence.exit.exit_code if evidence.exit is not None else slurm.exit_code
    found = diagnosis.diagnose(
        state.value, exit_code, slurm.signal, evidence.slurm_out + evidence.log_tail
    )
    why = found.sentence if found else f"Slurm ended the job: {state}."
    advice = found.advice if found else None
    if state is JobState.CANCELLED and evidence.cancel_requested and not inferred:
        has_begun = evidence.started is not None or slurm.nodelist is not None
        if has_begun and kind_of(evidence).is_service:
            return Verdict(state=JobState.COMPLETED, why=SHUT_DOWN)
    if state is JobState.CANCELLED:
        forgotten = inferred and not evidence.slurm_goes_on
        cancelled = _cancelled(evidence, slurm, forgotten=forgotten)
        why, advice = cancelled.why, cancelled.advice
    elif state is JobState.NODE_FAIL:
        lost = slurm.lost_nodes or _GONE.findall(evidence.log_tail)
        why = joined(why, f"Lost nodes: {', '.join(lost)}." if lost else None)
    elif inferred and not _TRACES[state].search(evidence.slurm_out):
        why = Cause.TIME_PASSED.why
    return Verdict(
        state=state,
        why=slurm.tasks or joined(why, interrupted_at(evidence)),
        advice=advice,
        exit_code=exit_code,
        signal=diagnosis.real_signal(slurm.signal),
        inferred=inferred,
    )


def _by_session(evidence: Evidence, session: SessionEnd) -> Verdict:
    """Judge a cell by its session's end. The cell is CANCELLED if the session did not fail."""
    known = session.state in _NAMED | {JobState.FAILED, JobState.LOST}
    cause = Cause.SESSION_ENDED_FIRST if evidence.started is None else Cause.SESSION_ENDED
    return cause.verdict(
        session.state if known else JobState.CANCELLED,
        session.why,
        exit_code=evidence.exit.exit_code if evidence.exit is not None else None,
    )


def _cancelled(evidence: Evidence, slurm: SlurmVerdict, *, forgotten: bool) -> Verdict:
    started = evidence.started is not None or slurm.nodelist is not None
    state, by = JobState.CANCELLED, slurm.cancelled_by
    if evidence.cancel_requested:
        return (Cause.CANCELLED_BY_YOU if started else Cause.WITHDRAWN_BY_YOU).verdict(state)
    if slurm.failed_node is not None:
        return _never_started(state, *slurm.failed_node)
    if by:
        return (Cause.CANCELLED_BY if started else Cause.WITHDRAWN_BY).verdict(state, by=by)
    if forgotten:
        return Cause.KILLED_AND_FORGOTTEN.verdict(state)
    if evidence.unmet is not None and not started:
        return Cause.UNMET.verdict(state, job=evidence.unmet)
    return (Cause.CANCELLED if started else Cause.WITHDRAWN).verdict(state)


def _never_started(state: JobState, node: str, reason: str) -> Verdict:
    return Cause.NEVER_STARTED.verdict(state, node=node, reason=reason)


def _traced(evidence: Evidence) -> JobState | None:
    """Return the final state according to the log, the time limit or a requested cancellation; None
    if unknown."""
    for state, pattern in _TRACES.items():
        # The message may be about a step; Slurm reports the job's state more reliably.
        known = state is JobState.CANCELLED and evidence.slurm is not None
        if not known and pattern.search(evidence.slurm_out):
            return state
    if evidence.slurm is not None:
        return None
    if evidence.exit is None and evidence.limit_passed:
        return JobState.TIMEOUT
    if evidence.cancel_requested:
        return JobState.CANCELLED
    return None


def _by_slurm_alone(evidence: Evidence, slurm: SlurmVerdict) -> Verdict:
    if slurm.failed_node is not None:
        return _never_started(slurm.state, *slurm.failed_node)
    if slurm.state is JobState.COMPLETED and not kind_of(evidence).is_raw_script:
        # Either a duplicate script had already claimed the folder, or the disk was too full for the
        # exit file.
        return Cause.NO_RECORD.verdict(JobState.LOST, exit_code=slurm.exit_code)
    if slurm.state is JobState.COMPLETED:
        return Verdict(state=JobState.COMPLETED, why=SUCCEEDED, exit_code=0)
    if slurm.tasks is None and slurm.exit_code is not None and slurm.exit_code in FAILURES:
        why, advice = FAILURES[slurm.exit_code]
        return Verdict(state=slurm.state, why=why, advice=advice, exit_code=slurm.exit_code)
    found = diagnosis.diagnose(slurm.state.value, slurm.exit_code, slurm.signal, evidence.log_tail)
    return Verdict(
        state=slurm.state,
        why=slurm.tasks or (_diagnosed(found, slurm.exit_code) if found else _bare(slurm)),
        advice=found.advice if found else None,
        exit_code=slurm.exit_code,
        signal=diagnosis.real_signal(slurm.signal),
    )


def _bare(slurm: SlurmVerdict) -> str:
    if slurm.state is JobState.FAILED and slurm.exit_code:
        return f"Failed (exit code {slurm.exit_code})."
    return f"Slurm ended the job: {slurm.state}."


def measured(why: str, usage: Usage | None) -> str:
    """Return the reason `why`. If the job ran out of memory, include the memory used."""
    if why != diagnosis.OUT_OF_MEMORY or not (usage and usage.peak_memory_mib and usage.memory_mib):
        return why
    return f"Out of memory (peak {memory(usage.peak_memory_mib)} of {memory(usage.memory_mib)})."
