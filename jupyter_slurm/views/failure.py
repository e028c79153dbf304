"""Conversion of a job's outcome into the `CellFailed` that describes it, or None for a success. The
magics, the job handle and the command line use this module. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from jupyter_slurm.errors import CellFailed, VariableError
from jupyter_slurm.formatting import visible_lines
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.views.card import title
from jupyter_slurm.wire import Job, JobState, Result, SweepJob

_NO_NAME = re.compile(r"name '([^']+)' is not defined")


def failure(result: Result, known: Container[str] = ()) -> CellFailed | None:
    """Return the cell's failure; None if the job succeeded. `known`: local names; if the cell
    lacked one of them, the hint is to send it."""
    job = result.job
    if result.status == "ok":
        return None
    if isinstance(job, SweepJob):
        return _slurm_did(job)
    if result.status == "none":
        # Only a cell reports success; a script has just its exit code.
        if not kind_of(job).has_result and job.state is JobState.COMPLETED:
            return None
        return _slurm_did(job)
    if job.why and job.state not in (JobState.COMPLETED, JobState.FAILED):
        failed = _slurm_did(job)
        return CellFailed(
            failed.message, hint=failed.hint, traceback=result.traceback, job_id=job.id
        )
    exited = result.ename == "SystemExit"  # users who call sys.exit do not expect an exception
    return CellFailed(
        f"{_where(job)} exited with code {job.exit_code}."
        if exited
        else f"{result.ename or 'Error'} in {_where(job)}",
        detail=None if result.traceback else result.evalue,
        hint=_missing(result, known) or _keyboard(result) or job.advice,
        traceback=result.traceback,
        job_id=job.id,
    )


def below_card(failed: CellFailed, job: Job) -> CellFailed:
    """Return the error to show below a job's card, without the parts that the card or the traceback
    already shows."""
    if failed.traceback or failed.detail is None:
        hint = "" if failed.hint in (None, job.advice) else failed.hint
        ended = "" if failed.traceback else f"CellFailed: {job.name} ended ({job.state.word})"
        failed.left_to_say = visible_lines("\n".join(filter(None, (ended, hint))))
    return failed


def left_out(job: Job, failed: Mapping[str, str]) -> VariableError | None:
    """Return an error for variables that were not returned, because later cells need them.
    `failed`: reasons by name."""
    if not failed:
        return None
    return VariableError(
        f"The cell succeeded, but did not return {', '.join(f'`{name}`' for name in failed)}.",
        detail="\n".join(f"{name}: {reason}." for name, reason in failed.items()),
        hint=f"The job's files are in {job.job_dir}." if job.job_dir else None,
    )


def _slurm_did(job: Job) -> CellFailed:
    """Return the agent's reason: out of memory, time limit, node failure, cancelled …"""
    return ended(job, _where(job), _exit(job))


def ended(job: Job, named: str, otherwise: str) -> CellFailed:
    """Return the error of an ended job. `otherwise`: the reason to use if the agent has none."""
    return CellFailed(
        f"{named} ended ({job.state.word}): {job.why or otherwise}",
        hint=job.advice,
        job_id=job.id,
    )


def _exit(job: Job) -> str:
    if job.signal:
        return f"it was killed by signal {job.signal}."
    if job.exit_code is not None:
        return f"its exit code was {job.exit_code}."
    return "no exit record found."


def _where(job: Job) -> str:
    if len(job.nodes) != 1:
        return title(job)
    return f"{title(job)}, node {job.nodes[0]}"


def _keyboard(result: Result) -> str | None:
    """Return a hint if the code waited for input: `input`, `getpass`, `breakpoint`."""
    asked = result.ename == "EOFError" and (
        result.evalue == "EOF when reading a line" or "getpass" in "".join(result.traceback)
    )
    if not asked and result.ename != "BdbQuit":
        return None
    return (
        "Jobs cannot read keyboard input. Pass values with --in or as arguments. Debug in a "
        "remote kernel, a session or `jupyter slurm shell`."
    )


def _missing(result: Result, known: Container[str]) -> str | None:
    match = _NO_NAME.search(result.evalue or "") if result.ename == "NameError" else None
    if match is None or match[1] not in known:
        return None
    return f"`{match[1]}` exists locally but was not sent: add `--in {match[1]}`."
