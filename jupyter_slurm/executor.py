"""`js.Executor` (a `concurrent.futures.Executor` whose calls are jobs), `js.future` and `js.map`.

A call is a cell. Its input variable contains the function and the arguments, and its output
variable is `OUTCOME`. A thread watches all calls of an executor with `Api.changes`, and ends after
the last call. The submission of a short call in a session may already return its result. The calls
of `js.map` are the tasks of one sweep. Their arguments are the sweep's parameters.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple, ParamSpec, TypeVar

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.commands import line
from jupyter_slurm.commands.arguments import job_spec, of_job, read_arguments
from jupyter_slurm.commands.parsing import as_words
from jupyter_slurm.commands.submitting import CALL, CELL, MAP, SESSION_START
from jupyter_slurm.errors import (
    AgentError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
    SubmitError,
    TransportError,
    VariableError,
    from_problem,
)
from jupyter_slurm.job import (
    JobHandle,
    connect,
    drop_inputs,
    read_result_variables,
    text_of,
    with_inputs,
    with_params,
)
from jupyter_slurm.views.failure import ended, failure, left_out
from jupyter_slurm.wire import (
    OUTCOME,
    CellSpec,
    ErrorOutput,
    Job,
    JobSpec,
    JobState,
    OutFormat,
    Result,
    SessionSpec,
    SweepSpec,
    new_id,
)

_P = ParamSpec("_P")
_T = TypeVar("_T")
_CallSpec = TypeVar("_CallSpec", CellSpec, SweepSpec)

Option = str | int | float | PathLike[str] | Sequence[str] | Mapping[str, object] | None
"""The value of an option of `%%slurm` in Python. True sets a flag; None and False omit the option.
"""

_CALL = f"{OUTCOME} = call()\ndel call\n"
_CHUNK = f"{OUTCOME} = [call(*arguments) for arguments in chunk]\ndel call, chunk\n"
_FUNCTION, _RESULT = "call", "result"
"""The variables of a task of `map`."""
_WAIT_S = 20.0
_MOST_READ = 50
"""Maximum number of fetched results to leave unacknowledged while calls are pending."""
_PLURAL = {"modules": "module", "mounts": "mount"}
"""Names of options that can be repeated, by the name of their field."""


class _RemoteTraceback(Exception):
    """The traceback on the node, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'


class Future(concurrent.futures.Future[_T]):
    """A call in a job. `js.future(future.id)` finds the call again in any Python process."""

    def __init__(self, calls: _Calls, job_id: str) -> None:
        super().__init__()
        self.id = job_id
        self._calls = calls
        self._turn = threading.Lock()
        self._is_cancelled = False

    @property
    def job(self) -> JobHandle:
        """Return the call's job. Raise NotFoundError if the call waits for a worker."""
        return JobHandle(self._calls.api, self._calls.api.job(self.id))

    def cancel(self) -> bool:
        """Cancel the call and its job, unless the call is running or has ended. If the method
        raises an error of `Api.cancel`, the job may still be running."""
        if not self._give_up():
            return False
        self._calls.withdraw([self])
        return True

    def _give_up(self) -> bool:
        """Mark the call as cancelled, unless it is running or has ended. Return whether it was
        cancelled."""
        if not super().cancel():
            return False
        self._begin()  # wakes `wait` and `as_completed`
        return True

    def _begin(self) -> bool:
        """Record that the call is running. Return False if it was cancelled."""
        with self._turn:
            if not (self._is_cancelled or self.running()):
                self._is_cancelled = not self.set_running_or_notify_cancel()
            return not self._is_cancelled

    def _end(self, value: _T | None, error: BaseException | None) -> None:
        """Set the outcome of a call that was not cancelled."""
        if not self._begin():
            return
        if error is None:
            self.set_result(value)  # type: ignore[arg-type]
        else:
            self.set_exception(error)


class Executor(concurrent.futures.Executor):
    """An executor that calls functions in jobs of a cluster.

    `max_workers`: the maximum number of jobs at once; None for no limit. `warm`: run the calls in
    sessions, at most `max_workers` (default 1). Sessions stay allocated until `shutdown`, or until
    they are idle for `idle`. `out_format`: as for `--out-format`. The other options are those of
    `%%slurm`: `gpus=1`, `image="pytorch:22.11"`, `time="30m"`, `cpus_per_task=4`,
    `modules=["cuda"]`, `env={"A": "b"}`. Raise RequestError if an option is invalid.

    Calls never run in this process. When Python exits, it waits for the calls, as with other
    executors.
    """

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        cluster: str | None = None,
        warm: bool = False,
        out_format: OutFormat | None = None,
        **options: Option,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        words = _words({**options, "cluster": cluster})
        chosen = line.parse(_words({"out-format": out_format, "cluster": cluster}))
        if warm:
            make = partial(_session_spec, words)
            make()  # raises an error if an option is invalid
            self._request = chosen
            self._calls: _Calls = _CallsInSessions(cluster, max_workers or 1, make)
        else:
            self._request = replace(of_job(CALL, words), out_format=chosen.out_format)
            self._calls = _Calls(cluster, max_workers)
        weakref.finalize(self, self._calls.close).atexit = False

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Submit the call `fn(*args, **kwargs)` as a job. Raise VariableError if the call cannot be
        pickled, and the errors of `Api.submit` and `Api.connect`."""
        return self._call(fn, _CALL, call=partial(fn, *args, **kwargs))

    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **more: Any,
    ) -> Iterator[_T]:
        """Call `fn` with the values of the iterables, `chunksize` calls in each job. Return the
        results in order. `buffersize` (Python 3.14): the maximum number of pending results."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout, **more)
        calls = zip(*iterables, strict=False)
        chunks = iter(lambda: tuple(islice(calls, chunksize)), ())
        return _flat(_ByChunks(self).map(fn, chunks, timeout=timeout, **more))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Reject further calls; sessions end after their last call. `cancel_futures`: cancel the
        calls that are not running yet. `wait`: wait for all other calls."""
        self._calls.close()
        if cancel_futures:
            self._calls.cancel_pending()
        if wait:
            self._calls.join()

    def _call(self, fn: Callable[..., _T], code: str, **variables: object) -> Future[_T]:
        self._calls.check_open()
        spec = _spec(CellSpec, self._request, fn, code, tuple(variables), OUTCOME)
        with _naming_function(fn):
            spec = with_inputs(spec, variables)
        future: Future[_T] = Future(self._calls, spec.id)
        self._calls.add(future, spec)
        return future


class _ByChunks(concurrent.futures.Executor):
    """The calls of `Executor.map`, with a chunk of calls in each job."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_kwargs: Any) -> Future[Any]:
        return self._executor._call(fn, _CHUNK, call=fn, chunk=args[0])


def _flat(chunks: Iterator[Any]) -> Iterator[Any]:
    """Yield the values of each chunk without keeping them."""
    for chunk in chunks:
        chunk.reverse()
        while chunk:
            yield chunk.pop()


def future(job_id: str) -> Future[Any]:
    """Return the future of an Executor's call, submitted by this Python process or another. Raise
    NotFoundError if the job is unknown, and RequestError if it is not a call by an Executor."""
    return _calls_of_others().find(job_id)


def map(  # noqa: A001 - the name is `js.map`
    fn: Callable[..., _T],
    *iterables: Iterable[Any],
    max_workers: int | None = None,
    cluster: str | None = None,
    out_format: OutFormat | None = None,
    **options: Option,
) -> list[_T]:
    """Call `fn` with the values of the iterables, as the tasks of one sweep, and return the results
    in order. Raise SweepError, with the other results in its `table`, if calls failed. Raise
    VariableError if the calls cannot be pickled, and the errors of `Api.submit`.

    The options are those of `Executor`, plus `max_fails` and `on_interrupt`. As in a cell, an
    interrupt leaves the sweep running.
    """
    chosen = line.parse(_words({"out-format": out_format, "max-running": max_workers}))
    request = of_job(MAP, _words({**options, "cluster": cluster}))
    request = replace(request, out_format=chosen.out_format, max_running=chosen.max_running)
    names = _names_of_arguments(fn, len(iterables))
    rows = [dict(zip(names, one, strict=True)) for one in zip(*iterables, strict=False)]
    if not rows:
        return []
    api = connect(cluster).api
    code = f"{_RESULT} = {_FUNCTION}({', '.join(names)})\n"
    spec = _spec(SweepSpec, request, fn, code, (_FUNCTION,), _RESULT)
    with _naming_function(fn):
        spec = with_inputs(with_params(spec, rows), {_FUNCTION: fn})
    try:
        handle = JobHandle(api, _submitted(api, spec).job)
        if "IPython" in sys.modules:
            with suppress(RequestError):  # the extension is not loaded
                handle._ipython_display_()
        handle.wait()
    except AgentError as exc:
        exc.add_note(f"The sweep may have been submitted: `%slurm attach {spec.id}`.")
        raise
    except JupyterSlurmError:
        drop_inputs(spec)
        raise
    except KeyboardInterrupt:
        if request.on_interrupt == "cancel":
            api.cancel(spec.id)
            raise
        told = f"`%slurm attach {spec.id}` shows its table, `%slurm cancel {spec.id}` cancels it"
        raise KeyboardInterrupt(f"sweep {spec.id} continues; {told}") from None
    return _results(api, handle.id)


def _results(api: Api, job_id: str) -> list[Any]:
    """Return the results of an ended sweep, in order. Raise SweepError, VariableError or CellFailed
    if any are missing."""
    from jupyter_slurm import sweep  # noqa: PLC0415 - only sweeps need it

    result = api.result(job_id)
    failed, rows, error = dict(result.failed), list[sweep.Row](), failure(result)
    if result.variables is not None:
        rows, error = sweep.outcome(result, api.sweep(job_id), failed)
    api.delivered(job_id)
    told = error or left_out(result.job, failed)
    if told is not None:
        raise told
    return [row[_RESULT] for row in rows]


def _submitted(api: Api, spec: JobSpec) -> Result:
    """Submit a job. Return the result of a session's call that has already ended; otherwise a
    result with the status "none". Raise TransportError, and drop the job, if the cluster cannot be
    reached."""
    if isinstance(spec, CellSpec) and spec.session is not None:
        result = api.submit_call(spec)
    else:
        result = Result(job=api.submit(spec), status="none")
    job = result.job
    error = from_problem(job.problem) if job.problem is not None else None
    if job.state is JobState.SUBMITTING and isinstance(error, TransportError):
        with suppress(JupyterSlurmError):  # raised if the job does not exist yet
            api.cancel(spec.id)
        raise error
    return result


def _names_of_arguments(fn: Callable[..., Any], count: int) -> list[str]:
    """Return names for a sweep's parameters: the names of the function's parameters, or `x0`, `x1`
    …"""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names: list[str] = []
    with suppress(TypeError, ValueError):  # many built-in functions lack a signature
        parameters = inspect.signature(fn).parameters.values()
        names = [one.name for one in parameters if one.kind in positional][:count]
    if len(names) < count or {_FUNCTION, _RESULT} & {*names}:
        return [f"x{number}" for number in range(count)]
    return names


def _spec(
    made: type[_CallSpec],
    request: line.Request,
    fn: Callable[..., Any],
    code: str,
    names_in: tuple[str, ...],
    name_out: str,
) -> _CallSpec:
    """Return the spec for calls to `fn`, without their variables."""
    # Pass the function's name as the notebook's name, because `line.spec` makes a valid job name
    # from it.
    name = _name_of(fn)
    spec = line.spec(made, request, code, job_id=new_id(), notebook=name)
    return msgspec.structs.replace(
        line.with_local_context(spec), notebook=None, names_in=names_in, names_out=(name_out,)
    )


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


@contextmanager
def _naming_function(fn: Callable[..., Any]) -> Iterator[None]:
    """Raise pickling errors as errors of a call to `fn`."""
    try:
        yield
    except VariableError as exc:
        raise VariableError(
            f"The call of {_name_of(fn)} cannot be sent.",
            hint="Pass paths, arrays or dicts. The function can open files and connections itself.",
            detail=exc.message,
        ) from exc


@cache
def _calls_of_others() -> _Calls:
    return _Calls(None, None, daemon=True)


def _words(options: Mapping[str, Option]) -> list[str]:
    """Return options given in Python as the arguments of a `%%slurm` line.

    >>> _words({"gpus": 1, "hold": True, "env": {"A": "b c"}, "modules": ["x", "y"], "mem": None})
    ['--gpus', '1', '--hold', '--env', 'A=b c', '--module', 'x', '--module', 'y']
    """
    found: list[tuple[str, str | None]] = []
    for given, value in options.items():
        name = _PLURAL.get(given, given).replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            values: list[str | None] = [None]
        elif isinstance(value, Mapping):
            values = [f"{key}={one}" for key, one in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            values = [str(one) for one in value]
            if name not in CELL.options:  # sbatch takes one list
                values = [",".join(str(one) for one in value)]
        else:
            values = [str(value)]
        found += [(name, one) for one in values]
    return as_words(found)


def _session_spec(words: Sequence[str]) -> SessionSpec:
    """Return the spec of a session with these options. Raise RequestError if an option is
    invalid."""
    args = read_arguments(SESSION_START, words)
    _, spec = job_spec(SessionSpec, args, job_id=new_id())
    return msgspec.structs.replace(line.with_local_context(spec), for_executor=True)


class _Waiting(NamedTuple):
    future: Future[Any]
    spec: CellSpec


class _Calls:
    """The calls of an executor that have not ended.

    They do not refer to the executor, so Python can collect the executor while calls run.
    """

    def __init__(self, cluster: str | None, limit: int | None, *, daemon: bool = False) -> None:
        """`limit`: the maximum number of jobs at once; `daemon`: Python does not wait for the calls
        when it exits."""
        self._cluster = cluster
        self._limit = limit
        self._daemon = daemon
        self._lock = threading.RLock()  # garbage collection may call `close` while it is held
        self._waiting: dict[str, _Waiting] = {}
        """Calls that wait for a worker, by the IDs that their jobs will have."""
        self._sent: dict[str, Future[Any]] = {}
        self._unread: dict[str, Job] = {}
        """Ended jobs whose results could not be read yet."""
        self._read: list[str] = []
        """Jobs whose results were read but not yet acknowledged to the agent."""
        self._closed = False
        self._thread: threading.Thread | None = None
        self._cursor = ""
        atexit.register(self._leave)

    @cached_property
    def api(self) -> Api:
        return connect(self._cluster).api

    # --- the executor's side ---

    def check_open(self) -> None:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def add(self, future: Future[Any], spec: CellSpec) -> None:
        """Submit the call now if it need not wait for a worker."""
        with self._lock:
            try:
                self.check_open()
            except RuntimeError:
                drop_inputs(spec)
                raise
            placed = None if self._waiting else self._placed(spec)
            if placed is None:
                self._waiting[spec.id] = _Waiting(future, spec)
            else:  # store it first, because the watching thread may see the job at once
                self._sent[spec.id] = future
        try:
            if placed is None or not self._submitted(future, placed):
                self._prepare()
        except BaseException as exc:
            self._drop([spec.id])
            if not isinstance(exc, AgentError):  # the agent may have received the inputs
                drop_inputs(spec)
            raise
        finally:
            self._watch()

    def find(self, job_id: str) -> Future[Any]:
        """Return the future of a call that any executor has submitted."""
        job = self.api.job(job_id)
        if OUTCOME not in job.names_out:
            raise RequestError(f"Job {job.id} is not a call by an Executor.")
        with self._lock:
            future = self._sent.setdefault(job.id, Future(self, job.id))
        self._observe(self.api.job(job.id))  # the job may have changed before it was in `_sent`
        self._acknowledge()
        self._watch()
        return future

    def withdraw(self, futures: Collection[Future[Any]]) -> None:
        """Cancel the jobs of cancelled calls."""
        ids = self._drop([future.id for future in futures])
        with suppress(NotFoundError):  # not submitted yet: the agent will drop it
            if len(ids) == 1:
                self.api.cancel(ids[0])
            elif ids:
                self.api.control_jobs("cancel", ids, cluster=self._cluster)

    def cancel_pending(self) -> None:
        with self._lock:
            futures = [*self._sent.values(), *(one.future for one in self._waiting.values())]
        self.withdraw([future for future in futures if future._give_up()])

    def close(self) -> None:
        """Reject further calls."""
        with self._lock:
            self._closed = True
        atexit.unregister(self._leave)
        self._watch()

    def _leave(self) -> None:
        """Close when Python ends. The watching thread has ended, and a new thread cannot start."""
        self._closed = True
        self._end_workers()

    def join(self) -> None:
        """Wait for the end of all calls."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _drop(self, ids: Collection[str]) -> list[str]:
        """Forget these calls; return the IDs of those that were sent."""
        with self._lock:
            waiting = [self._waiting.pop(one) for one in ids if one in self._waiting]
            sent = [one for one in ids if self._sent.pop(one, None) is not None]
            for job_id in sent:
                self._left(job_id)
        for one in waiting:
            drop_inputs(one.spec)
        return sent

    # --- workers: each job is a worker ---

    def _placed(self, spec: CellSpec) -> CellSpec | None:
        """Return the spec to submit now; None if all workers are busy."""
        is_free = self._limit is None or len(self._sent) < self._limit
        return spec if is_free else None

    def _prepare(self) -> None:
        """Start a worker for the waiting calls if the limit allows another."""

    def _left(self, job_id: str) -> None:
        """Record that the call has left its worker."""

    def _waits_for_starts(self) -> bool:
        """Return whether to watch for starts of jobs. Watching only for ends of jobs costs less."""
        return True

    def _results_now(self) -> tuple[str, ...]:
        """Return the IDs of calls whose results the agent sends together with the final state."""
        return ()

    def _has_workers(self) -> bool:
        """Return whether any workers still have to end."""
        return False

    def _end_workers(self) -> None: ...

    # --- the watching thread ---

    def _watch(self) -> None:
        """Start the thread if calls need watching or workers have to end."""
        with self._lock:
            if self._thread is None and (self._is_busy() or self._is_to_end()):
                self._thread = threading.Thread(
                    target=self._run, name="jupyter-slurm executor", daemon=self._daemon
                )
                self._thread.start()

    def _is_busy(self) -> bool:
        return bool(self._sent or self._waiting)

    def _is_to_end(self) -> bool:
        return self._closed and self._has_workers()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as exc:  # otherwise futures would wait forever
            self._thread = None
            self._fail_all(exc)
            raise

    def _step(self) -> bool:
        """Wait for changes and process them. Return False if nothing is left to watch."""
        self._send_waiting()
        if len(self._read) >= _MOST_READ:
            self._acknowledge()
        if self._is_busy():
            self._hear()
            return True
        self._acknowledge()
        with self._lock:
            is_busy = self._is_busy()
            if not (is_busy or self._is_to_end()):
                self._thread = None
                return False
        if not is_busy:
            self._end_workers()
        return True

    def _hear(self) -> None:
        """Wait for changes and process them."""
        try:
            ended = not self._waits_for_starts()
            changes = self.api.changes(
                self._cursor, wait_s=_WAIT_S, ended=ended, results=self._results_now()
            )
        except AgentError as exc:
            self._fail_all(exc)
            return
        self._cursor = changes.cursor
        results = {one.job.id: one for one in changes.results}
        for job in changes.jobs:
            self._observe(job, results.get(job.id))
        for job_id in changes.gone:
            self._fail([job_id], NotFoundError(f"Job {job_id} was forgotten."))
        for job in [*self._unread.values()]:
            self._observe(job)

    def _send_waiting(self) -> None:
        while (call := self._next()) is not None:
            try:
                self._submitted(*call)
            except Exception as exc:  # noqa: BLE001 - the error belongs to the call
                self._fail([call.spec.id], exc)
                drop_inputs(call.spec)
        try:
            self._prepare()
        except Exception as exc:  # noqa: BLE001 - the error belongs to the calls
            self._fail([*self._waiting], exc)

    def _next(self) -> _Waiting | None:
        """Take the next call that can be submitted now."""
        with self._lock:
            for job_id, call in self._waiting.items():
                placed = self._placed(call.spec)
                if placed is None:
                    return None
                del self._waiting[job_id]
                self._sent[job_id] = call.future
                return _Waiting(call.future, placed)
        return None

    def _submitted(self, future: Future[Any], spec: CellSpec) -> bool:
        """Submit a call. Return False if its worker has ended. The call then waits for another
        worker."""
        self._submit(spec)
        return True

    def _submit(self, spec: JobSpec) -> Result:
        """Submit a job. If the agent fails, add a note with the job's ID to the error."""
        try:
            return _submitted(self.api, spec)
        except AgentError as exc:
            exc.add_note(f"The job may have been submitted: `js.future({spec.id!r})`.")
            raise
        except KeyboardInterrupt:
            self._cancel(spec.id)
            raise

    def _cancel(self, job_id: str) -> None:
        """Cancel a job. If the job does not exist yet, the agent drops its submission."""
        with suppress(JupyterSlurmError):
            self.api.cancel(job_id)

    def _observe(self, job: Job, result: Result | None = None) -> None:
        future = self._sent.get(job.id)
        if future is None:
            return
        if job.state.final:
            if self._finish(job, future, result):
                self._read.append(job.id)
        elif job.started_s is not None:
            future._begin()

    def _finish(self, job: Job, future: Future[Any], result: Result | None) -> bool:
        """Complete the future of an ended job. Return False if the job has no result or the agent
        cannot read it yet."""
        self._unread.pop(job.id, None)
        never_ran = job.state is JobState.CANCELLED and job.started_s is None
        if never_ran and future._give_up():
            self._drop([job.id])
            return False
        value, error = None, None
        try:
            value, error = _outcome(result or self.api.result(job.id))
        except JupyterSlurmError as exc:
            if exc.transient:  # retry after the next change
                self._unread[job.id] = job
                return False
            error = exc
        except Exception as exc:  # noqa: BLE001 - the error belongs to the call
            error = exc
        if self._drop([job.id]):
            future._end(value, error)
        return True

    def _acknowledge(self) -> None:
        """Acknowledge the read results to the agent. At this point, no stack frame refers to the
        futures of these results."""
        with self._lock:
            ids = (*self._read,)
            self._read.clear()
        if ids:
            with suppress(JupyterSlurmError):
                self.api.delivered(ids[0], ids[1:])

    def _fail(self, ids: Collection[str], error: BaseException) -> None:
        with self._lock:
            waiting = [self._waiting[one].future for one in ids if one in self._waiting]
            futures = [*waiting, *(self._sent[one] for one in ids if one in self._sent)]
        self._drop(ids)
        for future in futures:
            future._end(None, error)

    def _fail_all(self, error: BaseException) -> None:
        self._fail([*self._waiting, *self._sent], error)


@dataclass
class _Session:
    runs: bool = False
    call: str | None = None
    """The ID of the call that the session is running."""
    has_served: bool = False


class _CallsInSessions(_Calls):
    """Calls whose workers are sessions, each with one call at a time."""

    def __init__(
        self, cluster: str | None, limit: int, session_spec: Callable[[], SessionSpec]
    ) -> None:
        super().__init__(cluster, None)
        self._most = limit
        """Maximum number of sessions. It decreases when Slurm refuses a session."""
        self._session_spec = session_spec
        self._sessions: dict[str, _Session] = {}
        self._sending: set[str] = set()
        """IDs of calls that are being submitted. The submission may return the result at once."""

    def _placed(self, spec: CellSpec) -> CellSpec | None:
        for session_id, session in self._sessions.items():
            if session.runs and session.call is None:
                session.call = spec.id
                return msgspec.structs.replace(spec, session=session_id)
        return None

    def _prepare(self) -> None:
        with self._lock:
            starting = sum(not session.runs for session in self._sessions.values())
            if len(self._sessions) >= self._most or len(self._waiting) <= starting:
                return
            spec = self._session_spec()
            self._sessions[spec.id] = _Session()
        try:
            self._submit(spec)
        except BaseException as exc:
            with self._lock:
                del self._sessions[spec.id]
                self._most = len(self._sessions) or 1
            if not (self._sessions and isinstance(exc, JupyterSlurmError)):
                raise

    def _submitted(self, future: Future[Any], spec: CellSpec) -> bool:
        if not future._begin():
            self._drop([spec.id])
            drop_inputs(spec)
            return True
        self._sending.add(spec.id)
        try:
            result = self._submit(spec)
        except (NotFoundError, SubmitError):
            if not self._has_ended(spec.session or ""):
                raise
            with self._lock:  # the session was idle for too long
                self._sessions.pop(spec.session or "", None)
                if self._sent.pop(spec.id, None) is not None:
                    self._waiting = {spec.id: _Waiting(future, spec), **self._waiting}
            return False
        finally:
            self._sending.discard(spec.id)
        if result.status != "none":  # the result arrived, and does not need an acknowledgement
            self._finish(result.job, future, result)
        return True

    def _has_ended(self, session_id: str) -> bool:
        try:
            return self.api.job(session_id).state.final
        except NotFoundError:
            return True

    def _observe(self, job: Job, result: Result | None = None) -> None:
        session = self._sessions.get(job.id)
        if session is None:
            super()._observe(job, result)
        elif job.state.final:
            self._lose(job, session)
        elif job.state is JobState.RUNNING:
            session.runs = True

    def _lose(self, job: Job, session: _Session) -> None:
        """Record a session's end. Do not replace a session that failed before its first call."""
        with self._lock:
            self._sessions.pop(job.id, None)
            has_failed = not (session.has_served or job.state is JobState.COMPLETED)
            if has_failed:
                self._most = len(self._sessions) or 1
            lost = [*self._waiting] if has_failed and not self._sessions else []
        self._fail(lost, ended(job, f"Session {job.id}", "no exit record found."))

    def _left(self, job_id: str) -> None:
        for session in self._sessions.values():
            if session.call == job_id:
                session.call, session.has_served = None, True

    def _waits_for_starts(self) -> bool:
        return not all(session.runs for session in [*self._sessions.values()])

    def _results_now(self) -> tuple[str, ...]:
        return (*self._sent,)

    def _is_busy(self) -> bool:
        """Return whether calls wait or need watching. A call that is being submitted needs watching
        only after `close`."""
        watched = {*self._sent} if self._closed else {*self._sent} - self._sending
        return bool(self._waiting or watched)

    def _has_workers(self) -> bool:
        return bool(self._sessions)

    def _end_workers(self) -> None:
        with self._lock:
            ids, self._sessions = [*self._sessions], {}
        for session_id in ids:  # an unreachable session ends when it is idle
            self._cancel(session_id)


def _outcome(result: Result) -> tuple[Any, BaseException | None]:
    """Return the value of the call and None, or None and the error of the call."""
    job = result.job
    unread = dict(result.failed)
    found = read_result_variables(result, unread)
    failed = failure(result)
    if failed is None:
        if OUTCOME in found:
            return found[OUTCOME], None
        return None, VariableError(
            f"The call {job.name} ({job.id}) succeeded, but its value was not fetched.",
            detail=unread.get(OUTCOME),
        )
    error = found.get(OUTCOME)
    is_its_own = result.status == "error" and job.state in (JobState.COMPLETED, JobState.FAILED)
    if not (is_its_own and isinstance(error, BaseException)):
        return None, failed
    text = text_of([ErrorOutput(ename="", evalue="", traceback=tuple(result.traceback))])
    error.__cause__ = _RemoteTraceback(text)
    return None, error
