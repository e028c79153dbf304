"""How a job ended, judged from what is known of it. PURE: no I/O.

The order of belief (slurm.conf(5) MinJobAge, sacct(1); measured over Slurm 20.11 to 25.x): the exit
code is the one that our own script wrote; Slurm names the cause; with neither, traces in the log
are read, and the verdict says so (`inferred`); with nothing at all the job is LOST. Absence is
never success.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from jupyter_slurm.containers import making, runtime_named
from jupyter_slurm.containers.making.script import read_failure, stopped_at
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import SHUT_DOWN
from jupyter_slurm.jobs.outcome.result import ExitFile, RunnerResult, StartedFile
from jupyter_slurm.jobs.submission.script import FAILURES, NO_ROOM_EXIT, SETUP_EXIT
from jupyter_slurm.readable import brief, joined, memory
from jupyter_slurm.slurm import diagnosis
from jupyter_slurm.slurm.reasons import Explanation
from jupyter_slurm.wire import JobKind, JobState, Usage

CANCEL_NOTED = "It is cancelled as soon as it is known whether the cluster has it."


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmVerdict:
    """The word of one of Slurm's commands on a job that has ended."""

    state: JobState
    exit_code: int | None = None
    signal: int | None = None
    ended_s: float | None = None
    cancelled_by: str | None = None
    """A user's name or uid."""
    nodelist: str | None = None
    """The nodes that it had: it had begun, whatever its own files say, which a script as written
    does not leave."""
    failed_node: tuple[str, str] | None = None
    """The node on which Slurm failed to begin the job, and its reason."""
    tasks: str | None = None
    """Which tasks of an array did not end well, and how; None: it is not an array, or all did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """How the session ended that a cell was in, and with it the cell."""

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
    """None: Slurm has forgotten the job, and there is no accounting; or it goes on with it."""
    slurm_goes_on: bool = False
    """Slurm says of a job whose script has told of its end that it has not ended, and did so for as
    long as it was given to find out."""
    session: SessionEnd | None = None
    progress: bytes = b""
    """The end of the file in which a job of its kind tells how far it is."""
    idle_s: int | None = None
    """Seconds after which a lab was to end by itself."""
    slurm_out: str = ""
    """The end of slurm.out, where slurmstepd says what it did; a user's text hardly gets there."""
    log_tail: str = ""
    """The end of the job's own log."""
    unstarted_claim: bool = False
    """Its script has claimed its folder and not gone on: the login files come between."""
    folder_gone: bool = False
    """Its folder is not to be seen from where jobs are submitted."""
    limit_passed: bool = False
    """The time limit had gone by since the start."""
    cancel_requested: bool = False


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
    # `oom-kill` up to 22.05, `oom_kill` from 23.02; the second is JobAcctGather's own limit.
    JobState.OUT_OF_MEMORY: re.compile(r"[Oo]om[-_ ]kill|xceeded (job |step )?memory limit"),
    JobState.CANCELLED: re.compile(
        r"\*\*\* (JOB|STEP) \S+ .*CANCELLED AT(?!.* DUE TO JOB REQUEUE)"
    ),
}
"""The words of slurmstepd in the job's output (src/slurmd/slurmstepd/req.c, mgr.c)."""
_ON_NODES = re.compile(r"^jupyter-slurm: On (\S.*) alone the program ended", re.MULTILINE)
_OUR_WORDS = re.compile(r"^jupyter-slurm: (.+)$", re.MULTILINE)
"""Messages of the job script about a failed set-up."""
_GONE = re.compile(r"^jupyter-slurm: (\S+) is gone: ", re.MULTILINE)
"""The words of node/launch.py on a node that it has lost."""
_OF_THE_LAUNCHER = frozenset(("LaunchError", "EngineError", "RankLost", "WrongWorld"))
"""Names the errors by which `node/launch.py` ends a job on many nodes."""
_ALL_THE_SAME = {
    JobState.OUT_OF_MEMORY: "It has ended well, though one of its processes ran out of memory on "
    "the way.",
    JobState.TIMEOUT: "It has ended well, though Slurm says that it ran into its time limit.",
    JobState.CANCELLED: "It has ended well, though Slurm says that it was cancelled.",
}
"""Done, and yet Slurm names a cause."""
LOGIN_FILES = (
    "The login files of the node ended the job before your code began: an `exec`, an `exit`, or a "
    "PATH without the system's programs.",
    "Set `login_shell = false` in the cluster's profile, or have the files (/etc/profile, "
    "~/.bash_profile) do that in a terminal only.",
)
_CAUSES = frozenset(
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
"""States that say more than an exit code can."""


def ended_by_itself(evidence: Evidence) -> Verdict | None:
    """Return the verdict that needs no word from Slurm: the script ended by itself and said how.

    None: a signal was involved, or something is missing; Slurm has to be asked for the cause.
    """
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
    """Return the verdict, once everybody has been asked."""
    by_itself = ended_by_itself(evidence)
    slurm = evidence.slurm
    if by_itself is not None and (slurm is None or slurm.state not in _CAUSES):
        return by_itself
    if by_itself is not None and by_itself.state is JobState.COMPLETED and slurm is not None:
        return _completed_all_the_same(by_itself, slurm)
    if evidence.session is not None:
        return _by_session(evidence, evidence.session)
    if slurm is not None and slurm.state in _CAUSES - {JobState.CANCELLED}:
        return _by_cause(evidence, slurm, slurm.state, inferred=False)
    traced = _traced(evidence)
    if traced is not None:
        cause = slurm or SlurmVerdict(state=traced)
        return _by_cause(evidence, cause, traced, inferred=slurm is None)
    if slurm is not None and slurm.state in _CAUSES:
        return _by_cause(evidence, slurm, slurm.state, inferred=False)
    if evidence.folder_gone and not kind_of(evidence).is_as_written:
        return _without_folder(slurm)
    if evidence.exit is not None:
        return _by_exit_code(evidence, evidence.exit.exit_code)
    return _without_exit_file(evidence, slurm)


def _without_exit_file(evidence: Evidence, slurm: SlurmVerdict | None) -> Verdict:
    has_room = slurm is None or slurm.exit_code != NO_ROOM_EXIT
    if evidence.unstarted_claim and has_room:
        return Verdict(state=JobState.FAILED, why=LOGIN_FILES[0], advice=LOGIN_FILES[1])
    if slurm is not None:
        return _by_slurm_alone(evidence, slurm)
    return _nobody_knows(evidence)


def _where(log_tail: str) -> str | None:
    """Name the nodes of a job on many that failed where others did not (node/launch.py)."""
    found = _ON_NODES.search(log_tail)
    return None if found is None else f"That was on {found[1]} only."


def _by_exit_code(evidence: Evidence, exit_code: int) -> Verdict:
    verdict, result = _of_code(evidence, exit_code), evidence.result
    if exit_code == 0 or (result is not None and result.ename in _OF_THE_LAUNCHER):
        return verdict
    return replace(verdict, why=joined(verdict.why, kind_of(evidence).cause(evidence)))


def _of_code(evidence: Evidence, exit_code: int) -> Verdict:
    kind, result = kind_of(evidence), evidence.result
    if exit_code == 0:
        why, warning = kind.why_well(evidence), _warning(result)
        return Verdict(state=JobState.COMPLETED, why=why, warning=warning, exit_code=0)
    # An MPI that cannot begin ends the process itself, which is killed then; its cause is known.
    of_launcher = result is not None and result.ename in _OF_THE_LAUNCHER and result.evalue
    if result is not None and result.ename and (of_launcher or result.status == "error"):
        why = of_launcher or f"The cell raised {result.ename}."
        if result.ename == "SystemExit":
            why = f"Failed (exit code {exit_code})."
        return Verdict(
            state=JobState.FAILED, why=why, warning=_warning(result), exit_code=exit_code
        )
    ours = {**kind.failures, **FAILURES}
    if exit_code in ours:
        why, advice = ours[exit_code]
        told = _OUR_WORDS.findall(evidence.log_tail) if exit_code == SETUP_EXIT else []
        why = joined(why, f"{told[-1].rstrip('.')}.") if told else why
        return Verdict(state=JobState.FAILED, why=why, advice=advice, exit_code=exit_code)
    if result is None and evidence.runtime != "none":
        container = runtime_named(evidence.runtime).explain(evidence.log_tail)
        if container is not None:
            return Verdict(
                state=JobState.FAILED,
                why=joined(container.sentence, _where(evidence.log_tail)),
                advice=container.advice,
                exit_code=exit_code,
            )
    image = read_failure(evidence.log_tail) if kind.makes_images else None
    if image is not None:
        tool = making.explained(image, evidence.log_tail)
        why = f"The image {image.name} was not made: it failed while {image.doing}."
        return Verdict(
            state=JobState.FAILED,
            why=joined(why, tool.sentence if tool else None, _stopped(evidence.log_tail)),
            advice=tool.advice if tool else "What the tool said is in the job's output.",
            exit_code=exit_code,
        )
    bare = evidence.runtime == "none"
    missing = kind.missing(evidence.log_tail, exit_code, bare=bare) if result is None else None
    if missing is not None:
        why, advice = missing
        return Verdict(state=JobState.FAILED, why=why, advice=advice, exit_code=exit_code)
    signal = result.signal if result is not None else None
    found = diagnosis.diagnose("FAILED", exit_code, signal, evidence.slurm_out + evidence.log_tail)
    return Verdict(
        state=JobState.FAILED,
        why=_diagnosed(found, exit_code)
        if found
        else joined(
            f"Failed (exit code {exit_code}).",
            _where(evidence.log_tail),
        ),
        advice=found.advice if found else None,
        exit_code=exit_code,
        signal=signal,
    )


def _stopped(log_tail: str) -> str | None:
    line = stopped_at(log_tail)
    return None if line is None else f"It stopped at `{brief(line)}`."


def interrupted_at(evidence: Evidence) -> str | None:
    """Name the line of the recipe at which a job was stopped that was to make an image."""
    made_none = kind_of(evidence).makes_images and read_failure(evidence.log_tail)
    return _stopped(evidence.log_tail) if made_none else None


def _diagnosed(found: Explanation, exit_code: int | None) -> str:
    """Return the diagnosis. A program's own words only suggest why it failed."""
    if not found.suggested:
        return found.sentence
    suggests = f"Failed (exit code {exit_code}); its output suggests the cause."
    return joined(suggests, found.sentence)


def _warning(result: RunnerResult | None) -> str | None:
    if result is not None and result.lost_output_bytes:
        return (
            f"{result.lost_output_bytes} bytes of its output are lost: they could not be written "
            "into the job's folder. Is the disk full, or over quota?"
        )
    if result is not None and result.interrupted_by:
        return f"It was interrupted ({result.interrupted_by}), and ended in good order."
    return None


def _completed_all_the_same(verdict: Verdict, slurm: SlurmVerdict) -> Verdict:
    """Return COMPLETED with a warning: Slurm names a cause, of a child or afterwards."""
    warning = _ALL_THE_SAME.get(slurm.state, f"It has ended well, though Slurm says {slurm.state}.")
    return Verdict(state=JobState.COMPLETED, why=verdict.why, warning=warning, exit_code=0)


def _by_cause(
    evidence: Evidence, slurm: SlurmVerdict, state: JobState, *, inferred: bool
) -> Verdict:
    exit_code = evidence.exit.exit_code if evidence.exit is not None else slurm.exit_code
    found = diagnosis.diagnose(
        state.value, exit_code, slurm.signal, evidence.slurm_out + evidence.log_tail
    )
    why = found.sentence if found else f"Slurm ended it: {state}."
    advice = found.advice if found else None
    if state is JobState.CANCELLED and evidence.cancel_requested and not inferred:
        has_begun = evidence.started is not None or slurm.nodelist is not None
        if has_begun and kind_of(evidence).ends_by_request:
            return Verdict(state=JobState.COMPLETED, why=SHUT_DOWN)
    if state is JobState.CANCELLED:
        forgotten = inferred and not evidence.slurm_goes_on
        why, advice = _cancelled_by(evidence, slurm, forgotten=forgotten)
    elif state is JobState.NODE_FAIL and (gone := _GONE.findall(evidence.log_tail)):
        why = joined(why, f"That was {', '.join(gone)}.")
    elif inferred and not _TRACES[state].search(evidence.slurm_out):
        why = "It left no word of its end; its time limit has gone by, which has likely ended it."
    return Verdict(
        state=state,
        why=slurm.tasks or joined(why, interrupted_at(evidence)),
        advice=advice,
        exit_code=exit_code,
        signal=diagnosis.real_signal(slurm.signal),
        inferred=inferred,
    )


def _without_folder(slurm: SlurmVerdict | None) -> Verdict:
    """Judge a job without its folder and its own words; nobody knows who took them away."""
    failed = slurm is not None and slurm.state is not JobState.COMPLETED
    return Verdict(
        state=slurm.state if slurm is not None and failed else JobState.LOST,
        why="Its folder is not there, and with it what it has said of its end and its result.",
        advice="It was deleted or moved, or its file system is not mounted on the login machine "
        "now. `job_root` of the cluster's profile says where jobs live.",
        exit_code=slurm.exit_code if slurm is not None else None,
        inferred=slurm is None,
    )


def _by_session(evidence: Evidence, session: SessionEnd) -> Verdict:
    """Judge a cell by its session's end: CANCELLED where that ended in good order."""
    known = session.state in _CAUSES | {JobState.FAILED, JobState.LOST}
    why = joined("Its session ended while it ran.", session.why)
    if evidence.started is None:
        why = joined("Its session ended before it began.", session.why)
    return Verdict(
        state=session.state if known else JobState.CANCELLED,
        why=why,
        advice="`%slurm session start [OPTIONS]` starts another; what this one held is gone.",
        exit_code=evidence.exit.exit_code if evidence.exit is not None else None,
    )


def _cancelled_by(
    evidence: Evidence, slurm: SlurmVerdict, *, forgotten: bool
) -> tuple[str, str | None]:
    """Tell who cancelled it, as far as anybody says so, and how to find out more."""
    started = evidence.started is not None or slurm.nodelist is not None
    if evidence.cancel_requested:
        return "Cancelled by you." if started else "Cancelled by you before it started.", None
    if slurm.failed_node is not None:
        return _never_started(*slurm.failed_node)
    by = slurm.cancelled_by
    if by:
        before = f"Cancelled by {by} before it started."
        return f"Cancelled by {by}." if started else before, None
    if forgotten:
        return (
            "It was ended on its node, and Slurm no longer knows it.",
            "Somebody has cancelled it, or Slurm's controller had lost it and slurmd gave it up.",
        )
    if started:
        return (
            "Cancelled.",
            "Slurm does not say who did it: somebody with `scancel`, or an administrator.",
        )
    return (
        "Cancelled before it started.",
        "Slurm does not say who did it: somebody with `scancel`, an administrator, or Slurm itself "
        "where a dependency can never be met.",
    )


def _traced(evidence: Evidence) -> JobState | None:
    """Return the cause that the log or the clock tells, or None."""
    for state, pattern in _TRACES.items():
        # A step of it may have been cancelled, too: what became of the job Slurm knows better.
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


def _never_started(node: str, reason: str) -> tuple[str, str]:
    return (
        f"The job never started: {node} reports {reason}.",
        "Run it again; Slurm uses other nodes meanwhile. Report the node to the cluster's support.",
    )


def _by_slurm_alone(evidence: Evidence, slurm: SlurmVerdict) -> Verdict:
    if slurm.failed_node is not None:
        why, advice = _never_started(*slurm.failed_node)
        return Verdict(state=slurm.state, why=why, advice=advice)
    if slurm.state is JobState.COMPLETED and not kind_of(evidence).is_as_written:
        # A claim lost to a twin, or an exit file that a full disk swallowed.
        return Verdict(
            state=JobState.LOST,
            why="Slurm says that it completed, but it left no word of its own in its folder.",
            advice="Is the job folder full, over quota, or not seen by the node?",
            exit_code=slurm.exit_code,
        )
    if slurm.state is JobState.COMPLETED:
        return Verdict(state=JobState.COMPLETED, why="It has ended well.", exit_code=0)
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
    return f"Slurm ended it: {slurm.state}."


def measured(why: str, usage: Usage | None) -> str:
    """Return the reason with how much memory was used, where it is that none was left."""
    if why != diagnosis.OUT_OF_MEMORY or not (usage and usage.peak_memory_mib and usage.memory_mib):
        return why
    return f"Out of memory (peak {memory(usage.peak_memory_mib)} of {memory(usage.memory_mib)})."


def _nobody_knows(evidence: Evidence) -> Verdict:
    if kind_of(evidence).is_as_written:  # it leaves no word of ours, whatever it has done
        return Verdict(
            state=JobState.LOST,
            why="Slurm no longer knows it, and a batch script leaves no word of how it ended.",
            advice="Its output, if there is any, says how far it came.",
            inferred=True,
        )
    if evidence.started is None:
        return Verdict(
            state=JobState.LOST,
            why="Slurm no longer knows it, and there is no trace of a start: it was cancelled, or "
            "the controller has lost it.",
            advice="Run it again; nothing of it seems to have run.",
            inferred=True,
        )
    return Verdict(
        state=JobState.LOST,
        why="Slurm no longer knows it, and it has left no word of how it ended.",
        advice="It was killed outright, its node failed, or the controller has lost it. Its output "
        "so far is kept; ask the cluster's support with its Slurm id.",
        inferred=True,
    )
