"""Job handles for Python, returned by `js.connect().submit(spec)` and detached cells.

They use `Api` and work in any Python. Only `attach` and cards need IPython.
"""

from __future__ import annotations

import contextvars
import re
import sys
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.commands.notebooks import marker_of
from jupyter_slurm.errors import CellFailed, JupyterSlurmError, from_problem
from jupyter_slurm.slurm.units import format_array
from jupyter_slurm.views.card import plain
from jupyter_slurm.views.failure import failure, left_out
from jupyter_slurm.wire import (
    CellJob,
    CellSpec,
    ErrorOutput,
    Job,
    JobSpec,
    JobState,
    LogChunk,
    Output,
    Result,
    Stream,
    SweepJob,
    SweepSpec,
    Transfer,
    TransferState,
)

if TYPE_CHECKING:
    from jupyter_slurm.client.login import Prompter

InputSpecT = TypeVar("InputSpecT", bound=CellSpec | SweepSpec)
_WAIT_S = 20.0
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class JobHandle:
    """A job: its state, output and variables.

    `await handle` returns `handle.result()` without blocking the event loop.
    """

    def __init__(self, api: Api, job: Job) -> None:
        self._api = api
        self._job = job

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def slurm_id(self) -> str | None:
        """Return Slurm's ID; None until sbatch has answered."""
        return self.job.slurm_id

    @property
    def state(self) -> JobState:
        return self.job.state

    @property
    def job(self) -> Job:
        """Return the job's current state."""
        if not (self._job.state.final and self._job.delivered):
            self._job = self._api.job(self.id)
        return self._job

    @property
    def output(self) -> str:
        """Return the output so far, with stdout, stderr and errors in order."""
        return "".join(read_whole_log(self._api, self.id))

    def task_output(self, task: int) -> str:
        """Return the output of an array task. `job.tasks` contains the indices. Raises
        RequestError."""
        return "".join(read_whole_log(self._api, self.id, task))

    def done(self) -> bool:
        """Return whether the job has ended."""
        return self.job.state.final

    def wait(self, timeout: float | None = None) -> Job:
        """Wait for the end of the job and return the job. Raise TimeoutError after `timeout`
        seconds (None for no limit)."""
        until_s = float("inf") if timeout is None else time.monotonic() + timeout
        job = self.job
        cursor = ""
        while not job.state.final:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"Job {self.id} is {job.state.word} after {timeout:g} s.")
            changes = self._api.changes(cursor, wait_s=min(_WAIT_S, left_s))
            cursor = changes.cursor
            job = next((one for one in changes.jobs if one.id == self.id), job)
        self._job = job
        return job

    def result(self, timeout: float | None = None) -> dict[str, object]:
        """Wait until the job and the transfer of `--fetch` have ended, and return the variables.
        Raise CellFailed if the job failed, and VariableError if a variable is missing. Also raise
        JobLostError, SignatureError, TimeoutError as `wait` does, and the errors of the transfer.
        """
        variables, failed = self._outcome(timeout)
        if failed:
            raise failed
        return variables

    def exception(self, timeout: float | None = None) -> JupyterSlurmError | None:
        """Wait for the end of the job and return the error that `result` raises for it, or None.
        Raise any other error of `result`, such as TimeoutError."""
        return self._outcome(timeout)[1]

    def _outcome(self, timeout: float | None) -> tuple[dict[str, object], JupyterSlurmError | None]:
        self.wait(timeout)
        result = self._api.result(self.id)
        not_come = dict(result.failed)
        variables, error = read_outcome(self._api, result, not_come)
        failed: JupyterSlurmError | None = error or left_out(result.job, not_come)
        if result.job.fetch:
            try:
                wait_for_transfer(self._api, self._api.fetch(self.id))
            except JupyterSlurmError as exc:
                if failed is None:
                    raise
                failed.add_note(f"Its files were not fetched: {exc}")
        self._job = self._api.delivered(self.id)
        return variables, failed

    def cancel(self) -> Job:
        self._job = self._api.cancel(self.id)
        return self._job

    def attach(self) -> None:
        """Show output and load variables in the running cell, as `%slurm attach` does."""
        from jupyter_slurm.magics.state import current  # noqa: PLC0415

        current().shell.run_line_magic("slurm", f"attach {self.id}")

    def __await__(self) -> Generator[Any, None, dict[str, object]]:
        import asyncio  # noqa: PLC0415 - loaded by any caller that awaits, and not needed in a terminal

        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        return loop.run_in_executor(None, context.run, self.result).__await__()

    def __repr__(self) -> str:
        return f"<{plain(self._job, time.time()).splitlines()[0]}>"

    def _ipython_display_(self) -> None:
        """Show a live card."""
        from jupyter_slurm.magics.state import current  # noqa: PLC0415

        with suppress(JupyterSlurmError):  # the card shows the last known state
            self._job = self.job
        current().show_card(self._job)


class Connection:
    """A cluster, returned by `connect`."""

    def __init__(self, api: Api, cluster: str | None) -> None:
        self.api = api
        self.cluster = cluster

    def submit(self, spec: JobSpec) -> JobHandle:
        """Submit a job. Repeating the call with the same spec is safe. Raise SubmitError if sbatch
        refuses the job, and RequestError if the spec is invalid."""
        if spec.cluster is None:
            spec = msgspec.structs.replace(spec, cluster=self.cluster)
        return JobHandle(self.api, self.api.submit(spec))

    def job(self, job_id: str) -> JobHandle:
        """Return a job by our ID or Slurm's ID. Raises NotFoundError."""
        return JobHandle(self.api, self.api.job(job_id))

    def jobs(self) -> list[JobHandle]:
        """Return our jobs on this cluster, the newest first."""
        return [JobHandle(self.api, job) for job in self.api.jobs(self.cluster)]


def connect(cluster: str | None = None) -> Connection:
    """Connect to the agent, and start it if needed. Jobs without a cluster go to `cluster` (None
    for the default). A call that needs a login asks the user. Raises AgentError."""
    from jupyter_slurm import client  # noqa: PLC0415

    return Connection(client.interactive(client.connect(), _prompter()), cluster)


def _prompter() -> Prompter:
    if "IPython" in sys.modules:
        from jupyter_slurm.magics.frontend import prompter  # noqa: PLC0415

        return prompter()
    from jupyter_slurm.client.login import TerminalPrompter  # noqa: PLC0415

    return TerminalPrompter()


def until_ready(
    api: Api,
    job: Job,
    is_ready: Callable[[Job], bool],
    wait_s: Callable[[Job], float] = lambda _: _WAIT_S,
    ask: Callable[[Callable[[], LogChunk]], LogChunk] = lambda call: call(),
) -> Iterator[LogChunk]:
    """Yield chunks of the job's log until the job is ready or has ended. `ask` makes the calls;
    each waits for `wait_s`."""
    cursor = ""
    while not (job.state.final or is_ready(job)):
        chunk = ask(partial(api.logs, job.id, cursor, wait_s=wait_s(job)))
        job, cursor = chunk.job, chunk.cursor
        yield chunk


def log_pages(
    api: Api, job_id: str, task: int | None = None, cursor: str = ""
) -> Iterator[LogChunk]:
    """Yield the log of a job or array task so far, in pages."""
    while True:
        chunk = api.logs(job_id, cursor, budget_bytes=None, task=task)
        yield chunk
        if chunk.end or not chunk.outputs:
            return
        cursor = chunk.cursor


def read_whole_log(api: Api, job_id: str, task: int | None = None) -> Iterator[str]:
    """Yield the text of the log, with stdout, stderr and errors in order."""
    for chunk in log_pages(api, job_id, task):
        yield text_of(chunk.outputs)


def text_of(outputs: Iterable[Output]) -> str:
    """Return the text of streams and errors, including ignored errors of notebook cells."""
    return "".join(map(_text_of, outputs))


def _text_of(output: Output) -> str:
    marker = marker_of(output)
    match marker.error.output() if marker and marker.error else output:
        case Stream(text=text):
            return text
        case ErrorOutput() as error:
            return _COLOURS.sub("", error_text(error))
        case _:
            return ""


def error_text(error: ErrorOutput) -> str:
    """Return the text of an error for a terminal, with colours."""
    if error.ename == "SystemExit":
        # As in Python, `sys.exit(3)` prints nothing, and `sys.exit("why")` prints the text.
        return "" if error.evalue.removeprefix("-").isdecimal() else f"{error.evalue}\n"
    return ("\n".join(error.traceback) or f"{error.ename}: {error.evalue}") + "\n"


def wait_for_transfer(api: Api, transfer: Transfer) -> Transfer:
    """Wait for the end of a transfer and return it. Raise its error if it failed."""
    while transfer.state is TransferState.RUNNING:
        transfer = api.transfer(transfer.id, wait_s=_WAIT_S)
    return check_transfer(transfer)


def check_transfer(transfer: Transfer) -> Transfer:
    """Return the transfer. Raise its error if it failed."""
    if transfer.state is TransferState.FAILED:
        if transfer.problem is None:
            raise JupyterSlurmError("The transfer failed for an unknown reason.")
        raise from_problem(transfer.problem)
    return transfer


def check_shown_transfer(transfer: Transfer) -> Transfer:
    """Return the transfer. If it failed, raise its error without the files that its card lists."""
    if transfer.failed is not None and transfer.problem is not None:
        error = from_problem(transfer.problem)
        error.detail = None
        raise error
    return check_transfer(transfer)


def with_inputs(spec: InputSpecT, namespace: Mapping[str, object]) -> InputSpecT:
    """Write the input variables to the agent's spool folder, and return the spec with their file.
    Raises VariableError."""
    path, digest, python = _spooled(spec, f"{spec.id}.vars", spec.names_in, namespace)
    return msgspec.structs.replace(
        spec, inputs=path, inputs_digest=digest, inputs_python=python or spec.inputs_python
    )


def with_params(spec: SweepSpec, parameters: Sequence[Mapping[str, object]]) -> SweepSpec:
    """Write the parameters of all tasks to the agent's spool folder, and return the spec with their
    file. Raises VariableError."""
    from jupyter_slurm import sweep  # noqa: PLC0415 - only sweeps need it

    by_task = {str(task): dict(one) for task, one in enumerate(parameters)}
    path, digest, python = _spooled(spec, f"{spec.id}.params.vars", tuple(by_task), by_task)
    text = Path(path).with_suffix(".json")
    text.write_bytes(msgspec.json.encode(sweep.params_as_text(list(by_task.values()))))
    return msgspec.structs.replace(
        spec,
        tasks=format_array(range(len(by_task))),
        names_params=tuple(by_task["0"]),
        params=path,
        params_text=str(text),
        params_digest=digest,
        inputs_python=python,
    )


def _spooled(
    spec: CellSpec | SweepSpec, name: str, names: Sequence[str], namespace: Mapping[str, object]
) -> tuple[str, str | None, tuple[int, int] | None]:
    """Write variables to the agent's spool folder. Return the path, the digest (None for a spec
    without a fingerprint), and the version of this Python if the file needs it. Raises
    VariableError."""
    from jupyter_slurm import places  # noqa: PLC0415
    from jupyter_slurm.variables import (  # noqa: PLC0415
        digest_inputs,
        holds_code,
        write_variables,
    )

    path = places.spool_dir() / name
    digest = None
    try:
        write_variables(path, names, namespace)
        if spec.fingerprint is not None:  # the digest finds the cell's job again
            digest = digest_inputs(path, names, namespace)
        python = sys.version_info[:2] if holds_code(path) else None
    except BaseException:
        path.unlink(missing_ok=True)
        drop_inputs(spec)
        raise
    return str(path), digest, python


def drop_inputs(spec: JobSpec) -> None:
    """Delete the files of input variables that are not sent."""
    inputs = spec.inputs if isinstance(spec, CellSpec | SweepSpec) else None
    params = (spec.params, spec.params_text) if isinstance(spec, SweepSpec) else ()
    for path in filter(None, (inputs, *params)):
        Path(path).unlink(missing_ok=True)


def read_outcome(
    api: Api, result: Result, failed: dict[str, str], known: Container[str] = ()
) -> tuple[dict[str, object], CellFailed | None]:
    """Return the variables (for a sweep, its table) and the error of a failed job. Add the errors
    of variables to `failed`. `failure` explains `known`."""
    job = result.job
    if not isinstance(job, SweepJob) or result.variables is None:
        return read_result_variables(result, failed), failure(result, known)
    from jupyter_slurm import sweep  # noqa: PLC0415 - only sweeps need it

    rows, error = sweep.outcome(result, api.sweep(job.id), failed)
    table = sweep.as_frame(rows, job.id) if error is None else error.table
    return {job.into: table}, error


def read_result_variables(
    result: Result, failed: dict[str, str] | None = None
) -> dict[str, object]:
    """Return the requested variables. Add errors of unreadable variables to `failed`, by name."""
    job, values = result.job, dict[str, object]()
    failed = {} if failed is None else failed
    if not isinstance(job, CellJob):
        return values
    if result.variables is not None:
        values = _read(job, result.variables, result.names, job.names_out, failed)
    of_ranks = []
    for rank, one in enumerate(result.gathered):
        unread: dict[str, str] = {}
        if one.variables is not None:
            of_ranks.append(_read(job, one.variables, one.names, job.names_gather, unread))
        failed |= {f"{name} of rank {rank}": why for name, why in unread.items()}
    if result.gathered and len(of_ranks) == len(result.gathered):
        for name in job.names_gather:
            if all(name in one for one in of_ranks):
                values[name] = [one[name] for one in of_ranks]
    return values


def _read(
    job: CellJob, path: str, names: Sequence[str], asked: Sequence[str], failed: dict[str, str]
) -> dict[str, object]:
    """Read the requested variables from a file. Add errors of unreadable variables to `failed`."""
    from jupyter_slurm.variables import read_variables  # noqa: PLC0415

    wanted = [name for name in names if name in asked]
    values, unread = read_variables(Path(path), wanted, job.out_format)
    failed |= unread
    return values
