"""The cells of `%%slurm` and `%slurm attach`. They submit or find the job, follow it, and load its
variables.

`line.py` parses the line, and `follow.py` shows the output.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.client.login import LoginDeclined
from jupyter_slurm.commands import line as cell_line
from jupyter_slurm.commands import sweep_values
from jupyter_slurm.commands.functions import warn_ended_earlier, with_session
from jupyter_slurm.commands.line import Request, Reuse, with_local_context
from jupyter_slurm.errors import (
    AgentError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    NotFoundError,
    SweepError,
    VariableError,
)
from jupyter_slurm.formatting import counted
from jupyter_slurm.job import JobHandle, drop_inputs, read_outcome, with_inputs, with_params
from jupyter_slurm.jobs.preflight import syntax
from jupyter_slurm.magics.follow import Detached, Following, LiveCard, Replay, ways
from jupyter_slurm.magics.frontend import page, prompter, say, show, warn
from jupyter_slurm.magics.state import CallThread, MagicsState
from jupyter_slurm.magics.transfer import follow_transfer
from jupyter_slurm.views import other_ranks
from jupyter_slurm.views.failure import below_card, left_out
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
    SweepJob,
    SweepSpec,
    new_id,
)

_CANCEL_WAIT_S = 5.0
_RANK_BYTES = 20_000
"""Maximum number of bytes of a rank's output to show, for ranks other than the first."""
_OTHER: Mapping[InputPart, str] = MappingProxyType(
    {
        "options": "other options",
        "folder": "another working directory",
        "image": "another image",
        "in": "other values of --in",
        "in?": "perhaps other values of --in",
        "push": "other files of --push",
        "kernel": "another kernel",
    }
)
_OTHER_OF_SWEEPS: Mapping[InputPart, str] = MappingProxyType(
    {"in": "other parameters", "in?": "perhaps other parameters"}
)


def run(
    state: MagicsState, line: str, code: str, made: type[ScriptSpec] | None = None
) -> JobHandle | Preview | None:
    """Run a cell's text as a job. Return the handle if the cell does not wait for the job or, with
    `--dry-run`, the preview. Raises CellFailed, SubmitError or VariableError, or RequestError if
    the line is invalid."""
    is_script = made is not None
    request = state.script_request(line, code) if is_script else state.request(line)
    if request.session is not None:
        request = with_session(state, request, request.session)
    notebook = state.notebook
    mark = cell_line.fingerprint(code, "" if notebook else state.unnamed)
    spec = with_local_context(
        cell_line.spec(
            made or cell_line.of_cell(code, request),
            request,
            code,
            job_id=new_id(),
            notebook=notebook,
            fingerprint=mark,
        )
    )
    spec = msgspec.structs.replace(spec, kernel=state.process)
    if isinstance(spec, CellSpec | SweepSpec):
        _check_syntax(state, spec)
    if request.dry_run:
        return _preview(state, request, spec)
    try:
        job = _find_or_submit(state, request, spec)
    except NotFoundError:
        used = state.used_session
        if used is None or used.id != spec.session or request.reuse is Reuse.ATTACH:
            raise
        state.used_session = None  # the user has removed it
        return run(state, line, code, made)
    is_new = job.id == spec.id
    if notebook is None and is_new and not state.told_unnamed and prompter().there():
        state.told_unnamed = True
        warn(
            "The notebook is not saved: after a restart, return to this job with `%slurm attach "
            f"{job.id}`."
        )
    return JobHandle(state.api, job) if is_script else wait_or_detach(state, request, job)


def wait_or_detach(state: MagicsState, request: Request, job: Job) -> JobHandle | None:
    """Wait for the job and show its outcome. If it is detached, return its handle instead."""
    detach = state.settings.detach if request.detach is None else request.detach
    if detach:
        return JobHandle(state.api, job)
    on_interrupt = request.on_interrupt or state.settings.on_interrupt
    show_to_end(
        state,
        job,
        cancel_on_interrupt=on_interrupt == "cancel",
        raise_on_failure=request.raise_on_failure,
    )
    return None


def _preview(state: MagicsState, request: Request, spec: JobSpec) -> Preview:
    """Return the preview, including the size of input variables. Raise VariableError if an input
    variable is missing and the cell does not have an earlier job."""
    if not _absent(state, request, spec) or _earlier_without(state, request, spec) is None:
        spec = _with_inputs(state, request, spec)
    try:
        return state.api.preview(spec)
    finally:
        drop_inputs(spec)


def _check_syntax(state: MagicsState, spec: JobSpec) -> None:
    """Check whether Python can compile the code. If not, raise CodeError, formatted like IPython's
    syntax errors, or show a warning."""
    shell = state.shell
    manager = shell.prefilter_manager

    def translate(source: str) -> str:
        above = source[: len(source) - len(source.lstrip())].count("\n")
        source = shell.transform_cell(source)  # drops leading empty lines
        if manager is not None and len(source.splitlines()) == 1:  # `pip …` without its %
            source = manager.prefilter_lines(source)
        return "\n" * above + source

    source = f"\n{spec.code}"  # the magic's line is the first line of the cell
    error = syntax.fault(source, shell.compile.cache(source, shell.execution_count), translate)
    if error is not None:
        rendered = shell.SyntaxTB.structured_traceback(type(error), error, None)
        warn(syntax.check(error, source, spec, state.api, rendered))


def attach(state: MagicsState, job_id: str | None) -> None:
    """Show the output and outcome of a job in this cell. None stands for the newest job with an
    undelivered outcome, of this notebook if possible. Raises NotFoundError."""
    job = state.api.job(job_id) if job_id else _newest(state)
    if job_id:
        warn_ended_earlier(state, job, job_id)
    show_to_end(state, job, cancel_on_interrupt=False, raise_on_failure=True)


def _newest(state: MagicsState) -> Job:
    jobs = [job for job in state.api.jobs() if not state.is_shown(job)]
    here = [job for job in jobs if job.notebook and job.notebook == state.notebook]
    if not jobs:
        raise NotFoundError(
            "No unfinished or unfetched jobs.",
            hint="List all jobs with `%slurm jobs`, and show a job again with `%slurm attach ID`.",
        )
    return (here or jobs)[0]


def _find_or_submit(state: MagicsState, request: Request, spec: JobSpec) -> Job:
    absent = _absent(state, request, spec)
    if absent and (job := _find_without(state, request, spec, absent)) is not None:
        return job
    spec = _with_inputs(state, request, spec)
    try:
        job = _find(state, request, spec)
    except BaseException:
        drop_inputs(spec)
        raise
    if job is None:
        return _submit(state, request, spec)
    drop_inputs(spec)
    return job


def _find(state: MagicsState, request: Request, spec: JobSpec) -> Job | None:
    """Return this cell's earlier job if the cell can attach to it, otherwise None."""
    if request.reuse is Reuse.FRESH:
        return None
    earlier = _attachable(state, spec)
    if earlier is not None:
        job = earlier.job
        known = {**_OTHER, **_OTHER_OF_SWEEPS} if isinstance(spec, SweepSpec) else _OTHER
        other = _listed([str(known[part]) for part in earlier.differs])
        if not earlier.differs or request.reuse is Reuse.ATTACH:
            _say_attached(request, job, other)
            return job
        if not job.state.final:
            say(f"Job {job.id} runs this code with {other} and continues; {ways(job.id)}.")
    if request.reuse is Reuse.ATTACH:
        raise NotFoundError(
            "This cell has no job to attach to.",
            hint="Omit --attach to submit a job. See other jobs with `%slurm jobs`.",
        )
    return None


def _attachable(state: MagicsState, spec: JobSpec) -> Earlier | None:
    """Return this cell's earlier job, unless its outcome is already in the notebook."""
    earlier = state.api.attachable(spec)
    while earlier is not None and earlier.job.state.final and state.is_shown(earlier.job):
        state.api.delivered(earlier.job.id)  # not acknowledged by the page yet
        earlier = state.api.attachable(spec)
    return earlier


def _find_without(
    state: MagicsState, request: Request, spec: JobSpec, absent: Sequence[str]
) -> Job | None:
    """Return the earlier job of a cell whose input variables are missing, and report that the cell
    is attached to the job. Return None without an earlier job."""
    job = _earlier_without(state, request, spec)
    if job is not None:
        names = _listed([f"`{name}`" for name in absent])
        with_what = f"{names} as of its submission"
        _say_attached(request, job, with_what)
    return job


def _earlier_without(state: MagicsState, request: Request, spec: JobSpec) -> Job | None:
    """Return this cell's earlier job if only its input variables may differ, otherwise None.
    Without input variables, for example after a restart of the kernel, the cell cannot submit a new
    job."""
    earlier = None if request.reuse is Reuse.FRESH else _attachable(state, spec)
    return earlier.job if earlier and {*earlier.differs} <= {"in", "in?"} else None


def _say_attached(request: Request, job: Job, other: str) -> None:
    """Report that the cell is attached to its job. `other` names the job's inputs that differ from
    the cell's."""
    state = "has ended" if job.state.final else f"is {job.state.word}"
    how = f", with {other}" if other else ""
    if request.reuse is not Reuse.ATTACH:
        how += " (--fresh submits another)"
    say(f"This cell's job {job.id} {state}. The cell is attached to it{how}.")


def _listed(words: Sequence[str]) -> str:
    """Return the words as `a, b and c`."""
    *most, last = words or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _submit(state: MagicsState, request: Request, spec: JobSpec) -> Job:
    try:
        return state.submit(spec, request)
    except AgentError:  # the agent may have received the job
        raise
    except (JupyterSlurmError, LoginDeclined):
        drop_inputs(spec)
        raise


def _absent(state: MagicsState, request: Request, spec: JobSpec) -> list[str]:
    """Return the input variables that do not exist."""
    names = spec.names_in if isinstance(spec, CellSpec | SweepSpec) else ()
    if request.sweep:
        names = (*names, *sweep_values.variables(request.sweep))
    return [name for name in names if name not in state.namespace]


def _with_inputs(state: MagicsState, request: Request, spec: JobSpec) -> JobSpec:
    """Write the input variables and a sweep's parameters to the agent's spool folder. Raises
    VariableError."""
    if not isinstance(spec, CellSpec | SweepSpec):
        return spec
    if spec.names_in:
        from jupyter_slurm.variables import check_names  # noqa: PLC0415

        check_names(spec.names_in, state.namespace)
    if isinstance(spec, SweepSpec) and request.sweep:
        spec = with_params(spec, sweep_values.parameters(request.sweep, state.namespace))
    return with_inputs(spec, state.namespace) if spec.names_in else spec


def show_to_end(
    state: MagicsState, job: Job, *, cancel_on_interrupt: bool, raise_on_failure: bool
) -> None:
    """Show the job until it has ended, then its outcome."""
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
    """Load the variables into the notebook, and record that the outcome was delivered. Return the
    error to raise, or None."""
    api, job_id = state.api, card.job.id
    result = Result(job=card.job, status="ok")
    if not _says_all(card.job):
        result = worker(lambda: api.result(job_id), card.appear)
    not_come = dict(result.failed)
    variables, ended_badly = worker(lambda: read_outcome(api, result, not_come, state.namespace))
    state.namespace.update(variables)
    _remark(result)
    job = result.job
    failed: JupyterSlurmError | None = ended_badly or left_out(job, not_come)
    if ended_badly and not isinstance(ended_badly, SweepError):
        failed = below_card(ended_badly, job)
    if result.job.fetch:
        try:
            follow_transfer(api, worker, worker(lambda: api.fetch(job_id)))
        except JupyterSlurmError as exc:
            if failed is None:
                raise
            warn(f"Cannot fetch the job's files: {exc}")
    _note_sent(state, card)
    return failed


def _says_all(job: Job) -> bool:
    """Return whether the job succeeded without variables or a table. Its result then adds
    nothing."""
    brings = job.names_out or job.names_gather or isinstance(job, SweepJob)
    return job.state is JobState.COMPLETED and job.warning is None and not brings


def _note_sent(state: MagicsState, card: LiveCard) -> None:
    """Let the page acknowledge the outcome. If the client does not acknowledge outcomes, report the
    outcome to the agent as delivered, without waiting."""
    job_id, asked = card.job.id, page()
    state.sent[job_id] = asked
    card.complete()
    if asked is None:
        # The kernel waits for this thread before it exits.
        name = f"delivered {job_id}"
        threading.Thread(target=_count_delivered, args=[state.agent, job_id], name=name).start()


def _count_delivered(agent: Api, job_id: str) -> None:
    with suppress(JupyterSlurmError):  # the cell then attaches to the job if it runs again
        agent.delivered(job_id)


def _show_other_ranks(state: MagicsState, worker: CallThread, job: Job) -> None:
    """Show the output of the other ranks, folded."""
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
    """Return the interrupt of a cell whose job continues or is still being submitted."""
    state.live.add(card)
    job = card.job
    slurm = f" (Slurm {job.slurm_id})" if job.slurm_id else ""
    if job.state is JobState.SUBMITTING:
        goes = _after_login() if waits_for_login else "is being submitted"
    else:
        goes = "has ended" if job.state.final else "continues"
    return Detached(f"job {job.id}{slurm} {goes}; {ways(job.id)}")


def _after_login() -> str:
    return "is submitted automatically after the login; run this cell again to attach to it"


def _cancelled(state: MagicsState, card: LiveCard, following: Following) -> Detached:
    """Cancel the job of an interrupted cell and return the interrupt. A second interrupt stops
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
    return Detached(f"job {job_id}: cancellation requested; it is {ended}")


def _give_up(state: MagicsState, card: LiveCard, exc: JupyterSlurmError) -> None:
    """Stop following a job after an error. If the outcome cannot be fetched, record it as sent, so
    that the cell submits a new job next time."""
    on_the_way = (AgentError, LoginError, HostKeyError)
    if isinstance(exc, on_the_way) or exc.transient or not card.job.state.final:
        state.live.add(card)
        waits = isinstance(exc, LoginNeededError) and card.job.state is JobState.SUBMITTING
        goes = _after_login() if waits else "continues"
        warn(f"Job {card.job.id} {goes}; {ways(card.job.id)}.")
    else:
        _note_sent(state, card)
