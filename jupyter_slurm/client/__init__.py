"""The client of this user's agent. `connect()` returns its Api, and starts the agent if needed.

The module is fast to import and does not start threads, since kernels load it. `agent.protocol`
encodes the calls, and `agent.link` transports them. If a call needs a login, `InteractiveClient`
logs in through the dialogue in `login.py`.
"""

from __future__ import annotations

import functools
import inspect
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec

from jupyter_slurm.agent.place import announced_path, socket_path
from jupyter_slurm.agent.protocol import KERNEL, KernelRequest, calls, error_of
from jupyter_slurm.api import Api
from jupyter_slurm.errors import AgentError, LoginNeededError
from jupyter_slurm.formatting import visible
from jupyter_slurm.wire import Connection

if TYPE_CHECKING:
    from jupyter_slurm.agent.via_jupyter_server import ServerLink
    from jupyter_slurm.client.login import Prompter

_P = ParamSpec("_P")
_R = TypeVar("_R")

_ANSWER_S = 60.0
_SLOW_ANSWER_S = 240.0
"""Seconds that an answer may take beyond `wait_s`. Calls that move files, connect or run several
commands on the cluster get the longer time."""
_SLOW = frozenset(
    "submit submit_call control_jobs sweep retry result preview details doctor describe "
    "cluster_info command requeue forget connect answer disconnect forward close_tunnel push "
    "pull fetch images make_image remove_image environments remove_environments "
    "dashboard_entry shell shell_in_job".split()
)


def connect() -> AgentClient:
    """Return the Api of this user's agent. Raise AgentError if the agent's version is incompatible,
    or if the agent cannot be started. The error then contains the agent's output."""
    return _via_jupyter_server() or connect_here()


def _via_jupyter_server() -> AgentClient | None:
    """Return a client through the kernel's Jupyter server, if that server announced an agent with a
    socket that this kernel cannot reach. Return None otherwise."""
    path = announced_path()
    if path is None or (hasattr(socket, "AF_UNIX") and path == socket_path()):
        return None
    from jupyter_slurm.agent.via_jupyter_server import ServerLink, own_server  # noqa: PLC0415

    server = own_server()
    if server is None:
        return None
    client = AgentClient(path, None, ServerLink(server))
    client.check()
    return client


def connect_here() -> AgentClient:
    """Return the Api over the agent's own socket."""
    _check_platform()
    from jupyter_slurm.agent.launch import COMMAND  # noqa: PLC0415 - not on Windows

    client = AgentClient(socket_path(), COMMAND)
    client.check()
    return client


def find() -> AgentClient | None:
    """Return the Api if an agent is running, otherwise None. Do not start an agent."""
    _check_platform()
    client = AgentClient(socket_path(), None)
    return client if client.reaches() else None


_signature = functools.cache(inspect.signature)


def _remote_call(
    method: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate[AgentClient, _P], _R]:
    """Return the client's implementation of a method of Api."""

    @functools.wraps(method)
    def ask(client: AgentClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        named = _signature(method).bind(client, *args, **kwargs).arguments
        del named["self"]
        answer: _R = client.ask(method.__name__, named)
        return answer

    return ask


class AgentClient:
    """The Api of the agent at `path`. `command` starts an agent. If `command` is None, the client
    never starts an agent.

    The client is thread-safe, and usable on both sides of a fork and after an interrupted call.
    Every call raises AgentError if the agent cannot be reached or started, or does not answer in
    time.
    """

    def __init__(
        self, path: Path, command: Sequence[str] | None, link: ServerLink | None = None
    ) -> None:
        """`link` replaces the link over the socket."""
        from jupyter_slurm.agent.link import Link  # noqa: PLC0415 - not on Windows

        self._link: Link | ServerLink = link or Link(path, command)

    def check(self) -> None:
        """Wait for an agent; start an agent if needed."""
        self._link.check()

    def reaches(self) -> bool:
        """Return whether an agent answers. Raise AgentError if its version is incompatible."""
        return self._link.reaches()

    def close(self) -> None:
        """Close idle connections; the client remains usable."""
        self._link.close()

    def relay(self, name: str, body: bytes, wait_s: float = 0.0) -> tuple[int, bytes]:
        """Send the encoded call `name` and return the encoded answer; `wait_s` is the same as in
        the body."""
        timeout_s = _SLOW_ANSWER_S if name in _SLOW else _ANSWER_S
        return self._link.ask(name, body, timeout_s + wait_s)

    def ask(self, name: str, named: Mapping[str, Any]) -> Any:
        """Return the result of the agent's method `name`, or raise its error."""
        call = calls()[name]
        wait_s = float(named.get("wait_s", 0.0))
        return call.unpack_answer(*self.relay(name, call.pack(named), wait_s))

    # --- clusters ---
    clusters = _remote_call(Api.clusters)
    cluster_info = _remote_call(Api.cluster_info)
    doctor = _remote_call(Api.doctor)
    describe = _remote_call(Api.describe)

    # --- connections ---
    connect = _remote_call(Api.connect)
    answer = _remote_call(Api.answer)
    disconnect = _remote_call(Api.disconnect)
    connections = _remote_call(Api.connections)

    # --- tunnels ---
    forward = _remote_call(Api.forward)
    tunnels = _remote_call(Api.tunnels)
    close_tunnel = _remote_call(Api.close_tunnel)

    # --- files ---
    push = _remote_call(Api.push)
    pull = _remote_call(Api.pull)
    fetch = _remote_call(Api.fetch)
    transfer = _remote_call(Api.transfer)
    stop_transfer = _remote_call(Api.stop_transfer)
    list_folder = _remote_call(Api.list_folder)
    file_entry = _remote_call(Api.file_entry)
    read_file = _remote_call(Api.read_file)
    write_file = _remote_call(Api.write_file)
    make_folder = _remote_call(Api.make_folder)
    rename_file = _remote_call(Api.rename_file)
    remove_file = _remote_call(Api.remove_file)

    # --- jobs ---
    submit = _remote_call(Api.submit)
    submit_call = _remote_call(Api.submit_call)
    preview = _remote_call(Api.preview)
    attachable = _remote_call(Api.attachable)
    notebook_moved = _remote_call(Api.notebook_moved)
    notebook_path = _remote_call(Api.notebook_path)
    job = _remote_call(Api.job)
    jobs = _remote_call(Api.jobs)
    details = _remote_call(Api.details)
    changes = _remote_call(Api.changes)
    usage = _remote_call(Api.usage)
    logs = _remote_call(Api.logs)
    result = _remote_call(Api.result)
    sweep = _remote_call(Api.sweep)
    retry = _remote_call(Api.retry)
    delivered = _remote_call(Api.delivered)
    cancel = _remote_call(Api.cancel)
    hold = _remote_call(Api.hold)
    release = _remote_call(Api.release)
    control_jobs = _remote_call(Api.control_jobs)
    requeue = _remote_call(Api.requeue)
    extend = _remote_call(Api.extend)
    why = _remote_call(Api.why)
    forget = _remote_call(Api.forget)

    # --- images ---
    images = _remote_call(Api.images)
    make_image = _remote_call(Api.make_image)
    remove_image = _remote_call(Api.remove_image)

    # --- environments ---
    environments = _remote_call(Api.environments)
    remove_environments = _remote_call(Api.remove_environments)

    # --- labs ---
    lab_entry = _remote_call(Api.lab_entry)
    dashboard_entry = _remote_call(Api.dashboard_entry)

    # --- kernels ---
    def kernel(self, job_id: str) -> socket.socket:
        """Open the stream of a kernel; see `api.KernelStreams`."""
        body = msgspec.json.encode(KernelRequest(job_id=job_id))
        answer = self._link.stream(KERNEL, body, _SLOW_ANSWER_S)
        if isinstance(answer, socket.socket):
            return answer
        raise error_of(KERNEL, *answer)

    # --- terminals ---
    shell = _remote_call(Api.shell)
    shell_in_job = _remote_call(Api.shell_in_job)

    # --- the queue ---
    queue = _remote_call(Api.queue)
    node_changes = _remote_call(Api.node_changes)
    priorities = _remote_call(Api.priorities)
    spending = _remote_call(Api.spending)
    history = _remote_call(Api.history)
    command = _remote_call(Api.command)

    # --- the agent ---
    status = _remote_call(Api.status)


class InteractiveClient:
    """An Api that logs in when a call needs a login, and repeats the call.

    It logs in only in the main thread, where the user waits. Other threads get the
    LoginNeededError.
    """

    def __init__(self, api: Api, prompter: Prompter) -> None:
        self._api = api
        self._prompter = prompter
        self._caller = secrets.token_hex(8)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)
        if name not in calls():
            return method

        @functools.wraps(method)
        def interactive_call(*args: Any, **kwargs: Any) -> Any:
            def cluster() -> str | None:
                named = inspect.signature(method).bind(*args, **kwargs).arguments
                return self._cluster_of(named)

            return self.repeating(lambda: method(*args, **kwargs), cluster)

        return interactive_call

    def repeating(self, act: Callable[[], _R], cluster: Callable[[], str | None]) -> _R:
        """Return the result of `act`. If `act` needs a login on `cluster`, log in and repeat
        `act`."""
        try:
            return act()
        except LoginNeededError as exc:
            in_front = threading.current_thread() is threading.main_thread()
            if not (in_front and self._prompter.there()):
                raise
            self._prompter.say(visible(exc.message))
        self.log_in(cluster())
        return act()

    def log_in(self, cluster: str | None) -> Connection:
        """Call `login.log_in`, always with the same caller."""
        from jupyter_slurm.client.login import log_in  # noqa: PLC0415 - few calls need a login

        return log_in(self._api, cluster, self._prompter, self._caller)

    def _cluster_of(self, named: dict[str, Any]) -> str | None:
        """Return the cluster of a call with these arguments; None for the default."""
        if named.get("job_id") is not None:
            return self._api.job(named["job_id"]).cluster
        if "spec" in named:
            return cast("str | None", named["spec"].cluster)
        return cast("str | None", named.get("cluster"))


def interactive(api: Api, prompter: Prompter) -> Api:
    """Return an Api that uses the prompter for logins."""
    return cast("Api", InteractiveClient(api, prompter))


def _check_platform() -> None:
    if not hasattr(socket, "AF_UNIX"):
        raise AgentError(
            "jupyter-slurm needs Unix sockets, which this Python does not offer.",
            hint="On Windows, run Jupyter in WSL.",
        )
