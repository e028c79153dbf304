"""The state of a cluster, of its files, and of the agent."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from jupyter_slurm.wire.problem import Problem

__all__ = [
    "AgentStatus",
    "Check",
    "Cluster",
    "ClusterInfo",
    "CommandOutput",
    "Cost",
    "Description",
    "FileContent",
    "FileEntry",
    "FileListing",
    "Folder",
    "Node",
    "NodeChanges",
    "Partition",
    "QueueStatus",
    "Reservation",
]


class Cluster(Struct, frozen=True, kw_only=True):
    """A cluster that the profiles name."""

    name: str
    host: str | None
    """None: this machine."""
    runtime: str
    origin: str
    """The file that defines it, or how it was found."""
    default: bool
    images: tuple[str, ...] = ()
    """The profile's aliases."""
    problem: Problem | None = None
    """Why it cannot be used now."""


class Partition(Struct, frozen=True, kw_only=True):
    name: str
    default: bool
    up: bool
    limit_s: int | None
    """None: no limit."""
    nodes: int
    idle_nodes: int
    gpu_types: tuple[str, ...] = ()
    gpus: int = 0
    free_gpus: int | None = None
    """The free GPUs of nodes that accept jobs. None: this Slurm does not report them."""
    gpus_by_type: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """Type ("": not reported) -> how many, and how many of them are free."""
    cpus: int | None = None
    memory_mib: int | None = None
    gpus_per_node: int = 0
    """These three are those of its largest nodes."""
    max_nodes: int | None = None
    """The most nodes for one job; None: no limit."""
    default_time_s: int | None = None
    """The time limit of a job that asks for none."""
    exclusive: bool = False
    """Whether every job gets whole nodes."""
    allow_qos: tuple[str, ...] = ()
    allow_accounts: tuple[str, ...] = ()
    """The QOS and accounts that may use it; (): all may."""
    cost: float | None = None
    """The price of a node for an hour, in `ClusterInfo.cost_unit`; None: the profile has none."""
    about: str = ""
    """The profile's description of it for users."""


class Reservation(Struct, frozen=True, kw_only=True):
    """Nodes reserved for a time, for maintenance or for some users' jobs."""

    name: str
    start_s: float
    end_s: float
    maintenance: bool
    partitions: dict[str, int]
    """Partition -> the number of its nodes that are reserved."""


class ClusterInfo(Struct, frozen=True, kw_only=True):
    """A cluster's partitions, accounts, QOS and reservations, as of `asked_s`."""

    name: str
    slurm_version: str
    partitions: tuple[Partition, ...]
    accounting: bool
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    """The accounts and QOS that this user may use."""
    cost_unit: str = ""
    hidden: tuple[str, ...] = ()
    """Partitions that Slurm hides from this user; not in `partitions`."""
    reservations: tuple[Reservation, ...] = ()
    """The earliest first."""
    asked_s: float


class Folder(Struct, frozen=True, kw_only=True):
    """A folder of the cluster that somebody may want to use."""

    name: str
    """The users' name for it: `$SCRATCH`, `$WORK`."""
    path: str
    writable: bool
    file_system: str
    """The name from `stat -f`: nfs, lustre, ext2/ext3 …"""
    free_mib: int | None
    shared: bool | None
    """Whether every node sees it; None: only a job could find that out."""


class Description(Struct, frozen=True, kw_only=True):
    """What a cluster has that a profile could name, as seen on its login machine."""

    name: str
    sbatch: str | None
    """The path of sbatch; None: not found."""
    runtimes: tuple[str, ...]
    """Container tools, under our names for them."""
    modules: bool
    python: str | None
    """The version of the profile's interpreter, e.g. "3.11"; None: it does not run there."""
    folders: tuple[Folder, ...]
    login_shell: bool = True
    """False: the login files end a job before its code begins."""


class QueueStatus(Struct, frozen=True, kw_only=True):
    """How new a listing of a cluster's queue is."""

    cluster: str
    asked_s: float | None = None
    """When Slurm last answered; None: it has not answered yet."""
    problem: Problem | None = None
    """Why it has not answered since."""
    interval_s: float
    """Seconds between two listings while a client watches."""


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node as sinfo shows it."""

    name: str
    state: str
    """Slurm's state, in full and in lower case: `idle`, `mixed`, `allocated`, `drained*` …"""
    partitions: tuple[str, ...]
    cpus: int
    cpus_used: int
    memory_mib: int | None = None
    memory_free_mib: int | None = None
    load: float | None = None
    gpus: int = 0
    gpus_used: int | None = None
    """None: this Slurm does not report it."""
    gpu_type: str | None = None
    features: str | None = None
    reason: str | None = None
    """Why it is down or drained, in the operator's words."""


class NodeChanges(Struct, frozen=True, kw_only=True):
    """A cluster's nodes and partitions, whole, whenever something of them has changed."""

    cluster: str
    cursor: str
    nodes: tuple[Node, ...]
    partitions: tuple[Partition, ...]
    reservations: tuple[Reservation, ...] = ()
    asked_s: float | None = None
    problem: Problem | None = None
    interval_s: float
    """As in `QueueStatus`."""


class CommandOutput(Struct, frozen=True, kw_only=True):
    """A Slurm command's own words."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class Check(Struct, frozen=True, kw_only=True):
    """One sentence of `doctor`."""

    ok: bool | None
    """None: neither good nor bad, for information."""
    sentence: str
    hint: str | None = None
    option: str | None = None
    """The option it is about, as in `Problem`."""


class Cost(Struct, frozen=True, kw_only=True):
    """The cost of a job that runs for all of `limit_s`."""

    limit_s: float
    jobs: int = 1
    """The number of an array's jobs; the figures below are for all of them."""
    node_hours: float | None = None
    """None: it does not get whole nodes."""
    cpu_hours: float
    gpu_hours: float
    units: float | None = None
    """The site's charge, in `unit`; None: the profile has no price."""
    unit: str = ""


class AgentStatus(Struct, frozen=True, kw_only=True):
    """`jupyter slurm status`."""

    version: str
    protocol: int
    pid: int
    host: str
    socket: str
    log: str
    started_s: float
    memory_mib: float
    cpu_s: float
    clients: int
    """The number of requests that it is answering now."""
    live_jobs: int
    commands: dict[str, int] = field(default_factory=dict)
    """`cluster program` -> how often it ran since the start, e.g. {"local squeue": 12}."""
    checks: tuple[Check, ...] = ()
    """Faults of its own files: records of jobs that it could not read when it started."""


class FileEntry(Struct, frozen=True, kw_only=True):
    """One, links followed."""

    name: str
    kind: Literal["file", "folder", "other"]
    """other: a link that leads nowhere, a socket, a device."""
    size_bytes: int
    modified_s: float
    writable: bool
    """Whether this user may write to it."""


class FileListing(Struct, frozen=True, kw_only=True):
    """A folder and what is in it, but for names that are no UTF-8."""

    folder: FileEntry
    entries: tuple[FileEntry, ...]


class FileContent(Struct, frozen=True, kw_only=True):
    entry: FileEntry
    content: bytes
