"""`%%slurm` and `%slurm attach`: submit or find the job, follow it, bring back its variables.

`line.py` reads the line, `replay.py` shows the output.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.client.login import LoginDeclined
from jupyter_slurm.commands import line as cell_line
from jupyter_slurm.commands.functions import warn_ended_earlier, with_session
from jupyter_slurm.commands.line import Request, Reuse, with_local_context
from jupyter_slurm.errors import (
    AgentError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    NotFoundError,
    VariableError,
)
from jupyter_slurm.formatting import counted
from jupyter_slurm.job import JobHandle, read_result_variables
from jupyter_slurm.jobs.preflight import syntax
from jupyter_slurm.magics.follow import CallThread, Detached, Following, ways
from jupyter_slurm.magics.frontend import page, prompter, say, show, warn
from jupyter_slurm.magics.live import LiveCard
from jupyter_slurm.magics.replay import Replay
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.magics.transfer import follow_transfer
from jupyter_slurm.views import other_ranks
from jupyter_slurm.views.failure import below_card, failure, left_out
from jupyter_slurm.wire import (
    CellJob,
    CellSpec,
    Earlier,
    InputPart,
    Job,
    JobSpec,
    JobState,
    Preview,
    Result,
    ScriptSpec,
    new_id,
)

_CANCEL_WAIT_S = 5.0
_RANK_BYTES = 20_000
"""The most output that is shown of each other rank."""
_OTHER: Mapping[InputPart, str] = MappingProxyType(
    {
        "options": "other options",
        "folder": "another working folder",
        "image": "another image",
        "in": "other values of --in",
        "in?": "perhaps other values of --in",
        "push": "other files of --push",
        "kernel": "another kernel",
    }
)


def run(
    state: MagicsState, line: str, code: str, made: type[ScriptSpec] | None = None
) -> JobHandle | Preview | None:
    """Run a cell's text as a job. Return the handle if the cell does not wait for it, with
    `--dry-run` the preview. CellFailed, SubmitError, VariableError; RequestError: the line is not
    valid."""
    is_script = made is not None
    request = state.script_request(line, code) if is_script else state.request(line)
    request = with_session(state, request)
    notebook = state.notebook
    mark = cell_line.fingerprint(code, "" if notebook else state.unnamed)
    spec = with_local_context(
        cell_line.spec(
            made or cell_line.by_text(code, request.options),
            request,
            code,
            job_id=new_id(),
            notebook=notebook,
            fingerprint=mark,
        )
    )
    spec = msgspec.structs.replace(spec, kernel=state.process)
    if isinstance(spec, CellSpec):
        _check_syntax(state, spec)
    if request.dry_run:
        return _preview(state, request, spec)
    try:
        job = _find_or_submit(state, request, spec)
    except NotFoundError:
        used = state.used_session
        if used is None or used.id != spec.session or request.reuse is Reuse.ATTACH:
            raise
        state.used_session = None  # it was forgotten
        return run(state, line, code, made)
    is_new = job.id == spec.id
    if notebook is None and is_new and not state.told_unnamed and prompter().there():
        state.told_unnamed = True
        warn(
            "Not in a saved notebook: to get this job back after restarting, run `%slurm attach "
            f"{job.id}`."
        )
    return JobHandle(state.api, job) if is_script else brought(state, request, job)


def brought(state: MagicsState, request: Request, job: Job) -> JobHandle | None:
    """Wait for the job and show its outcome; return its handle if it is to be left alone."""
    detach = state.settings.detach if request.detach is None else request.detach
    if detach:
        return JobHandle(state.api, job)
    on_interrupt = request.on_interrupt or state.settings.on_interrupt
    bring(
        state,
        job,
        cancel_on_interrupt=on_interrupt == "cancel",
        raise_on_failure=request.raise_on_failure,
    )
    return None


def _preview(state: MagicsState, request: Request, spec: JobSpec) -> Preview:
    """Return what would be submitted, judged by the size of its input variables. VariableError:
    one of them is missing, and the cell has no job that it would attach to without."""
    if not _absent(state, spec) or _earlier_without(state, request, spec) is None:
        spec = _with_inputs(state, spec)
    try:
        return state.api.preview(spec)
    finally:
        _drop_inputs(spec)


def _check_syntax(state: MagicsState, spec: JobSpec) -> None:
    """Raise CodeError, which shows the fault as IPython does, or warn of the fault."""
    shell = state.shell
    manager = shell.prefilter_manager

    def translate(source: str) -> str:
        above = source[: len(source) - len(source.lstrip())].count("\n")
        source = shell.transform_cell(source)  # which drops empty lines above
        if manager is not None and len(source.splitlines()) == 1:  # `pip …` without its %
            source = manager.prefilter_lines(source)
        return "\n" * above + source

    source = f"\n{spec.code}"  # the magic's line is the cell's first
    error = syntax.fault(source, shell.compile.cache(source, shell.execution_count), translate)
    if error is not None:
        rendered = shell.SyntaxTB.structured_traceback(type(error), error, None)
        warn(syntax.check(error, source, spec, state.api, rendered))


def attach(state: MagicsState, job_id: str | None) -> None:
    """Bring output and outcome of a job into this cell. None: the newest job whose outcome has not
    been delivered, of this notebook if it has one. NotFoundError."""
    job = state.api.job(job_id) if job_id else _newest(state)
    if job_id:
        warn_ended_earlier(state, job, job_id)
    bring(state, job, cancel_on_interrupt=False, raise_on_failure=True)


def _newest(state: MagicsState) -> Job:
    jobs = [job for job in state.api.jobs() if not state.is_shown(job)]
    here = [job for job in jobs if job.notebook and job.notebook == state.notebook]
    if not jobs:
        raise NotFoundError(
            "No job runs or waits to be shown.",
            hint="`%slurm jobs` lists all; `%slurm attach ID` shows any of them again.",
        )
    return (here or jobs)[0]


def _find_or_submit(state: MagicsState, request: Request, spec: JobSpec) -> Job:
    absent = _absent(state, spec)
    if absent and (job := _find_without(state, request, spec, absent)) is not None:
        return job
    spec = _with_inputs(state, spec)
    try:
        job = _find(state, request, spec)
    except BaseException:
        _drop_inputs(spec)
        raise
    if job is None:
        return _submit(state, request, spec)
    _drop_inputs(spec)
    return job


def _find(state: MagicsState, request: Request, spec: JobSpec) -> Job | None:
    """Return the job that this very cell has already started, if it is worth attaching to."""
    if request.reuse is Reuse.FRESH:
        return None
    earlier = _attachable(state, spec)
    if earlier is not None:
        job = earlier.job
        other = _listed([str(_OTHER[part]) for part in earlier.differs])
        if not earlier.differs or request.reuse is Reuse.ATTACH:
            _say_attached(request, job, other)
            return job
        if not job.state.final:
            say(f"Job {job.id} runs this code with {other} and continues; {ways(job.id)}.")
    if request.reuse is Reuse.ATTACH:
        raise NotFoundError(
            "There is no job of this cell to attach to.",
            hint="Leave out --attach to submit one; `%slurm jobs` lists the others.",
        )
    return None


def _attachable(state: MagicsState, spec: JobSpec) -> Earlier | None:
    """Return the job that this cell has already started, unless its outcome is in the notebook."""
    earlier = state.api.attachable(spec)
    while earlier is not None and earlier.job.state.final and state.is_shown(earlier.job):
        state.api.delivered(earlier.job.id)  # the page has not yet said so
        earlier = state.api.attachable(spec)
    return earlier


def _find_without(
    state: MagicsState, request: Request, spec: JobSpec, absent: Sequence[str]
) -> Job | None:
    """Return the same job if input variables are gone, and say so."""
    job = _earlier_without(state, request, spec)
    if job is not None:
        names = _listed([f"`{name}`" for name in absent])
        with_what = f"what {names} held when it was submitted"
        _say_attached(request, job, with_what)
    return job


def _earlier_without(state: MagicsState, request: Request, spec: JobSpec) -> Job | None:
    """Return the job of the same cell, whatever went into it: where variables are gone, as after a
    restart of the kernel, the cell has nothing to submit, so it can mean nothing else."""
    earlier = None if request.reuse is Reuse.FRESH else _attachable(state, spec)
    return earlier.job if earlier and {*earlier.differs} <= {"in", "in?"} else None


def _say_attached(request: Request, job: Job, other: str) -> None:
    """Say that the cell is attached to its job, which has `other` than the cell has now; "": the
    same."""
    state = "has ended meanwhile" if job.state.final else f"is {job.state.word}"
    how = f", with {other}" if other else ""
    if request.reuse is not Reuse.ATTACH:
        how += " (--fresh submits another)"
    say(f"This cell's job {job.id} {state}: attached to it{how}.")


def _listed(words: Sequence[str]) -> str:
    """Return the words as `a, b and c`."""
    *most, last = words or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _submit(state: MagicsState, request: Request, spec: JobSpec) -> Job:
    try:
        return state.submit(spec, request)
    except AgentError:  # the agent may have the job
        raise
    except (JupyterSlurmError, LoginDeclined):
        _drop_inputs(spec)
        raise


def _absent(state: MagicsState, spec: JobSpec) -> list[str]:
    """Return the variables that should go in and are not here."""
    names = spec.names_in if isinstance(spec, CellSpec) else ()
    return [name for name in names if name not in state.namespace]


def _drop_inputs(spec: JobSpec) -> None:
    """Delete the file of the variables that go in: they are not sent."""
    if isinstance(spec, CellSpec) and spec.inputs:
        Path(spec.inputs).unlink(missing_ok=True)


def _with_inputs(state: MagicsState, spec: JobSpec) -> JobSpec:
    """Write the variables that go in to where the agent takes them from. VariableError."""
    if not isinstance(spec, CellSpec) or not spec.names_in:
        return spec
    from jupyter_slurm import places  # noqa: PLC0415
    from jupyter_slurm.jobs.outcome.variables import write_variables  # noqa: PLC0415
    from jupyter_slurm.jobs.submission.inputs import digest_inputs, holds_code  # noqa: PLC0415
    from jupyter_slurm.jobs.submission.payload import check_names  # noqa: PLC0415

    check_names(spec.names_in, state.namespace)
    path = places.spool_dir() / f"{spec.id}.vars"
    try:
        write_variables(path, spec.names_in, state.namespace)
        digest = digest_inputs(path, spec.names_in, state.namespace)
        python = sys.version_info[:2] if holds_code(path) else None
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return msgspec.structs.replace(
        spec, inputs=str(path), inputs_digest=digest, inputs_python=python
    )


def bring(
    state: MagicsState, job: Job, *, cancel_on_interrupt: bool, raise_on_failure: bool
) -> None:
    """Show the job here until it has ended, and then its outcome."""
    state.live.drop(job.id)
    card = LiveCard(job)
    replay = Replay(job.id, state.output_limit_bytes, state.settings.show, on_clear=card.show)
    following = Following(state.api, card, replay)
    with CallThread(state.person, job.cluster) as worker:
        try:
            following.run(worker)
            _show_other_ranks(state, worker, card.job)
            failed = _deliver(state, worker, card)
        except LoginDeclined:
            raise _left(state, card, waits_for_login=True) from None
        except KeyboardInterrupt:
            if cancel_on_interrupt:
                raise _cancelled(state, card, following) from None
            raise _left(state, card) from None
        except JupyterSlurmError as exc:
            _give_up(state, card, exc)
            raise
    if not card.settled:
        state.live.add(card)
    if failed is not None and raise_on_failure:
        raise failed
    if isinstance(failed, VariableError):
        warn(str(failed))


def _deliver(state: MagicsState, worker: CallThread, card: LiveCard) -> JupyterSlurmError | None:
    """Put the variables into the notebook, then note that everything was sent; return the error to
    raise."""
    api, job_id = state.api, card.job.id
    result = Result(job=card.job, status="ok")
    if not _says_all(card.job):
        result = worker(lambda: api.result(job_id), card.appear)
    not_come = dict(result.failed)
    variables = worker(lambda: read_result_variables(result, not_come))
    state.namespace.update(variables)
    _remark(result)
    ended_badly = failure(result, state.namespace)
    job = result.job
    failed = below_card(ended_badly, job) if ended_badly else left_out(job, not_come)
    if result.job.fetch:
        try:
            follow_transfer(api, worker, worker(lambda: api.fetch(job_id)))
        except JupyterSlurmError as exc:
            if failed is None:
                raise
            warn(f"Its files could not be fetched: {exc}")
    _note_sent(state, card)
    return failed


def _says_all(job: Job) -> bool:
    """Return whether the job succeeded and brings no variables, so that its result says no more."""
    brings = job.names_out or job.names_gather
    return job.state is JobState.COMPLETED and job.warning is None and not brings


def _note_sent(state: MagicsState, card: LiveCard) -> None:
    """Have the page acknowledge the outcome, once it has it; where the client does not, count it
    as delivered. The cell does not wait for that."""
    job_id, asked = card.job.id, page()
    state.sent[job_id] = asked
    card.complete()
    if asked is None:
        # The kernel waits for it before it exits.
        name = f"delivered {job_id}"
        threading.Thread(target=_count_delivered, args=[state.agent, job_id], name=name).start()


def _count_delivered(agent: Api, job_id: str) -> None:
    with suppress(JupyterSlurmError):  # the cell, run again, attaches
        agent.delivered(job_id)


def _show_other_ranks(state: MagicsState, worker: CallThread, job: Job) -> None:
    """Show, folded, what the ranks have written whose output is not the cell's."""
    if not isinstance(job, CellJob) or job.ranks < 2:
        return
    ranks = range(1, min(job.ranks, other_ranks.MOST + 1))
    texts = {
        rank: other_ranks.text_of(
            worker(partial(state.api.logs, job.id, budget_bytes=_RANK_BYTES, task=rank)).outputs
        )
        for rank in ranks
    }
    if any(texts.values()):
        left = job.ranks - len(ranks) - 1
        more = ""
        if left:
            more = f"{counted(left, 'more rank')}: `%slurm logs {job.id} --task RANK`"
        html, plain = other_ranks.as_html(texts, more), other_ranks.as_text(texts, job.id)
        show({"text/html": html, "text/plain": plain}, {})


def _remark(result: Result) -> None:
    if result.status == "ok" and result.interrupted_by:
        warn(f"{result.interrupted_by} interrupted the cell, which then finished normally.")


def _left(state: MagicsState, card: LiveCard, *, waits_for_login: bool = False) -> Detached:
    """Return the interrupt of a cell whose job continues or is not yet submitted."""
    state.live.add(card)
    job = card.job
    slurm = f" (Slurm {job.slurm_id})" if job.slurm_id else ""
    if job.state is JobState.SUBMITTING:
        goes = _after_login() if waits_for_login else "is being submitted"
    else:
        goes = "has ended" if job.state.final else "continues"
    return Detached(f"job {job.id}{slurm} {goes}; {ways(job.id)}")


def _after_login() -> str:
    return "is submitted by itself after the login, and this cell, run again, attaches to it"


def _cancelled(state: MagicsState, card: LiveCard, following: Following) -> Detached:
    """Cancel the job of an interrupted cell and return the interrupt; a second interrupt stops the
    waiting."""
    job_id = card.job.id
    with CallThread(state.person, card.job.cluster) as worker:
        try:
            card.update(worker(lambda: state.api.cancel(job_id)))
            following.run(worker, until_s=time.monotonic() + _CANCEL_WAIT_S)
        except KeyboardInterrupt:
            return _left(state, card)
    state.live.add(card)
    ended = card.job.state.word
    return Detached(f"job {job_id} was asked to end and is {ended}")


def _give_up(state: MagicsState, card: LiveCard, exc: JupyterSlurmError) -> None:
    """Keep a job whose connection is lost. Count an outcome that cannot be fetched as sent, so that
    the cell's next run submits a new job."""
    on_the_way = (AgentError, LoginError, HostKeyError)
    if isinstance(exc, on_the_way) or exc.transient or not card.job.state.final:
        state.live.add(card)
        waits = isinstance(exc, LoginNeededError) and card.job.state is JobState.SUBMITTING
        goes = _after_login() if waits else "is not affected"
        warn(f"Job {card.job.id} {goes}; {ways(card.job.id)}.")
    else:
        _note_sent(state, card)
