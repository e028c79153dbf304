"""Profiles from `clusters.toml` and `clusters.d/*.toml`, and the choice of the default.

`clusters.toml` contains one table per cluster, and `default = "name"` at the top. Each file in
`clusters.d` describes the cluster of that name, with its settings at top level. The last definition
of a cluster replaces earlier ones.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from jupyter_slurm import places
from jupyter_slurm.errors import ConfigError, NotFoundError
from jupyter_slurm.profiles.profile import CLUSTER_NAME, SLURM_CONFS, UP_ORIGIN, ClusterProfile
from jupyter_slurm.profiles.table import TableReading, did_you_mean
from jupyter_slurm.profiles.templates import laid_over
from jupyter_slurm.profiles.toml_file import TomlFile, tables_of

_NO_CLUSTER = "No cluster yet."
_NO_CLUSTER_HINT = (
    "Start a cluster on this machine with `jupyter slurm up`. For a remote cluster, use `jupyter "
    "slurm clusters add NAME`. A Slurm configuration in /etc/slurm is found automatically. For a "
    "configuration in $SLURM_CONF, use `jupyter slurm clusters add here --host '' --env "
    'SLURM_CONF="$SLURM_CONF"`. For a configuration from the network, use `jupyter slurm '
    "clusters add here --host ''`. Or edit {file}."
)
_SETTLED_NS = 2 * 10**9
"""The age from which a folder's modification time is reliable. A younger folder may change again
without a new time."""


@dataclass(frozen=True)
class Profiles:
    """Clusters by name. Iteration yields the profiles, the default first."""

    clusters: Mapping[str, ClusterProfile]
    wanted: str | None = None
    """The name of the default cluster, from the environment or a file."""
    wanted_by: str = ""
    """The file or variable that names the default cluster, for error messages."""
    broken: Mapping[str, ConfigError] = field(default_factory=dict)
    """Errors in the profiles of clusters, by name."""
    unread: ConfigError | None = None
    """The error in a file that may name more clusters, or the default."""

    def __len__(self) -> int:
        return len(self.clusters)

    def __contains__(self, name: object) -> bool:
        return name in self.clusters

    def __iter__(self) -> Iterator[ClusterProfile]:
        first = self._default_name()
        return iter(sorted(self.clusters.values(), key=lambda one: (one.name != first, one.name)))

    @property
    def default(self) -> ClusterProfile:
        """Return the default cluster. Raise ConfigError if the default is undefined."""
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
            "Several clusters are defined without a default: "
            f"{', '.join([*self.clusters, *self.broken])}.",
            hint=f'Use --cluster, or write `default = "NAME"` at the top of {_user_file()}.',
        )

    def get(self, name: str | None = None) -> ClusterProfile:
        """Return a cluster by name, or the default for None. Raises ConfigError or
        NotFoundError."""
        if name is None:
            return self.default
        if name in self.clusters:
            return self.clusters[name]
        error = self.broken.get(name, self.unread)
        if error is not None:
            raise _another(error)
        raise NotFoundError(
            f"Unknown cluster `{name}`{did_you_mean(name, self.clusters)}",
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
        return f"Use one of {', '.join(sorted(self.clusters))}."


class ProfileFiles:
    """The user's cluster files, read again after a change. It is thread-safe."""

    def __init__(self) -> None:
        self._cached: tuple[object, Profiles] | None = None
        self._folders = places.config_dirs()
        names = ("clusters.toml", "clusters.d")
        self._watched = [str(folder / name) for folder in self._folders for name in names]
        self._listed: tuple[object, list[tuple[Path, bool]]] | None = None

    def load(self) -> Profiles:
        """Return the current profiles. Using an invalid part raises its error."""
        files = self._files()
        environ = (os.environ.get("JUPYTER_SLURM_CLUSTER"), os.environ.get("SLURM_CONF"))
        signature = (environ, tuple((path, _version(path)) for path, _ in files))
        cached = self._cached
        if cached and files and cached[0] == signature:
            return cached[1]
        profiles = _load(files)
        self._cached = (signature, profiles)
        return profiles

    def _files(self) -> list[tuple[Path, bool]]:
        """Return the existing files. List a folder again after it has changed."""
        versions = [_version(path) for path in self._watched]
        listed = self._listed
        if listed is not None and listed[0] == versions:
            return listed[1]
        files = _files(self._folders)
        newest_ns = max((one[0] for one in versions if one is not None), default=0)
        is_settled = newest_ns < time.time_ns() - _SETTLED_NS
        self._listed = (versions, files) if is_settled else None
        return files


def load_profiles() -> Profiles:
    """Read the user's profiles; see `ProfileFiles.load`."""
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
    """The profiles of the files read so far. An error in a cluster's table affects only that
    cluster, and replaces its earlier definition."""

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
            file.fail((name,), f"`{name}` is above the first [CLUSTER].")

    def _break(self, name: str, error: ConfigError) -> None:
        self._clusters.pop(name, None)
        self._broken[name] = error

    def _lose(self, error: ConfigError) -> None:
        """Record that the default is unknown."""
        self._wanted = (None, "")
        self._unread = error


def _another(error: ConfigError) -> ConfigError:
    """Copy the error, so that each thread has its own traceback."""
    return ConfigError(error.message, hint=error.hint, detail=error.detail)


def _here() -> list[ClusterProfile]:
    """Return this machine's cluster; [] if this machine lacks an installed and configured Slurm."""
    named = os.environ.get("SLURM_CONF")
    conf = next((one for one in (named, *SLURM_CONFS) if one and Path(one).is_file()), None)
    sbatch = shutil.which("sbatch")
    if not (conf and sbatch):
        return []
    env = {"SLURM_CONF": conf} if conf == named else {}
    return [ClusterProfile(name="here", env=env, origin=f"this machine ({sbatch}, {conf})")]


# --- one table --------------------------------------------------------------------------------


def _profile(
    file: TomlFile, name: str, table: dict[str, Any], where: tuple[str, ...]
) -> ClusterProfile:
    """Return the profile in `table`; `where`: the table's keys in `file`."""
    if not CLUSTER_NAME.fullmatch(name):
        file.fail(
            where,
            f"{name!r} is not a valid name of a cluster.",
            "Use letters, digits, `.`, `_` and `-`.",
        )
    reading = TableReading(file, where)
    below = reading.template(table)
    types = {one.name: one.type for one in msgspec.structs.fields(ClusterProfile)}
    values = reading.settings(laid_over(below, table), {**types, "name": None})
    values["host"] = values.get("host") or None
    return ClusterProfile(**{"origin": str(file.path), **values, "name": name})


# --- the files --------------------------------------------------------------------------------


def _files(folders: list[Path]) -> list[tuple[Path, bool]]:
    """Return the existing files; later files take precedence. The flag is True for a file of one
    cluster."""
    files: list[tuple[Path, bool]] = []
    for folder in folders:
        if _may_be_there(folder / "clusters.toml"):
            files.append((folder / "clusters.toml", False))
        files += [(path, True) for path in sorted((folder / "clusters.d").glob("[!.]*.toml"))]
    return files


def _may_be_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # reading the file reports the error
        return True


def _version(path: Path | str) -> tuple[int, int, int] | None:
    try:
        info = os.stat(path)  # noqa: PTH116 (looked at often: a Path costs more than the call)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def _user_file() -> Path:
    return places.config_dirs()[-1] / "clusters.toml"
