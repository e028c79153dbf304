"""`connect()`: the Api, spoken to the agent of this user; the agent is started where none runs.

Light to import and without threads, for it lives in kernels. What goes over the wire is
`agent.protocol`'s matter, how it gets there `agent.link`'s.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import msgspec

from jupyter_slurm.agent.place import socket_path, told_path
from jupyter_slurm.agent.protocol import TERMINAL, calls, error_of
from jupyter_slurm.api import Api
from jupyter_slurm.errors import AgentError
from jupyter_slurm.wire import (
    AgentStatus,
    Changes,
    Check,
    Cluster,
    ClusterInfo,
    CommandOutput,
    Connection,
    Description,
    Earlier,
    FileContent,
    FileEntry,
    FileListing,
    Image,
    ImageBuild,
    ImageSpec,
    Job,
    JobDetails,
    JobSpec,
    LabEntry,
    LogChunk,
    NodeChanges,
    Preview,
    QueueChanges,
    QueueEntry,
    Result,
    TerminalRequest,
    Transfer,
    Tunnel,
    UsageChanges,
)

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
    """The Api of this user's agent, which has answered already.

    AgentError: it cannot be started (with its own words), or does not fit this version.
    """
    return _by_server() or connect_here()


def _by_server() -> AgentClient | None:
    """By way of this kernel's own Jupyter server, where that told of an agent that cannot be used
    from here; else None."""
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
    """The same, and always by the agent's own socket."""
    _check_platform()
    from jupyter_slurm.agent.launch import COMMAND  # noqa: PLC0415 - not on Windows

    client = AgentClient(socket_path(), COMMAND)
    client.check()
    return client


def find() -> AgentClient | None:
    """The same where an agent runs, else None; it starts no agent, now or later."""
    _check_platform()
    client = AgentClient(socket_path(), None)
    return client if client.reaches() else None


class AgentClient:
    """Speaks Api to the agent at `path`; `command` starts one there, None: none is started.

    May be used by many threads at once, and on both sides of a fork. An interrupted call leaves it
    usable. Every call raises AgentError when no agent can be reached or started, or when it does
    not answer in time.
    """

    def __init__(
        self, path: Path, command: Sequence[str] | None, link: ServerLink | None = None
    ) -> None:
        """`link`: another way there than the socket."""
        from jupyter_slurm.agent.link import Link  # noqa: PLC0415 - loads http.client

        self._link: Link | ServerLink = link or Link(path, command)

    def check(self) -> None:
        """Returns once an agent answers."""
        self._link.check()

    def reaches(self) -> bool:
        """Whether an agent answers now. AgentError: one does that does not fit this version."""
        return self._link.reaches()

    def close(self) -> None:
        """Closes the idle connections; the client can be used on."""
        self._link.close()

    def relay(self, name: str, body: bytes, wait_s: float = 0.0) -> tuple[int, bytes]:
        """The status and the body of the agent's answer to the call `name`, both bodies unread;
        `wait_s` is what the body says of it."""
        timeout_s = _SLOW_ANSWER_S if name in _SLOW else _ANSWER_S
        return self._link.ask(name, body, timeout_s + wait_s)

    # --- clusters ---
    def clusters(self) -> list[Cluster]:
        return self._call(Api.clusters)

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        return self._call(Api.cluster_info, cluster)

    def doctor(self, cluster: str | None = None) -> list[Check]:
        return self._call(Api.doctor, cluster)

    def describe(self, cluster: str | None = None) -> Description:
        return self._call(Api.describe, cluster)

    # --- connections ---
    def connect(
        self, cluster: str | None = None, caller: str = "", wait_s: float = 0.0
    ) -> Connection:
        return self._call(Api.connect, cluster, caller, wait_s)

    def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
        return self._call(Api.answer, question_id, text, wait_s)

    def disconnect(self, cluster: str | None = None) -> Connection:
        return self._call(Api.disconnect, cluster)

    def connections(self) -> list[Connection]:
        return self._call(Api.connections)

    # --- tunnels ---
    def forward(
        self,
        host: str,
        port: int,
        cluster: str | None = None,
        job_id: str | None = None,
        local_port: int = 0,
    ) -> Tunnel:
        return self._call(Api.forward, host, port, cluster, job_id, local_port)

    def tunnels(self) -> list[Tunnel]:
        return self._call(Api.tunnels)

    def close_tunnel(self, tunnel_id: str) -> None:
        self._call(Api.close_tunnel, tunnel_id)

    # --- files ---
    def push(
        self,
        local: str,
        remote: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        return self._call(Api.push, local, remote, cluster, exclude)

    def pull(
        self,
        remote: str,
        local: str,
        cluster: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Transfer:
        return self._call(Api.pull, remote, local, cluster, exclude)

    def fetch(self, job_id: str) -> Transfer:
        return self._call(Api.fetch, job_id)

    def transfer(self, transfer_id: str, wait_s: float = 0.0) -> Transfer:
        return self._call(Api.transfer, transfer_id, wait_s)

    def stop_transfer(self, transfer_id: str) -> Transfer:
        return self._call(Api.stop_transfer, transfer_id)

    def list_folder(self, path: str, cluster: str | None = None) -> FileListing:
        return self._call(Api.list_folder, path, cluster)

    def file_entry(self, path: str, cluster: str | None = None) -> FileEntry:
        return self._call(Api.file_entry, path, cluster)

    def read_file(self, path: str, cluster: str | None = None) -> FileContent:
        return self._call(Api.read_file, path, cluster)

    def write_file(self, path: str, content: bytes, cluster: str | None = None) -> FileEntry:
        return self._call(Api.write_file, path, content, cluster)

    def make_folder(self, path: str, cluster: str | None = None) -> FileEntry:
        return self._call(Api.make_folder, path, cluster)

    def rename_file(self, path: str, to: str, cluster: str | None = None) -> FileEntry:
        return self._call(Api.rename_file, path, to, cluster)

    def remove_file(self, path: str, cluster: str | None = None) -> None:
        return self._call(Api.remove_file, path, cluster)

    # --- jobs ---
    def submit(self, spec: JobSpec) -> Job:
        return self._call(Api.submit, spec)

    def preview(self, spec: JobSpec, estimate: bool = False) -> Preview:
        return self._call(Api.preview, spec, estimate)

    def attachable(self, spec: JobSpec) -> Earlier | None:
        return self._call(Api.attachable, spec)

    def job(self, job_id: str) -> Job:
        return self._call(Api.job, job_id)

    def jobs(self, cluster: str | None = None) -> list[Job]:
        return self._call(Api.jobs, cluster)

    def adopt(self, slurm_id: str, cluster: str | None = None) -> Job:
        return self._call(Api.adopt, slurm_id, cluster)

    def details(self, job_id: str) -> JobDetails:
        return self._call(Api.details, job_id)

    def changes(self, cursor: str = "", wait_s: float = 0.0, caller: str = "") -> Changes:
        return self._call(Api.changes, cursor, wait_s, caller)

    def usage(self, job_id: str, cursor: str = "", wait_s: float = 0.0) -> UsageChanges:
        return self._call(Api.usage, job_id, cursor, wait_s)

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        return self._call(Api.logs, job_id, cursor, wait_s, budget_bytes, task)

    def result(self, job_id: str) -> Result:
        return self._call(Api.result, job_id)

    def delivered(self, job_id: str) -> Job:
        return self._call(Api.delivered, job_id)

    def cancel(self, job_id: str) -> Job:
        return self._call(Api.cancel, job_id)

    def hold(self, job_id: str) -> Job:
        return self._call(Api.hold, job_id)

    def release(self, job_id: str) -> Job:
        return self._call(Api.release, job_id)

    def cancel_many(
        self, job_ids: list[str], slurm_ids: list[str] | None = None, cluster: str | None = None
    ) -> None:
        self._call(Api.cancel_many, job_ids, slurm_ids, cluster)

    def requeue(self, job_id: str) -> Job:
        return self._call(Api.requeue, job_id)

    def extend(self, job_id: str, limit: str) -> Job:
        return self._call(Api.extend, job_id, limit)

    def why(self, job_id: str) -> Job:
        return self._call(Api.why, job_id)

    def forget(self, job_id: str) -> None:
        self._call(Api.forget, job_id)

    # --- images ---
    def images(self, cluster: str | None = None) -> list[Image]:
        return self._call(Api.images, cluster)

    def make_image(self, spec: ImageSpec) -> ImageBuild:
        return self._call(Api.make_image, spec)

    def remove_image(self, name: str, cluster: str | None = None) -> list[str]:
        return self._call(Api.remove_image, name, cluster)

    def registry_login(
        self, registry: str, user: str, password: str, cluster: str | None = None
    ) -> str:
        return self._call(Api.registry_login, registry, user, password, cluster)

    # --- labs ---
    def lab_entry(self, job_id: str) -> LabEntry:
        return self._call(Api.lab_entry, job_id)

    # --- terminals ---
    def terminal(self, request: TerminalRequest) -> socket.socket:
        """See `api.Terminals`."""
        answer = self._link.stream(TERMINAL, msgspec.json.encode(request), _SLOW_ANSWER_S)
        if isinstance(answer, socket.socket):
            return answer
        raise error_of(TERMINAL, *answer)

    # --- the queue ---
    def queue(self, cluster: str | None = None) -> list[QueueEntry]:
        return self._call(Api.queue, cluster)

    def queue_changes(
        self,
        cluster: str | None = None,
        cursor: str = "",
        wait_s: float = 0.0,
        everyone: bool = False,
    ) -> QueueChanges:
        return self._call(Api.queue_changes, cluster, cursor, wait_s, everyone)

    def node_changes(
        self, cluster: str | None = None, cursor: str = "", wait_s: float = 0.0
    ) -> NodeChanges:
        return self._call(Api.node_changes, cluster, cursor, wait_s)

    def history(self, cluster: str | None = None, days: float = 1.0) -> list[QueueEntry]:
        return self._call(Api.history, cluster, days)

    def command(self, argv: list[str], cluster: str | None = None) -> CommandOutput:
        return self._call(Api.command, argv, cluster)

    # --- the agent ---
    def status(self) -> AgentStatus:
        return self._call(Api.status)

    def _call(
        self, method: Callable[Concatenate[Any, _P], _R], *args: _P.args, **kwargs: _P.kwargs
    ) -> _R:
        """What the agent's `method` gives back or raises."""
        call = calls()[method.__name__]
        named = call.name_arguments(args, kwargs)
        wait_s = float(named.get("wait_s", 0.0))
        outcome: _R = call.unpack_answer(*self.relay(call.name, call.pack(named), wait_s))
        return outcome


def _check_platform() -> None:
    if not hasattr(socket, "AF_UNIX"):
        raise AgentError(
            "jupyter-slurm needs Unix sockets, which this Python does not offer.",
            hint="On Windows, run Jupyter in WSL.",
        )
