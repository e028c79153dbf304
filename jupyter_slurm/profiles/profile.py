"""Clusters as their files describe them: `clusters.toml` and `clusters.d/*.toml` -> ClusterProfile.

Reads and checks these files and chooses the default; nothing here talks to a cluster or writes.
A folder's `clusters.toml` has one table per cluster (and, on top, `default = "name"`); each file in
`clusters.d` is one cluster with its settings at top level, named after the file. Later files win:
a cluster that is defined twice is what the last of them says, whole.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from jupyter_slurm import places
from jupyter_slurm.errors import ConfigError, NotFoundError
from jupyter_slurm.profiles.table import TableReading, did_you_mean
from jupyter_slurm.profiles.templates import laid_over
from jupyter_slurm.profiles.toml_file import TomlFile, tables_of
from jupyter_slurm.wire import JobSpec, OutFormat, Show

UP_ORIGIN = "jupyter slurm up"
"""`origin` of the profiles that the private cluster writes."""

_CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TIME_LIMIT = re.compile(
    r"([0-9]+-)?[0-9]+(:[0-9]+){0,2}|(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?|unlimited",
    re.IGNORECASE,
)
_SLURM_CONFS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",  # of a configless site, kept there by slurmd or sackd
)
_NO_CLUSTER = "No cluster yet."
_NO_CLUSTER_HINT = (
    "`jupyter slurm up` starts one on this machine, for trying things out; where Slurm's "
    "configuration is in /etc/slurm nothing needs to be set; where `sbatch` works by SLURM_CONF, "
    "`jupyter slurm clusters add here --host '' --env SLURM_CONF=\"$SLURM_CONF\"` does it, and "
    "where it has its configuration from the network, `jupyter slurm clusters add here --host ''`; "
    "other clusters are described in {file}."
)

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]


class Storage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where files have to be for a job, as the cluster's own guide would tell its users."""

    scratch: str = ""
    """A folder of the nodes' own, or a fast one that they share, e.g. "/output/{user}"; `$NAME` is
    a variable of the node's."""
    stage: bool = False
    """Jobs that have a folder of their own run in a copy of it in `scratch`: made when they start;
    what has changed is brought back when they end, and the copy removed."""
    reserve_s: Annotated[int, Meta(ge=0, le=65535)] = 60
    """How long before its time limit such a job is ended for that. 0: within Slurm's KillWait."""
    hidden: tuple[str, ...] = ()
    """Folders of the login machine that the nodes do not see, e.g. "/prj"."""

    def __post_init__(self) -> None:
        if self.stage and not self.scratch.startswith(("/", "$")):
            raise ValueError("`stage` needs a folder in `scratch`, from / on or from a $NAME")
        if not all(folder.startswith("/") for folder in self.hidden):
            raise ValueError("`hidden` takes folders from / on")


class PartitionLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a partition, or a part of it. What is not said here, Slurm is asked for."""

    limit: str = ""
    """The longest time limit, as `--time` takes it."""
    nodes: Count = 0
    """The most that a job can have. In all of these 0 is: not said."""
    cpus: Count = 0
    memory_mib: Count = 0
    gpus: Count = 0
    """These three of each node."""
    gpu: str = ""
    """What they are, as people are told."""
    cost: Annotated[float, Meta(ge=0)] | None = None
    """Of a node for an hour, in the profile's `cost_unit`."""
    exclusive: bool = False
    """A job has whole nodes, and has them charged."""
    note: str = ""

    def __post_init__(self) -> None:
        if self.limit and not _TIME_LIMIT.fullmatch(self.limit):
            raise ValueError("`limit` takes a time, like 20m, 48h, 31d or 1-12:00:00")


class ClusterProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster: how to reach it, and what is used where a job says nothing."""

    name: str
    host: str | None = None
    """A name of DNS or of `~/.ssh/config`. None (over a template: ""): this machine."""
    user: str | None = None
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    jump: tuple[str, ...] = ()
    """Hosts to pass through, `[user@]host[:port]`, the outermost first. These three: empty means
    what `~/.ssh/config` says."""
    runtime: str = "none"
    """The container tool; "none": jobs run on the node itself."""
    job_root: str = "~/.jupyter-slurm/jobs"
    """Where job dirs are made; login machine and nodes must both see it."""
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
    """Our own, where images are made; login machine and nodes must both see it. "": `images`
    beside `job_root`."""
    idle_s: Seconds = 3600.0
    """A lab ends after so long without anybody's doing anything in it, a kernel in a job with
    nobody connected to it and nothing to compute: a guest does not sit on a GPU. `--idle` says
    another."""
    lab_same_origin: bool = False
    """Labs are shown below the address of a Jupyter that runs elsewhere than the browser
    (JupyterHub, Binder). What is shown there has the powers of that session of Jupyter: whoever
    controls the cluster's machines then has them."""
    show: Show = "full"
    """What of a job's HTML and JavaScript a notebook shows. "full": as of a cell that runs here, so
    that it can do in Jupyter whatever you can, and with it whoever controls the cluster's machines
    or the image. "sandboxed": in a frame that sees nothing of the page and reaches no network.
    "text": text and pictures (PNG, JPEG) alone. Widgets and other active types are left out in
    these two."""
    out_format: OutFormat = "auto"
    """How variables come back from cells: "data" lets in what needs no pickle, and refuses the
    rest. A pickle can run what it likes on this machine, and whoever controls the cluster's
    machines, or the image, can put one in the place of any variable. `--out-format` says another.
    """
    build_on: Literal["job", "login"] = "job"
    """Where images are made: in a job, or on the login machine itself, where a site lets its users
    do that or nodes have no way to a registry."""
    modules: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    """Folders that every image sees, as of `--mount`: `SRC[:DST[:ro]]`."""
    login_shell: bool = True
    """Whether the job script begins by reading the user's login profile, which is where sites set
    up `module` and PATH."""
    setup: str = ""
    """Shell lines that the job script runs first, on the node."""
    defaults: dict[str, str] = field(default_factory=dict)
    """sbatch's long options, and ours (`image`, `runtime`), for what a job does not say; a flag's
    value is ""."""
    job_env: dict[str, str] = field(default_factory=dict)
    """Environment of the job's own program."""
    partitions: dict[str, PartitionLimits] = field(default_factory=dict)
    by_template: frozenset[tuple[str, str]] = frozenset()
    """(Partition, setting) of what is the template's word, which may be out of date; "" for `qos`
    and `accounts`. No setting itself."""
    cost_unit: str = ""
    """What the site charges in, e.g. "UA"."""
    qos: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    """Those that there are, as far as known."""
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
    """What to tell when the cluster cannot be reached, e.g. "Is the VPN on?"."""
    template: str = ""
    """The profile under this one, of those that come with this package; "": none."""
    vars: dict[str, str] = field(default_factory=dict)
    """What fills in the template's texts, beside `user`."""
    origin: str = ""
    """The file that defines it, or how it was found."""

    def misses(self, slurm_conf: str) -> bool:
        """Whether Slurm's commands would go by another configuration than `slurm_conf`, which this
        says nothing of."""
        if self.host is not None or "SLURM_CONF" in self.env:
            return False
        ours = next((Path(one) for one in _SLURM_CONFS if Path(one).is_file()), None)
        return ours is None or ours.resolve() != Path(slurm_conf).resolve()

    def for_job(self, spec: JobSpec) -> ClusterProfile:
        """What of it holds for `spec`: what is not handed to Slurm has no defaults of sbatch's, and
        no node with a copy of its files."""
        if not spec.on_login:
            return self
        return msgspec.structs.replace(self, defaults={}, mounts=(), storage=Storage())


@dataclass(frozen=True)
class Profiles:
    """The clusters known now, by name. Iterating gives the profiles, the default one first."""

    clusters: Mapping[str, ClusterProfile]
    wanted: str | None = None
    """The name that the environment or a file gives as the default."""
    wanted_by: str = ""
    """Who says so: for the message when there is no such cluster."""
    broken: Mapping[str, ConfigError] = field_of(default_factory=dict)
    """Clusters whose description cannot be used, and why."""
    unread: ConfigError | None = None
    """Why the rest of a file could not be read: it may name other clusters, and the default."""

    def __len__(self) -> int:
        return len(self.clusters)

    def __contains__(self, name: object) -> bool:
        return name in self.clusters

    def __iter__(self) -> Iterator[ClusterProfile]:
        first = self._default_name()
        return iter(sorted(self.clusters.values(), key=lambda one: (one.name != first, one.name)))

    @property
    def default(self) -> ClusterProfile:
        """The cluster of a job that names none; ConfigError when that is not clear."""
        if self.wanted is None and self.unread is not None:
            raise _another(self.unread)
        name = self._default_name()
        if name is not None:
            return self.get(name)
        if self.wanted is not None:
            raise ConfigError(
                f"{self.wanted_by}: the default cluster `{self.wanted}` is not defined"
                f"{did_you_mean(self.wanted, self.clusters)}",
                hint=self._known(),
            )
        if not self.clusters:
            raise ConfigError(_NO_CLUSTER, hint=self._known())
        raise ConfigError(
            "There are several clusters and none is the default: "
            f"{', '.join([*self.clusters, *self.broken])}.",
            hint='Say which with --cluster, or write `default = "NAME"` at the top of '
            f"{_user_file()}.",
        )

    def get(self, name: str | None = None) -> ClusterProfile:
        """The cluster of that name, the default for None; ConfigError, NotFoundError."""
        if name is None:
            return self.default
        if name in self.clusters:
            return self.clusters[name]
        error = self.broken.get(name, self.unread)
        if error is not None:
            raise _another(error)
        raise NotFoundError(
            f"There is no cluster `{name}`{did_you_mean(name, self.clusters)}",
            hint=self._known(),
            option="cluster",
        )

    def _default_name(self) -> str | None:
        if self.wanted is not None:
            known = self.wanted in self.clusters or self.wanted in self.broken
            return self.wanted if known else None
        others = [one.name for one in self.clusters.values() if one.origin != UP_ORIGIN]
        for names in ([*self.clusters, *self.broken], [*others, *self.broken]):
            if len(names) == 1:
                return names[0]
        return None

    def _known(self) -> str:
        if not self.clusters:
            return _NO_CLUSTER_HINT.format(file=_user_file())
        return f"Known: {', '.join(sorted(self.clusters))}."


class ProfileFiles:
    """The files, read again when one of them has changed. Safe to use from several threads."""

    def __init__(self) -> None:
        self._cached: tuple[object, Profiles] | None = None
        self._folders = places.config_dirs()

    def load(self) -> Profiles:
        """What the files say now; what is wrong with one of them is said when that is needed."""
        files = _files(self._folders)
        environ = (os.environ.get("JUPYTER_SLURM_CLUSTER"), os.environ.get("SLURM_CONF"))
        signature = (environ, tuple((path, _version(path)) for path, _ in files))
        cached = self._cached
        if cached and files and cached[0] == signature:
            return cached[1]
        profiles = _load(files)
        self._cached = (signature, profiles)
        return profiles


def load_profiles() -> Profiles:
    """Every cluster that this user's files describe, read anew; see `ProfileFiles.load`."""
    return ProfileFiles().load()


def _load(files: list[tuple[Path, bool]]) -> Profiles:
    reading = _Reading()
    for path, is_single in files:
        reading.read(path, is_single)
    profiles = reading.profiles
    if not (profiles.clusters or profiles.broken or profiles.unread):
        profiles = replace(profiles, clusters={one.name: one for one in _here()})
    named = os.environ.get("JUPYTER_SLURM_CLUSTER")
    if named:
        profiles = replace(profiles, wanted=named, wanted_by="JUPYTER_SLURM_CLUSTER")
    return profiles


class _Reading:
    """What the files say, one after the other. What is wrong with one cluster is that cluster's:
    an earlier file's word for it no longer counts, and the others are as they are."""

    def __init__(self) -> None:
        self._clusters: dict[str, ClusterProfile] = {}
        self._broken: dict[str, ConfigError] = {}
        self._wanted: tuple[str | None, str] = (None, "")
        self._unread: ConfigError | None = None

    @property
    def profiles(self) -> Profiles:
        return Profiles(self._clusters, *self._wanted, self._broken, self._unread)

    def read(self, path: Path, is_single: bool) -> None:
        try:
            file = TomlFile.read(path)
        except ConfigError as exc:
            if not is_single:
                self._lose(exc)
            for name in (path.stem,) if is_single else tables_of(path):
                self._break(name, exc)
            return
        if is_single:
            self._cluster(file, path.stem, file.content, ())
            return
        for name, value in file.content.items():
            if isinstance(value, dict):
                self._cluster(file, name, value, (name,))
                continue
            try:
                self._setting(file, name, value)
            except ConfigError as exc:
                self._lose(exc)

    def _cluster(
        self, file: TomlFile, name: str, table: dict[str, Any], where: tuple[str, ...]
    ) -> None:
        try:
            self._clusters[name] = _profile(file, name, table, where)
            self._broken.pop(name, None)
        except ConfigError as exc:
            self._break(name, exc)

    def _setting(self, file: TomlFile, name: str, value: object) -> None:
        if name == "default" and isinstance(value, str):
            self._wanted = (value, file.place(name))
        elif name == "default":
            file.fail((name,), "`default` must be the name of a cluster, in quotes.")
        else:
            file.fail((name,), f"`{name}` stands above the first [CLUSTER].")

    def _break(self, name: str, error: ConfigError) -> None:
        self._clusters.pop(name, None)
        self._broken[name] = error

    def _lose(self, error: ConfigError) -> None:
        """What the file says of the default is not known."""
        self._wanted = (None, "")
        self._unread = error


def _another(error: ConfigError) -> ConfigError:
    """The same for another thread, whose traceback it then has."""
    return ConfigError(error.message, hint=error.hint, detail=error.detail)


def _here() -> list[ClusterProfile]:
    """The cluster of this machine, where Slurm is installed and configured."""
    named = os.environ.get("SLURM_CONF")
    conf = next((one for one in (named, *_SLURM_CONFS) if one and Path(one).is_file()), None)
    sbatch = shutil.which("sbatch")
    if not (conf and sbatch):
        return []
    env = {"SLURM_CONF": conf} if conf == named else {}
    return [ClusterProfile(name="here", env=env, origin=f"this machine ({sbatch}, {conf})")]


# --- one table --------------------------------------------------------------------------------


def _profile(
    file: TomlFile, name: str, table: dict[str, Any], where: tuple[str, ...]
) -> ClusterProfile:
    """The cluster that `table`, which stands at `where` in `file`, describes."""
    if not _CLUSTER_NAME.fullmatch(name):
        file.fail(
            where, f"{name!r} cannot be a cluster's name.", "Letters, digits, `.`, `_` and `-` can."
        )
    reading = TableReading(file, where)
    below = reading.template(table)
    types = {one.name: one.type for one in msgspec.structs.fields(ClusterProfile)}
    values = reading.settings(laid_over(below, table), {**types, "name": None, "by_template": None})
    values["host"] = values.get("host") or None
    own = table.get("partitions", {})
    values["by_template"] = frozenset(
        (partition, key)
        for partition, settings in below.get("partitions", {}).items()
        for key in settings
        if key not in own.get(partition, {})
    ) | {("", key) for key in ("qos", "accounts") if key in below and key not in table}
    return ClusterProfile(**{"origin": str(file.path), **values, "name": name})


# --- where ------------------------------------------------------------------------------------


def _files(folders: list[Path]) -> list[tuple[Path, bool]]:
    """The files that are there, in the order in which they count, and whether each is of one
    cluster.
    """
    files: list[tuple[Path, bool]] = []
    for folder in folders:
        if _may_be_there(folder / "clusters.toml"):
            files.append((folder / "clusters.toml", False))
        files += [(path, True) for path in sorted((folder / "clusters.d").glob("[!.]*.toml"))]
    return files


def _may_be_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # who reads it is told what is wrong
        return True


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def _user_file() -> Path:
    return places.config_dirs()[-1] / "clusters.toml"
