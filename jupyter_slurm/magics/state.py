"""The state of a kernel's magics between cells (the agent, the cluster, live cards), and the calls
of cells to the agent."""

from __future__ import annotations

import contextvars
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import cached_property
from queue import SimpleQueue
from typing import Protocol, TypeVar, cast

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from jupyter_slurm.api import Api
from jupyter_slurm.client import InteractiveClient, lab_page
from jupyter_slurm.client.login import LoginDeclined
from jupyter_slurm.commands.line import (
    Request,
    Reuse,
    after,
    parse,
    parse_with_arguments,
)
from jupyter_slurm.commands.parsing import before_dashes, job_options, split, words_of
from jupyter_slurm.commands.sessions import Owner
from jupyter_slurm.errors import AgentError, JupyterSlurmError, LoginNeededError, RequestError
from jupyter_slurm.magics.follow import Detached, LiveCard, LiveCards, ways
from jupyter_slurm.magics.frontend import connection_file, in_place, notebook, page, prompter, warn
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.slurm.options import left_of, sbatch_args
from jupyter_slurm.wire import Connection, Job, JobSpec, Show

_R = TypeVar("_R")
_LATE_S = 0.05
_TERMINAL_LIMIT_BYTES = 1 << 30
"""The output limit in a terminal. It is high, because a terminal does not save output in a
notebook."""


class CallThread:
    """A thread that makes blocking calls, one by one, for the waiting cell. So an interrupt arrives
    at once and does not disturb the client. `cell.py` handles the interrupt.

    The thread returns a call's value or raises its error. If a call needs a login on `cluster`,
    `person` logs in from the cell's own thread, and the call is repeated. KeyboardInterrupt in the
    waiting cell abandons the call, which continues to its end in the thread.
    """

    def __init__(self, person: InteractiveClient, cluster: str | None) -> None:
        self._person = person
        self._cluster = cluster
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._work,), name="jupyter-slurm call", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> CallThread:
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread after its current call, without waiting."""
        self._calls.put(None)

    def __call__(self, call: Callable[[], _R], late: Callable[[], None] | None = None) -> _R:
        """Make the call and return its value. Call `late` if the value does not arrive soon."""
        return self._person.repeating(lambda: self._value(call, late), lambda: self._cluster)

    def _value(self, call: Callable[[], _R], late: Callable[[], None] | None) -> _R:
        future = self.post(call)
        if late is not None and not wait([future], _LATE_S).done:
            late()
        return future.result()

    def post(self, call: Callable[[], _R]) -> Future[_R]:
        """Make the call in the thread and return its future, without waiting."""
        future: Future[_R] = Future()

        def work() -> None:
            try:
                future.set_result(call())
            except BaseException as exc:  # noqa: BLE001 - raised in the waiting thread
                future.set_exception(exc)

        self._calls.put(work)
        return future

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


class Settings(Protocol):
    """The settings of `%config SlurmMagics`, which `extension.py` defines."""

    default_cluster: str
    default_options: str
    detach: bool
    out_format: str
    show: Show
    on_interrupt: str
    output_limit_bytes: int


class MagicsState:
    """The state of a kernel's magics, and the caller of their commands. It connects to the agent on
    first use."""

    def __init__(self, shell: InteractiveShell, settings: Settings) -> None:
        self.shell = shell
        self.settings = settings
        self.used_cluster: str | None = None
        """The cluster chosen with `%slurm use`."""
        self.used_options: tuple[str, ...] = ()
        self.used_session: Job | None = None
        """The session of `%%slurm --session`, once known."""
        self.started_sessions: set[str] = set()
        """The IDs of sessions started by this kernel."""
        self.unnamed = f"kernel {secrets.token_hex(8)}"
        """The ID of an unknown notebook. Two notebooks that run the same cell, as in a parameter
        sweep, must not share a job."""
        self.sent: dict[str, str | None] = {}
        """The jobs whose outcome this kernel has sent, each with the page that acknowledges it;
        None for a client that does not acknowledge."""
        self.told_unnamed = False
        """True once the hint for unsaved notebooks was shown."""
        self.live = LiveCards(lambda: self.agent)

    @cached_property
    def agent(self) -> Api:
        """Return the agent for background work, whose calls may raise LoginNeededError."""
        from jupyter_slurm.client import connect  # noqa: PLC0415

        return connect()

    @cached_property
    def person(self) -> InteractiveClient:
        """Return the client that can ask the user for a login while a cell runs."""
        return InteractiveClient(self.agent, prompter())

    @property
    def api(self) -> Api:
        """Return the agent for a cell. A call that needs a login asks the user and continues."""
        return cast("Api", self.person)

    @property
    def cluster(self) -> str | None:
        """Return the default cluster; None for the default of the profiles."""
        named = os.environ.get("JUPYTER_SLURM_CLUSTER")  # the agent's environment may differ
        return self.used_cluster or self.settings.default_cluster or named or None

    @property
    def namespace(self) -> dict[str, object]:
        namespace: dict[str, object] = self.shell.user_ns
        return namespace

    @property
    def notebook(self) -> str | None:
        """Return the notebook's current path; None if unknown."""
        # Ask for a program first, because nbconvert inherits the environment of the notebook that
        # runs it.
        path = self._run_by_program or notebook(self.namespace) or self._on_a_server
        return path and self.agent.notebook_path(path, self._started_s)

    @property
    def process(self) -> str:
        """Return this kernel's ID for `JobSpec.kernel`."""
        return f"{os.getpid()} {self._started_s}"

    @cached_property
    def _started_s(self) -> float:
        """Return the start time of this process. The notebook's path in its environment dates from
        then."""
        import psutil  # noqa: PLC0415 - loaded for notebooks only

        return psutil.Process().create_time()

    @cached_property
    def _run_by_program(self) -> str | None:
        from jupyter_slurm.magics.notebook_name import of_program  # noqa: PLC0415

        return of_program()

    @cached_property
    def _on_a_server(self) -> str | None:
        from jupyter_slurm.magics.notebook_name import of_servers  # noqa: PLC0415

        return of_servers(connection_file())

    @property
    def owner(self) -> Owner:
        """Return the owner of this notebook's sessions. An unknown notebook does not share
        sessions."""
        return Owner(self.notebook or self.unnamed, frozenset(self.started_sessions))

    @property
    def output_limit_bytes(self) -> int:
        return self.settings.output_limit_bytes if in_place() else _TERMINAL_LIMIT_BYTES

    def words(self, line: str) -> list[str]:
        """Split a magic's line into words, with each `{name}` replaced by its value."""
        return words_of(line, self.namespace)

    def request(self, line: str) -> Request:
        """Return the line's request, with the defaults of `%slurm use` and the settings."""
        words = self._with_out_format(self.words(line))
        in_session = any(name == "session" for name, _ in job_options(before_dashes(words)[0]))
        # A session's cell uses the session's options, not the defaults.
        return parse_with_arguments(words if in_session else self.with_defaults(words))

    def _with_out_format(self, words: list[str]) -> list[str]:
        """Return the words, preceded by the settings' `--out-format`, which also applies in a
        session."""
        chosen = self.settings.out_format
        return ["--out-format", chosen, *words] if chosen else words

    def with_defaults(self, words: Sequence[str]) -> list[str]:
        return [*self._to_cluster(), *after(self._defaults(), words)]

    def script_request(self, line: str, script: str) -> Request:
        """Return the request of a batch script, with sbatch's options only. The script's `#SBATCH`
        lines override the notebook's defaults."""
        defaults = left_of(parse(self._defaults()).options, read_directives(script))
        return parse_with_arguments(
            [*self._to_cluster(), *after(sbatch_args(defaults), self.words(line))]
        )

    def _to_cluster(self) -> tuple[str, ...]:
        return ("--cluster", self.cluster) if self.cluster else ()

    def _defaults(self) -> tuple[str, ...]:
        return self.used_options or tuple(split(self.settings.default_options))

    def use(self, cluster: str | None, options: Sequence[str]) -> None:
        if cluster != self.used_cluster:
            self.used_session = None
        self.used_cluster, self.used_options = cluster, tuple(options)

    def is_shown(self, job: Job) -> bool:
        """Return whether the outcome is in the notebook. A page that runs another cell still
        exists. So it received all earlier output, even without an acknowledgement."""
        return job.delivered or (job.id in self.sent and self.sent[job.id] in (None, page()))

    # --- the caller of commands ---

    @property
    def is_saved(self) -> bool:
        return in_place()

    def call(self, call: Callable[[], _R], cluster: str | None) -> _R:
        with CallThread(self.person, cluster) as worker:
            return worker(call)

    def submit(self, spec: JobSpec, request: Request) -> Job:
        """Submit a job. Warn if it may have been submitted although the call failed."""
        with CallThread(self.person, spec.cluster) as worker:
            try:
                return worker(lambda: self.api.submit(spec))
            except AgentError:  # the agent did not answer, or answered too late
                again = (
                    "" if request.reuse is Reuse.FRESH else " Run this cell again to attach to it."
                )
                warn(
                    f"Job {spec.id} may have been submitted. Check with `%slurm jobs`, stop it "
                    f"with `%slurm cancel {spec.id}`.{again}"
                )
                raise
            except LoginNeededError:
                warn("The job was not submitted. Run the cell again after the login.")
                raise
            except JupyterSlurmError as exc:
                if exc.transient:
                    warn("The job was not submitted. Run the cell again.")
                raise
            except LoginDeclined:
                raise
            except KeyboardInterrupt:
                if (request.on_interrupt or self.settings.on_interrupt) == "cancel":
                    worker.post(lambda: self.api.cancel(spec.id))
                    told = f"job {spec.id} will be cancelled once Slurm has it"
                else:
                    told = f"job {spec.id} is still being submitted; {ways(spec.id)}"
                raise Detached(told) from None

    def log_in(self, cluster: str | None) -> Connection:
        return self.person.log_in(cluster)

    def confirm(self, consequence: str, question: str) -> bool:
        raise RequestError(consequence, hint="Use --yes to do it anyway.")

    def remove_pages(self, jobs: Sequence[Job]) -> None:
        lab_page.remove_old(jobs)

    def warn(self, text: str) -> None:
        warn(text)

    def show_card(self, job: Job) -> LiveCard:
        """Show a live card and return it."""
        # The new card also updates the job's earlier cards.
        card = LiveCard(job, is_complete=job.state.final and self.is_shown(job))
        card.show()
        if not card.settled:
            self.live.add(card)
        return card


def current() -> MagicsState:
    """Return the state of the running shell. Raise RequestError if this is not IPython or the
    extension is not loaded."""
    shell = get_ipython()
    magics = shell.magics_manager.registry.get("SlurmMagics") if shell is not None else None
    state = getattr(magics, "state", None)
    if not isinstance(state, MagicsState):
        raise RequestError(
            "The jupyter-slurm extension is not loaded.", hint="%load_ext jupyter_slurm"
        )
    return state
