"""The state of a cluster, its files, and the agent."""

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
    """A cluster in the profiles."""

    name: str
    host: str | None
    """The host; None for this machine."""
    runtime: str
    origin: str
    """The file that defines the cluster, or another origin."""
    default: bool
    images: tuple[str, ...] = ()
    """The profile's aliases."""
    problem: Problem | None = None
    """The reason why the cluster cannot be used now."""


class Partition(Struct, frozen=True, kw_only=True):
    name: str
    default: bool
    up: bool
    limit_s: int | None
    """The time limit; None for no limit."""
    nodes: int
    idle_nodes: int
    gpu_types: tuple[str, ...] = ()
    gpus: int = 0
    free_gpus: int | None = None
    """The free GPUs of nodes that accept jobs; None if this Slurm does not report them."""
    gpus_by_type: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """Number of GPUs and of free GPUs by type ("" if not reported)."""
    cpus: int | None = None
    memory_mib: int | None = None
    gpus_per_node: int = 0
    """The CPUs, memory and GPUs of the partition's largest nodes."""
    max_nodes: int | None = None
    """The maximum number of nodes for one job; None for no limit."""
    default_time_s: int | None = None
    """The time limit of a job without --time."""
    exclusive: bool = False
    """Every job gets whole nodes."""
    allow_qos: tuple[str, ...] = ()
    allow_accounts: tuple[str, ...] = ()
    """The QOS and accounts that are allowed to use the partition; () for all."""
    cost: float | None = None
    """The price of a node hour, in `ClusterInfo.cost_unit`; None if the profile has no price."""
    about: str = ""
    """The profile's description for users."""


class Reservation(Struct, frozen=True, kw_only=True):
    """A reservation of nodes for a period, for maintenance or for certain users."""

    name: str
    start_s: float
    end_s: float
    maintenance: bool
    partitions: dict[str, int]
    """Number of reserved nodes by partition."""


class ClusterInfo(Struct, frozen=True, kw_only=True):
    """A cluster's partitions, accounts, QOS and reservations at `asked_s`."""

    name: str
    slurm_version: str
    partitions: tuple[Partition, ...]
    accounting: bool
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    """The accounts and QOS that this user is allowed to use."""
    cost_unit: str = ""
    hidden: tuple[str, ...] = ()
    """Partitions that Slurm hides from this user. They are not in `partitions`."""
    reservations: tuple[Reservation, ...] = ()
    """The reservations, earliest first."""
    asked_s: float


class Folder(Struct, frozen=True, kw_only=True):
    """A folder on the cluster for the user's files."""

    name: str
    """The folder's name for users, e.g. `$SCRATCH` or `$WORK`."""
    path: str
    writable: bool
    file_system: str
    """The name from `stat -f`: nfs, lustre, ext2/ext3 …"""
    free_mib: int | None
    shared: bool | None
    """True if the folder is mounted on every node; None if only a job can determine that."""


class Description(Struct, frozen=True, kw_only=True):
    """Tools, Python and folders on the login node, collected for a new profile."""

    name: str
    sbatch: str | None
    """The path of sbatch; None if not found."""
    runtimes: tuple[str, ...]
    """The container tools found, as values of `--runtime`."""
    modules: bool
    python: str | None
    """The version of the profile's interpreter, e.g. "3.11"; None if it does not run."""
    folders: tuple[Folder, ...]
    login_shell: bool = True
    """False if the login files end a job before its code starts."""


class QueueStatus(Struct, frozen=True, kw_only=True):
    """The age of a cluster's queue listing."""

    cluster: str
    asked_s: float | None = None
    """The time of Slurm's last answer; None before the first."""
    problem: Problem | None = None
    """The reason why Slurm has not answered since then; None if Slurm answers."""
    interval_s: float
    """Seconds between listings while a client watches."""


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node as sinfo shows it."""

    name: str
    state: str
    """Slurm's state in full, lower case: `idle`, `mixed`, `allocated`, `drained*` …"""
    partitions: tuple[str, ...]
    cpus: int
    cpus_used: int
    memory_mib: int | None = None
    memory_free_mib: int | None = None
    load: float | None = None
    gpus: int = 0
    gpus_used: int | None = None
    """Number of GPUs in use; None if this Slurm does not report it."""
    gpu_type: str | None = None
    features: str | None = None
    reason: str | None = None
    """The reason, from Slurm or an operator, why the node does not accept jobs."""


class NodeChanges(Struct, frozen=True, kw_only=True):
    """All nodes and partitions of a cluster, sent after each change."""

    cluster: str
    cursor: str
    nodes: tuple[Node, ...]
    partitions: tuple[Partition, ...]
    reservations: tuple[Reservation, ...] = ()
    asked_s: float | None = None
    problem: Problem | None = None
    interval_s: float
    """Seconds between listings; see `QueueStatus`."""


class CommandOutput(Struct, frozen=True, kw_only=True):
    """The output of a Slurm command."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class Check(Struct, frozen=True, kw_only=True):
    """One line of `doctor`."""

    ok: bool | None
    """The outcome of the check; None for an informational line."""
    sentence: str
    hint: str | None = None
    option: str | None = None
    """The option that the line is about; see `Problem`."""


class Cost(Struct, frozen=True, kw_only=True):
    """The cost of a job that runs for all of `limit_s`."""

    limit_s: float
    jobs: int = 1
    """The number of jobs in an array; the numbers below cover all of them."""
    node_hours: float | None = None
    """Node hours; None if the job does not get whole nodes."""
    cpu_hours: float
    gpu_hours: float
    units: float | None = None
    """The site's charge, in `unit`; None if the profile has no price."""
    unit: str = ""


class AgentStatus(Struct, frozen=True, kw_only=True):
    """The status of the agent, for `jupyter slurm status`."""

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
    """The number of open requests."""
    live_jobs: int
    commands: dict[str, int] = field(default_factory=dict)
    """Number of calls since the start by `cluster program`, e.g. {"local squeue": 12}."""
    checks: tuple[Check, ...] = ()
    """Problems with the agent's own files, such as unreadable job records."""


class FileEntry(Struct, frozen=True, kw_only=True):
    """A file or folder, or the target of a link."""

    name: str
    kind: Literal["file", "folder", "other"]
    """`other` means a dangling link, a socket or a device."""
    size_bytes: int
    modified_s: float
    writable: bool
    """This user may write to it."""


class FileListing(Struct, frozen=True, kw_only=True):
    """A folder and its entries, except names that are not UTF-8."""

    folder: FileEntry
    entries: tuple[FileEntry, ...]


class FileContent(Struct, frozen=True, kw_only=True):
    entry: FileEntry
    content: bytes
