"""The verdict on a job from every combination of evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from jupyter_slurm.formatting import moment
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.outcome.result import ExitFile, RunnerResult, StartedFile
from jupyter_slurm.jobs.outcome.verdict import (
    Evidence,
    SessionEnd,
    SlurmVerdict,
    judge,
    measured,
)
from jupyter_slurm.wire import JobKind, JobState, Usage

STARTED = StartedFile(slurm_id="1", node="n1", time_s=10.0)
OK_EXIT = ExitFile(exit_code=0, time_s=20.0)
TERMINATED = ExitFile(exit_code=143, signal="TERM", time_s=20.0)
OK = RunnerResult(
    status="ok", exit_code=0, started_s=1, ended_s=2, peak_rss_mib=3, cpu_s=4, python=(3, 11, 2)
)
RAISED = RunnerResult(
    status="error",
    exit_code=1,
    ename="ValueError",
    evalue="x",
    started_s=1,
    ended_s=2,
    peak_rss_mib=3,
    cpu_s=4,
    python=(3, 11, 2),
)
KILLED = RunnerResult(
    status="killed",
    exit_code=139,
    signal=11,
    started_s=1,
    ended_s=2,
    peak_rss_mib=3,
    cpu_s=4,
    python=(3, 11, 2),
)


def slurm(state: str, code: int | None = None, by: str | None = None) -> SlurmVerdict:
    return SlurmVerdict(state=JobState(state), exit_code=code, cancelled_by=by)


def cell(**known: object) -> Evidence:
    return Evidence(kind=JobKind.CELL, started=STARTED, **known)  # type: ignore[arg-type]


def script(**known: object) -> Evidence:
    return Evidence(kind=JobKind.SCRIPT, **known)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    name: str
    evidence: Evidence
    state: str
    words: str = ""
    inferred: bool = False
    exit_code: int | None = None
    warning: str | None = None


NEVER_STARTED = Evidence(kind=JobKind.CELL)
LIMIT_LINE = (
    "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***"
)
CANCELLED_LINE = "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***"
CASES = [
    Case("it succeeded", cell(exit=OK_EXIT, result=OK), "COMPLETED", exit_code=0),
    Case(
        "the cell raised",
        cell(exit=ExitFile(exit_code=1, time_s=1), result=RAISED),
        "FAILED",
        "ValueError",
        exit_code=1,
    ),
    Case(
        "the cell's process died of a signal",
        cell(exit=ExitFile(exit_code=139, time_s=1), result=KILLED, slurm=slurm("FAILED", 11)),
        "FAILED",
        exit_code=139,
    ),
    Case(
        "done, and a child ran out of memory",
        cell(exit=OK_EXIT, result=OK, slurm=slurm("OUT_OF_MEMORY")),
        "COMPLETED",
        warning="memory",
    ),
    Case(
        "time limit",
        cell(exit=TERMINATED, slurm=slurm("TIMEOUT")),
        "TIMEOUT",
        "time limit",
        exit_code=143,
    ),
    Case(
        "out of memory, no exit file",
        cell(slurm=slurm("OUT_OF_MEMORY", 0)),
        "OUT_OF_MEMORY",
        "memory",
    ),
    Case("node failure", cell(slurm=slurm("NODE_FAIL")), "NODE_FAIL", "node"),
    Case("preempted", cell(exit=TERMINATED, slurm=slurm("PREEMPTED")), "PREEMPTED"),
    Case(
        "cancelled by us",
        cell(exit=TERMINATED, slurm=slurm("CANCELLED"), cancel_requested=True),
        "CANCELLED",
        "Cancelled by you",
    ),
    Case(
        "cancelled by a user whom accounting names",
        cell(exit=TERMINATED, slurm=slurm("CANCELLED", by="1000")),
        "CANCELLED",
        "by 1000",
    ),
    Case(
        "cancelled from outside",
        cell(exit=TERMINATED, slurm=slurm("CANCELLED")),
        "CANCELLED",
        "Cancelled.",
    ),
    Case(
        "cancelled while it waited",
        replace(NEVER_STARTED, slurm=slurm("CANCELLED"), cancel_requested=True),
        "CANCELLED",
        "before it started",
    ),
    Case(
        "forgotten, and the log tells of the time limit",
        cell(slurm_out=LIMIT_LINE),
        "TIMEOUT",
        inferred=True,
    ),
    Case(
        "memory limit of the accounting plugin",
        cell(
            slurm=slurm("CANCELLED"),
            slurm_out="slurmstepd: error: Step 1.batch exceeded memory limit (9 > 5), being killed",
        ),
        "OUT_OF_MEMORY",
        "memory",
    ),
    Case("forgotten, past its limit", cell(limit_passed=True), "TIMEOUT", inferred=True),
    Case(
        "forgotten, and we had cancelled", cell(cancel_requested=True), "CANCELLED", inferred=True
    ),
    Case(
        "forgotten before it started", NEVER_STARTED, "LOST", "no trace of a start", inferred=True
    ),
    Case("forgotten while it ran", cell(), "LOST", "no exit record", inferred=True),
    Case(
        "killed by slurmd, because slurmctld has no record of it; no user cancelled it",
        cell(exit=TERMINATED, slurm_out=CANCELLED_LINE),
        "CANCELLED",
        "Slurm no longer has a record of the job",
        inferred=True,
    ),
    Case(
        "its folder was deleted as it ran",
        replace(NEVER_STARTED, slurm=slurm("FAILED", 74), folder_gone=True),
        "FAILED",
        "folder does not exist",
        exit_code=74,
    ),
    Case(
        "its folder and Slurm's memory are gone",
        replace(NEVER_STARTED, folder_gone=True),
        "LOST",
        "folder does not exist",
        inferred=True,
    ),
    Case(
        "its node could not open its output: Slurm's own number is no signal",
        script(slurm=replace(slurm("FAILED", 0), signal=53)),
        "FAILED",
        "could not open",
    ),
    Case(
        "Slurm says completed, the job said nothing",
        cell(slurm=slurm("COMPLETED", 0)),
        "LOST",
        "no exit record",
    ),
    Case("a script that Slurm completed", script(slurm=slurm("COMPLETED", 0)), "COMPLETED"),
    Case("a script that failed", script(slurm=slurm("FAILED", 3)), "FAILED", "3", exit_code=3),
    Case("a script that is forgotten", script(), "LOST", inferred=True),
    Case(
        "an exit code that contradicts the result",
        cell(exit=ExitFile(exit_code=1, time_s=1), result=OK),
        "FAILED",
        exit_code=1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdict_matches_the_evidence(case: Case) -> None:
    verdict = judge(case.evidence)
    assert verdict.state == case.state
    assert str(case.words).lower() in str(verdict.why).lower()
    assert str(verdict.why).endswith((".", "?", "!"))
    assert verdict.inferred == case.inferred
    if case.exit_code is not None:
        assert verdict.exit_code == case.exit_code
    assert (case.warning or "") in str(verdict.warning or "")
    assert verdict.signal not in (53, 125), "these signals are Slurm's own"
    assert "disk full" not in str(verdict.advice or "") or not case.evidence.folder_gone


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED])
def test_verdict_names_the_node_that_failed_to_start_the_job(state: JobState) -> None:
    verdict = SlurmVerdict(
        state=state, exit_code=1, nodelist="n1", failed_node=("n1", "Prolog error")
    )
    judged = judge(Evidence(kind=JobKind.CELL, slurm=verdict))
    assert judged.state is state
    assert "n1 reports Prolog error" in str(judged.why)


def test_verdict_names_the_nodes_that_slurm_lost() -> None:
    verdict = SlurmVerdict(state=JobState.NODE_FAIL, nodelist="n[1-3]", lost_nodes=("n1", "n3"))
    judged = judge(cell(slurm=verdict))
    assert judged.state is JobState.NODE_FAIL
    assert "n1, n3" in str(judged.why)


exits = st.one_of(
    st.none(),
    st.builds(
        ExitFile,
        exit_code=st.integers(0, 255),
        signal=st.sampled_from([None, "TERM", "INT"]),
        time_s=st.just(1.0),
    ),
)
states = st.sampled_from([state for state in JobState if state.final and state != "REJECTED"])
evidences = st.builds(
    Evidence,
    kind=st.sampled_from(list(JobKind)),
    started=st.sampled_from([None, STARTED]),
    exit=exits,
    result=st.sampled_from([None, OK, RAISED, KILLED]),
    slurm=st.one_of(st.none(), st.builds(SlurmVerdict, state=states)),
    slurm_out=st.sampled_from(["", LIMIT_LINE, "oom_kill event", "nothing"]),
    limit_passed=st.booleans(),
    cancel_requested=st.booleans(),
)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("TIMEOUT", "TIMEOUT"),
        ("CANCELLED", "CANCELLED"),
        ("COMPLETED", "CANCELLED"),
        ("FAILED", "FAILED"),
        ("LOST", "LOST"),
    ],
)
@pytest.mark.parametrize("evidence", [NEVER_STARTED, cell(exit=TERMINATED)])
def test_unfinished_cell_reports_why_its_session_ended(
    evidence: Evidence, state: str, expected: str
) -> None:
    session = SessionEnd(state=JobState(state), why="The reason.")
    verdict = judge(replace(evidence, session=session))
    assert verdict.state == expected
    assert str(verdict.why).endswith("The reason.")
    when = "before the cell started" if evidence.started is None else "while the cell ran"
    assert when in str(verdict.why)


def test_successful_cell_stays_successful_when_its_session_fails() -> None:
    session = SessionEnd(state=JobState.TIMEOUT, why="The reason.")
    assert judge(cell(exit=OK_EXIT, result=OK, session=session)).state is JobState.COMPLETED


@given(evidences)
def test_every_combination_of_evidence_yields_a_final_state_with_a_message(
    evidence: Evidence,
) -> None:
    verdict = judge(evidence)
    assert verdict.state.final
    assert verdict.why


@given(evidences)
def test_completed_state_requires_evidence_of_success(evidence: Evidence) -> None:
    if judge(evidence).state is JobState.COMPLETED:
        said_so = evidence.exit is not None and evidence.exit.exit_code == 0
        slurm_said_so = evidence.slurm is not None and evidence.slurm.state == "COMPLETED"
        shut_down = evidence.cancel_requested and kind_of(evidence).is_service
        slurm_ended_it = evidence.slurm is not None and evidence.slurm.state == "CANCELLED"
        assert (
            said_so
            or (evidence.kind is JobKind.SCRIPT and slurm_said_so)
            or (shut_down and slurm_ended_it)
        )


@pytest.mark.parametrize("runtime", ["docker", "none"])
@pytest.mark.parametrize(
    "line",
    [
        "sh: 5: exec: python3: not found",
        "sh: line 5: exec: python3: not found",
        "sh: line 2: exec: /opt/a b/python3: cannot execute: No such file or directory",
    ],
)
def test_verdict_reports_missing_python(runtime: str, line: str) -> None:
    code = 127
    verdict = judge(
        cell(
            runtime=runtime,
            exit=ExitFile(exit_code=code, time_s=20.0),
            slurm=slurm("FAILED", code),
            log_tail=f"a banner\n{line}\n",
        )
    )
    where = "The node has no " if runtime == "none" else "The image has no Python."
    assert (verdict.state, verdict.exit_code) == (JobState.FAILED, code)
    assert str(verdict.why).startswith(where)
    assert ("--module" if runtime == "none" else "#!/bin/sh") in str(verdict.advice or "")


def test_out_of_memory_shows_a_measured_peak() -> None:
    why = judge(script(slurm=slurm("OUT_OF_MEMORY"))).why
    usage = Usage(peak_memory_mib=6041, memory_mib=6144)
    assert str(measured(why, usage)) == "Out of memory (peak 5.9 GiB of 6.0 GiB)."
    assert measured(why, None) == why
    assert measured(why, Usage(memory_mib=6144)) == why
    assert measured("Time limit reached.", usage) == "Time limit reached."


LOSSES = (
    b'{"ranks": 0, "nodes": 3}\n{"joined": true}\n'
    b'{"said": "On n3: Dask ended on n3 (signal 9)."}\n'
    b'{"node": "n3", "was_lost": false, "time_s": 12.0}\n'
)
LOST = (
    b'{"node": "n2", "was_lost": true, "time_s": 15.0}\n'
    b'{"node": "a\\nb", "was_lost": true, "time_s": 16.0}\n'
)


@pytest.mark.parametrize(
    ("progress", "cause"),
    [
        (LOSSES + LOST, "The job lost n2 ({at})"),
        (LOSSES, "The engine ended on n3 ({before})"),
    ],
)
def test_failed_cell_shows_its_error_and_the_lost_node(progress: bytes, cause: str) -> None:
    ended = ExitFile(exit_code=1, time_s=20.0)
    told = cause.format(at=moment(15.0, 20.0), before=moment(12.0, 20.0))
    why = judge(cell(exit=ended, result=RAISED, progress=progress)).why
    assert str(why) == (
        f"The cell raised ValueError. {told}, which is the probable cause (inferred)."
    )
    lost = structs.replace(RAISED, ename="EngineError", evalue="Dask ended on n3.")
    assert judge(cell(exit=ended, result=lost, progress=progress)).why == lost.evalue
    well = judge(cell(exit=OK_EXIT, result=OK, progress=progress))
    assert "probable" not in str(well.why)
