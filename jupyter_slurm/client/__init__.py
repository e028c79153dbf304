"""`connect()`: the Api, spoken to the agent of this user; the agent is started where none runs.

Light to import and without threads, for it lives in kernels. What goes over the wire is
`agent.protocol`'s matter, how it gets there `agent.link`'s.
"""

from __future__ import annotations

import functools
import inspect
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import msgspec

from jupyter_slurm.agent.place import socket_path, told_path
from jupyter_slurm.agent.protocol import TERMINAL, calls, error_of
from jupyter_slurm.api import Api
from jupyter_slurm.errors import AgentError
from jupyter_slurm.wire import TerminalRequest

if TYPE_CHECKING:
    from jupyter_slurm.agent.by_server import ServerLink

_P = ParamSpec("_P")
_R = TypeVar("_R")

_ANSWER_S = 60.0
_SLOW_ANSWER_S = 240.0
"""How long an answer may take beyond the wait that was asked for. Calls that move files, open a way
there, or may ask the cluster several things, get the longer time."""
_SLOW = frozenset(
    "submit preview details doctor describe cluster_info command requeue forget connect answer "
    "disconnect forward close_tunnel push pull fetch images make_image remove_image "
    "registry_login".split()
)


def connect() -> AgentClient:
    """Return the Api of this user's agent, which has answered already.

    AgentError: it cannot be started (with its own words), or does not fit this version.
    """
    return _by_server() or connect_here()


def _by_server() -> AgentClient | None:
    """Return a client by way of this kernel's own Jupyter server, where that told of an agent that
    cannot be used from here; else None."""
    told = told_path()
    if told is None or (hasattr(socket, "AF_UNIX") and told == socket_path()):
        return None
    from jupyter_slurm.agent.by_server import ServerLink, own_server  # noqa: PLC0415

    server = own_server()
    if server is None:
        return None
    client = AgentClient(told, None, ServerLink(server))
    client.check()
    return client


def connect_here() -> AgentClient:
    """Return the same, and always by the agent's own socket."""
    _check_platform()
    from jupyter_slurm.agent.launch import COMMAND  # noqa: PLC0415 - not on Windows

    client = AgentClient(socket_path(), COMMAND)
    client.check()
    return client


def find() -> AgentClient | None:
    """Return the same where an agent runs, else None; start no agent, now or later."""
    _check_platform()
    client = AgentClient(socket_path(), None)
    return client if client.reaches() else None


def _asked(
    method: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate[AgentClient, _P], _R]:
    """Make the client's side of one of Api's methods."""

    @functools.wraps(method)
    def ask(client: AgentClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        named = inspect.signature(method).bind(client, *args, **kwargs).arguments
        del named["self"]
        answer: _R = client.ask(method.__name__, named)
        return answer

    return ask


class AgentClient:
    """Speaks Api to the agent at `path`; `command` starts one there, None: none is started.

    May be used by many threads at once, and on both sides of a fork. An interrupted call leaves it
    usable. Every call raises AgentError when no agent can be reached or started, or when it does
    not answer in time.
    """

    def __init__(
        self, path: Path, command: Sequence[str] | None, link: ServerLink | None = None
    ) -> None:
        """Prepare a client; `link`: another way there than the socket."""
        from jupyter_slurm.agent.link import Link  # noqa: PLC0415 - loads http.client

        self._link: Link | ServerLink = link or Link(path, command)

    def check(self) -> None:
        """Return once an agent answers."""
        self._link.check()

    def reaches(self) -> bool:
        """Tell whether an agent answers now. AgentError: it does not fit this version."""
        return self._link.reaches()

    def close(self) -> None:
        """Close the idle connections; the client can be used on."""
        self._link.close()

    def relay(self, name: str, body: bytes, wait_s: float = 0.0) -> tuple[int, bytes]:
        """Return the status and the body of the agent's answer to the call `name`, both bodies
        unread; `wait_s` is what the body says of it."""
        timeout_s = _SLOW_ANSWER_S if name in _SLOW else _ANSWER_S
        return self._link.ask(name, body, timeout_s + wait_s)

    def ask(self, name: str, named: Mapping[str, Any]) -> Any:
        """Return what the agent's method `name` does, or raise what it raises."""
        call = calls()[name]
        wait_s = float(named.get("wait_s", 0.0))
        return call.unpack_answer(*self.relay(name, call.pack(named), wait_s))

    # --- clusters ---
    clusters = _asked(Api.clusters)
    cluster_info = _asked(Api.cluster_info)
    doctor = _asked(Api.doctor)
    describe = _asked(Api.describe)

    # --- connections ---
    connect = _asked(Api.connect)
    answer = _asked(Api.answer)
    disconnect = _asked(Api.disconnect)
    connections = _asked(Api.connections)

    # --- tunnels ---
    forward = _asked(Api.forward)
    tunnels = _asked(Api.tunnels)
    close_tunnel = _asked(Api.close_tunnel)

    # --- files ---
    push = _asked(Api.push)
    pull = _asked(Api.pull)
    fetch = _asked(Api.fetch)
    transfer = _asked(Api.transfer)
    stop_transfer = _asked(Api.stop_transfer)
    list_folder = _asked(Api.list_folder)
    file_entry = _asked(Api.file_entry)
    read_file = _asked(Api.read_file)
    write_file = _asked(Api.write_file)
    make_folder = _asked(Api.make_folder)
    rename_file = _asked(Api.rename_file)
    remove_file = _asked(Api.remove_file)

    # --- jobs ---
    submit = _asked(Api.submit)
    preview = _asked(Api.preview)
    attachable = _asked(Api.attachable)
    job = _asked(Api.job)
    jobs = _asked(Api.jobs)
    adopt = _asked(Api.adopt)
    details = _asked(Api.details)
    changes = _asked(Api.changes)
    usage = _asked(Api.usage)
    logs = _asked(Api.logs)
    result = _asked(Api.result)
    delivered = _asked(Api.delivered)
    cancel = _asked(Api.cancel)
    hold = _asked(Api.hold)
    release = _asked(Api.release)
    cancel_many = _asked(Api.cancel_many)
    requeue = _asked(Api.requeue)
    extend = _asked(Api.extend)
    why = _asked(Api.why)
    forget = _asked(Api.forget)

    # --- images ---
    images = _asked(Api.images)
    make_image = _asked(Api.make_image)
    remove_image = _asked(Api.remove_image)
    registry_login = _asked(Api.registry_login)

    # --- labs ---
    lab_entry = _asked(Api.lab_entry)

    # --- terminals ---
    def terminal(self, request: TerminalRequest) -> socket.socket:
        """Open a terminal; see `api.Terminals`."""
        answer = self._link.stream(TERMINAL, msgspec.json.encode(request), _SLOW_ANSWER_S)
        if isinstance(answer, socket.socket):
            return answer
        raise error_of(TERMINAL, *answer)

    # --- the queue ---
    queue = _asked(Api.queue)
    queue_changes = _asked(Api.queue_changes)
    node_changes = _asked(Api.node_changes)
    history = _asked(Api.history)
    command = _asked(Api.command)

    # --- the agent ---
    status = _asked(Api.status)


def _check_platform() -> None:
    if not hasattr(socket, "AF_UNIX"):
        raise AgentError(
            "jupyter-slurm needs Unix sockets, which this Python does not offer.",
            hint="On Windows, run Jupyter in WSL.",
        )
