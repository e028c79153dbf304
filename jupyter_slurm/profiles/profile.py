"""PURE. A cluster as its profile describes it: the settings and their defaults.

`reading.py` knows how files describe a cluster; `table.py` makes a setting's value of its type.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from jupyter_slurm.wire import JobSpec, OutFormat, Show

UP_ORIGIN = "jupyter slurm up"
"""`origin` of the profiles that the private cluster writes."""

_DAY_S = 24 * 3600
_TIME_LIMIT = re.compile(
    r"([0-9]+-)?[0-9]+(:[0-9]+){0,2}|(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?|unlimited",
    re.IGNORECASE,
)
SLURM_CONFS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",  # of a configless site, kept there by slurmd or sackd
)

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]


class Storage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a job's files have to be, as the cluster's own guide would tell its users."""

    scratch: str = ""
    """A folder of the nodes' own, or a fast one that they share, e.g. "/output/{user}"; `$NAME` is
    a variable of the node's environment."""
    stage: bool = False
    """Whether a job that has a folder of its own runs in a copy of it in `scratch`. The copy is
    made when the job starts; what has changed is copied back when it ends, and the copy is
    removed."""
    reserve_s: Annotated[int, Meta(ge=0, le=65535)] = 60
    """How long before its time limit such a job is ended, so that its files can be copied back. 0:
    within Slurm's KillWait."""
    purge_days: Count = 0
    """How many days after its last change the site erases a file in `scratch`; 0: it does not."""
    hidden: tuple[str, ...] = ()
    """Folders of the login machine that the nodes do not see, e.g. "/prj"."""

    def __post_init__(self) -> None:
        if self.stage and not self.scratch.startswith(("/", "$")):
            raise ValueError("`stage` needs a folder in `scratch`, from / on or from a $NAME")
        if self.purge_days and not self.scratch.startswith("/"):
            raise ValueError("`purge_days` needs a folder in `scratch`, from / on")
        if not all(folder.startswith("/") for folder in self.hidden):
            raise ValueError("`hidden` takes folders from / on")

    def erased_s(self, path: str, changed_s: float) -> float | None:
        """Return when the site erases `path`, if nobody changes it after `changed_s`; None: it does
        not, as far as the profile says."""
        scratch = re.escape(self.scratch.rstrip("/")).replace(re.escape("{user}"), "[^/]+")
        if not self.purge_days or not re.match(rf"{scratch}(?:/|\Z)", path):
            return None
        return changed_s + self.purge_days * _DAY_S


class PartitionLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the profile says of a partition, or of a part of it. Slurm is asked for the rest."""

    limit: str = ""
    """The longest time limit, as `--time` takes it."""
    nodes: Count = 0
    """The most that a job can have. In all of these counts 0 means "not set"."""
    cpus: Count = 0
    memory_mib: Count = 0
    gpus: Count = 0
    """These three are per node."""
    gpu: str = ""
    """The GPUs' model, as shown to people."""
    cost: Annotated[float, Meta(ge=0)] | None = None
    """The price of a node for an hour, in the profile's `cost_unit`."""
    exclusive: bool = False
    """Whether a job gets whole nodes and is charged for them."""
    note: str = ""

    def __post_init__(self) -> None:
        if self.limit and not _TIME_LIMIT.fullmatch(self.limit):
            raise ValueError("`limit` takes a time, like 20m, 48h, 31d or 1-12:00:00")


class ClusterProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster: how to reach it, and the defaults for what a job leaves out."""

    name: str
    host: str | None = None
    """A name in DNS or in `~/.ssh/config`. None (over a template: ""): this machine."""
    user: str | None = None
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    jump: tuple[str, ...] = ()
    """Hosts to pass through, `[user@]host[:port]`, the outermost first. For these three, empty
    means what `~/.ssh/config` says."""
    runtime: str = "none"
    """The container tool; "none": jobs run on the node itself."""
    job_root: str = "~/.jupyter-slurm/jobs"
    """Where job dirs are made; the login machine and the nodes must both see it."""
    storage: Storage = Storage()
    python: str = "python3"
    """The interpreter on the node, for runtime "none"."""
    path: tuple[str, ...] = ()
    """Folders put in front of PATH for Slurm's commands."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment of Slurm's commands, e.g. SLURM_CONF."""
    images: dict[str, str] = field(default_factory=dict)
    """Alias -> reference."""
    image_dirs: tuple[str, ...] = ()
    """The site's folders of images."""
    image_dir: str = ""
    """Our own folder, where images are made; the login machine and the nodes must both see it. "":
    `images` beside `job_root`."""
    idle_s: Seconds = 3600.0
    """How long a lab may go unused, or a kernel's job with no client connected and nothing to
    compute, before it ends: a guest does not sit on a GPU. `--idle` overrides it."""
    lab_same_origin: bool = False
    """Whether labs and dashboards are shown below the address of a Jupyter that runs elsewhere than
    the browser (JupyterHub, Binder). A page shown there has the powers of that Jupyter session, and
    so has whoever controls the cluster's machines."""
    show: Show = "full"
    """What a notebook shows of a job's HTML and JavaScript. "full": the same as for a cell that
    runs here, so it can do in Jupyter whatever you can, and so can whoever controls the cluster's
    machines or the image. "sandboxed": in a frame that sees nothing of the page and reaches no
    network. "text": only text and pictures (PNG, JPEG). The last two leave out widgets and other
    active types."""
    out_format: OutFormat = "auto"
    """How variables come back from cells: pickled ("auto"), or as JSON and arrays without pickles
    ("data"). A pickle can run any code on this machine, and whoever controls the cluster's machines
    or the image can put one in the place of any variable. `--out-format` overrides it."""
    build_on: Literal["job", "login"] = "job"
    """Where images are made: in a job, or on the login machine itself, where the site allows that
    or the nodes cannot reach a registry."""
    modules: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    """Folders that every image sees, written as for `--mount`: `SRC[:DST[:ro]]`."""
    login_shell: bool = True
    """Whether the job script begins by reading the user's login profile, which is where sites set
    up `module` and PATH."""
    setup: str = ""
    """Shell lines that the job script runs first, on the node."""
    defaults: dict[str, str] = field(default_factory=dict)
    """sbatch's long options, and ours (`image`, `runtime`), used where a job does not set them; a
    flag's value is ""."""
    job_env: dict[str, str] = field(default_factory=dict)
    """Environment of the job's own program."""
    partitions: dict[str, PartitionLimits] = field(default_factory=dict)
    by_template: frozenset[tuple[str, str]] = frozenset()
    """(Partition, setting) pairs that come from the template and may be out of date; "" stands for
    the partition of `qos` and `accounts`. Not a setting itself."""
    cost_unit: str = ""
    """What the site charges in, e.g. "UA"."""
    qos: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    """The QOS and accounts that exist, as far as they are known."""
    interface: str = ""
    """The network interface of the nodes that a job on many of them uses, `ib0`; "": whichever
    reaches the other nodes."""
    poll_s: Seconds = 10.0
    command_timeout_s: Seconds = 60.0
    submit_timeout_s: Seconds = 180.0
    """sbatch tries again by itself for two minutes (src/sbatch/sbatch.c)."""
    lookup_gap_s: Annotated[float, Meta(ge=0)] = 15.0
    """Between two look-ups that find nothing, before a submission is repeated."""
    lost_after_s: Annotated[float, Meta(ge=0)] = 60.0
    """How long a job may be absent from every listing."""
    exit_grace_s: Annotated[float, Meta(ge=0)] = 90.0
    """How late a job's files may be seen (NFS caches attributes for up to 60 s, nfs(5))."""
    allow_commands: bool = True
    """Whether `%squeue`, `%scontrol` … may be run as typed."""
    hint: str = ""
    """What to tell the user when the cluster cannot be reached, e.g. "Is the VPN on?"."""
    template: str = ""
    """The template of this package that lies under this profile; "": none."""
    vars: dict[str, str] = field(default_factory=dict)
    """What fills in the template's texts, besides `user`."""
    origin: str = ""
    """The file that defines it, or how it was found."""

    def misses(self, slurm_conf: str) -> bool:
        """Tell whether Slurm's commands would use another configuration than `slurm_conf`, which
        this profile does not mention."""
        if self.host is not None or "SLURM_CONF" in self.env:
            return False
        ours = next((Path(one) for one in SLURM_CONFS if Path(one).is_file()), None)
        return ours is None or ours.resolve() != Path(slurm_conf).resolve()

    def for_job(self, spec: JobSpec) -> ClusterProfile:
        """Return the profile as it holds for `spec`: a job that does not go to Slurm gets none of
        sbatch's defaults, and no copy of its files on a node."""
        if not spec.on_login:
            return self
        return msgspec.structs.replace(self, defaults={}, mounts=(), storage=Storage())
