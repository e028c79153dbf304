"""The settings of a cluster's profile: types, defaults, descriptions. `reading.py` reads them. No
I/O."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from jupyter_slurm.wire import JobSpec, OutFormat, Show

CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
UP_ORIGIN = "jupyter slurm up"
"""The `origin` in profiles of private clusters."""

_DAY_S = 24 * 3600
_TIME_LIMIT = re.compile(
    r"([0-9]+-)?[0-9]+(:[0-9]+){0,2}|(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?|unlimited",
    re.IGNORECASE,
)
SLURM_CONFS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",  # written by slurmd or sackd on configless sites
)

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]


class Storage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Folders for a job's files, as the cluster's documentation names them."""

    scratch: str = ""
    """A local or fast shared folder on the nodes, e.g. "/output/{user}"; `$NAME` is a variable of
    the node's environment."""
    stage: bool = False
    """Copy a job's own folder to `scratch`, and run the job in the copy. Changes are copied back
    when the job ends."""
    reserve_s: Annotated[int, Meta(ge=0, le=65535)] = 60
    """Seconds to reserve before the time limit. A job in `scratch` stops then and copies its files
    back. With 0, the job stops at the limit, and copies its files back within Slurm's KillWait."""
    purge_days: Count = 0
    """Days without changes after which the site erases a file in `scratch`; 0 means never."""
    hidden: tuple[str, ...] = ()
    """Folders on the login node that are not shared with other nodes, e.g. "/prj"."""

    def __post_init__(self) -> None:
        if self.stage and not self.scratch.startswith(("/", "$")):
            raise ValueError("`stage` needs a folder in `scratch` that starts with / or a $NAME")
        if self.purge_days and not self.scratch.startswith("/"):
            raise ValueError("`purge_days` needs an absolute path in `scratch`")
        if not all(folder.startswith("/") for folder in self.hidden):
            raise ValueError("`hidden` takes absolute paths")

    def erased_s(self, path: str, changed_s: float) -> float | None:
        """Return when the site erases `path`, unless it changes after `changed_s`; None if the site
        keeps it."""
        scratch = re.escape(self.scratch.rstrip("/")).replace(re.escape("{user}"), "[^/]+")
        if not self.purge_days or not re.match(rf"{scratch}(?:/|\Z)", path):
            return None
        return changed_s + self.purge_days * _DAY_S


class PartitionLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a partition that Slurm does not report."""

    limit: str = ""
    """Maximum time limit, written as for `--time`."""
    nodes: Count = 0
    """Maximum number of nodes for a job. In this and the next three settings, 0 means not set."""
    cpus: Count = 0
    """CPUs per node."""
    memory_mib: Count = 0
    """Memory per node."""
    gpus: Count = 0
    """GPUs per node."""
    gpu: str = ""
    """Model of the GPUs, for display."""
    cost: Annotated[float, Meta(ge=0)] | None = None
    """Price of a node per hour, in `cost_unit`."""
    exclusive: bool = False
    """Jobs get whole nodes and are charged for them."""
    note: str = ""
    """A remark to display."""

    def __post_init__(self) -> None:
        if self.limit and not _TIME_LIMIT.fullmatch(self.limit):
            raise ValueError("`limit` takes a time, like 20m, 48h, 31d or 1-12:00:00")


class ClusterProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one cluster: connection and defaults of jobs."""

    name: str
    host: str | None = None
    """Host name in DNS or in `~/.ssh/config`; this machine if unset. "" overrides the host of a
    template."""
    user: str | None = None
    """User name on the cluster. `user`, `port` and `jump` default to `~/.ssh/config`."""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """Port of the host's sshd."""
    jump: tuple[str, ...] = ()
    """Jump hosts, `[user@]host[:port]`, the outermost first."""
    runtime: str = "none"
    """The container tool; "none" runs jobs directly on the node."""
    job_root: str = "~/.jupyter-slurm/jobs"
    """Parent of the job folders, on a file system that the login node and the nodes share."""
    storage: Storage = Storage()
    """Scratch folders: the table [NAME.storage]."""
    python: str = "python3"
    """The interpreter on the node, for runtime "none"."""
    path: tuple[str, ...] = ()
    """Folders prepended to PATH for Slurm's commands."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment of Slurm's commands, e.g. SLURM_CONF."""
    images: dict[str, str] = field(default_factory=dict)
    """Image references by alias."""
    image_dirs: tuple[str, ...] = ()
    """Folders with the site's images."""
    image_dir: str = ""
    """Folder for images that users build or pull, on a shared file system. "" means `images` beside
    `job_root`."""
    idle_s: Seconds = 3600.0
    """Seconds after which an unused lab, or an idle kernel without a client, ends. `--idle`
    overrides it."""
    lab_same_origin: bool = False
    """Show labs and dashboards below the URL of a Jupyter server on a machine other than the
    browser's (JupyterHub, Binder). These pages can do whatever that Jupyter session can, and so can
    anyone who controls the cluster."""
    show: Show = "full"
    """The display of a job's HTML and JavaScript in notebooks. "full" displays them like a local
    cell's, so anyone who controls the cluster or the image can do in Jupyter whatever you can.
    "sandboxed" uses a frame without access to the page and the network. "text" displays only text
    and pictures (PNG, JPEG). The last two omit widgets and other active types."""
    out_format: OutFormat = "auto"
    """Format of variables from cells: pickles ("auto"), or JSON and arrays ("data"). A pickle can
    run any code on this machine, and anyone who controls the cluster or the image can replace a
    variable by a pickle. `--out-format` overrides this setting."""
    build_on: Literal["job", "login"] = "job"
    """The place for building images: a job, or the login node if the site allows it or the nodes
    cannot reach a registry."""
    install_on: Literal["login", "job"] = "login"
    """The place for installing packages for jobs without an image (`--with`): the login node, or a
    job if the site requires it or the nodes have another processor architecture."""
    modules: tuple[str, ...] = ()
    """Environment modules that every job loads."""
    mounts: tuple[str, ...] = ()
    """Folders to mount in every image, as for `--mount`: `SRC[:DST[:ro]]`."""
    login_shell: bool = True
    """Read the user's login profile first in the batch script, since sites set up `module` and PATH
    there."""
    setup: str = ""
    """Shell lines that the batch script runs first."""
    defaults: dict[str, str] = field(default_factory=dict)
    """Defaults for long options of sbatch and of jupyter-slurm (`image`, `runtime`). The value of a
    flag is ""."""
    job_env: dict[str, str] = field(default_factory=dict)
    """Environment of the job's program."""
    partitions: dict[str, PartitionLimits] = field(default_factory=dict)
    """Limits that Slurm does not report: the tables [NAME.partitions.PARTITION]."""
    cost_unit: str = ""
    """Unit of the site's prices, e.g. "UA"."""
    qos: tuple[str, ...] = ()
    """QOS to offer if Slurm has no accounting."""
    accounts: tuple[str, ...] = ()
    """Accounts to offer if Slurm has no accounting."""
    interface: str = ""
    """Network interface for jobs on many nodes, e.g. `ib0`; "" for any interface that reaches the
    other nodes."""
    poll_s: Seconds = 10.0
    """Seconds between two calls of squeue."""
    command_timeout_s: Seconds = 60.0
    """Seconds to wait for a command of Slurm."""
    submit_timeout_s: Seconds = 180.0
    """Seconds to wait for sbatch, which itself retries for two minutes (src/sbatch/sbatch.c)."""
    lookup_gap_s: Annotated[float, Meta(ge=0)] = 15.0
    """Seconds between the two look-ups that precede a repeated submission."""
    lost_after_s: Annotated[float, Meta(ge=0)] = 60.0
    """Seconds that a job can be missing from all listings before the agent regards it as ended."""
    exit_grace_s: Annotated[float, Meta(ge=0)] = 90.0
    """Seconds to wait for a job's files (NFS caches attributes for up to 60 s, nfs(5))."""
    allow_commands: bool = True
    """Let users run `%squeue`, `%scontrol` … as typed."""
    hint: str = ""
    """A hint to show if the cluster cannot be reached, e.g. "Is the VPN on?"."""
    template: str = ""
    """Name of the template that this profile overrides, or ""."""
    vars: dict[str, str] = field(default_factory=dict)
    """Values for the template's placeholders other than `user`."""
    origin: str = ""
    """The file that defines the cluster, or another origin."""

    def misses(self, slurm_conf: str) -> bool:
        """Return whether Slurm's commands would use a configuration other than `slurm_conf`."""
        if self.host is not None or "SLURM_CONF" in self.env:
            return False
        ours = next((Path(one) for one in SLURM_CONFS if Path(one).is_file()), None)
        return ours is None or ours.resolve() != Path(slurm_conf).resolve()

    def for_job(self, spec: JobSpec) -> ClusterProfile:
        """Return the settings that apply to `spec`. A job on the login node has no sbatch defaults,
        and its files are not copied to a node."""
        if not spec.on_login:
            return self
        return msgspec.structs.replace(self, defaults={}, mounts=(), storage=Storage())
