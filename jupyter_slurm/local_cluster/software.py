"""The installed Slurm, or the distribution's packages unpacked into a private folder.

The private Slurm is for users without root on Debian and its derivatives: apt-get finds, checks and
downloads the packages, and dpkg-deb unpacks them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_slurm.errors import ConfigError, LocalClusterError
from jupyter_slurm.places import make_private

COMMANDS = (
    "sacct",
    "sacctmgr",
    "salloc",
    "sattach",
    "sbatch",
    "sbcast",
    "scancel",
    "scontrol",
    "sdiag",
    "sinfo",
    "sprio",
    "squeue",
    "sreport",
    "srun",
    "sshare",
    "sstat",
    "strigger",
)
_SBIN = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/opt/slurm/sbin", "/usr/local/slurm/sbin")
_PACKAGES = {  # Debian's and Ubuntu's names
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "scontrol": "slurm-wlm",
    "munged": "munge",
}


@dataclass(frozen=True)
class Software:
    """The programs of one installation, by name. If they are not in the system's folders,
    `libraries` are their library folders, `plugins` is Slurm's plugin folder, and `stepd` is the
    slurmstepd for slurmd."""

    programs: dict[str, Path]
    version_text: str
    libraries: tuple[Path, ...] = ()
    plugins: Path | None = None
    stepd: Path | None = None

    @property
    def version(self) -> tuple[int, int]:
        """Return the version as numbers, such as (22, 5) for "slurm-wlm 22.05.8". Raises
        ConfigError."""
        found = re.search(r"(\d+)\.(\d+)", self.version_text)
        if found is None:
            raise ConfigError(f"Cannot read a version from `slurmctld -V`: {self.version_text!r}.")
        return int(found[1]), int(found[2])

    @property
    def commands(self) -> dict[str, Path]:
        """Return Slurm's commands for users, by name."""
        return {name: self.programs[name] for name in COMMANDS if name in self.programs}

    def environment(self, conf: Path) -> dict[str, str]:
        """Return the environment for Slurm's programs: the caller's environment without variables
        of another Slurm."""
        env = {key: text for key, text in os.environ.items() if not key.startswith(("SLURM", "SB"))}
        env["SLURM_CONF"] = str(conf)
        if self.libraries:
            env["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, self.libraries))
        return env


def missing_packages() -> tuple[str, ...]:
    """Return the Debian packages of missing programs."""
    there = programs()
    return tuple(dict.fromkeys(pkg for name, pkg in _PACKAGES.items() if name not in there))


def installed() -> Software | None:
    """Return the system's programs, or None if any is missing."""
    if missing_packages():
        return None
    found = programs()
    return Software(found, version_of(found["slurmctld"], {}))


def programs(*first: Path) -> dict[str, Path]:
    """Return the existing programs by name, from the folders `first`, then from the system's
    folders."""
    path = os.pathsep.join([*map(str, first), os.environ.get("PATH", os.defpath), *_SBIN])
    found = {name: shutil.which(name, path=path) for name in (*_PACKAGES, *COMMANDS, "slurmstepd")}
    return {name: Path(text) for name, text in found.items() if text}


def not_installed() -> ConfigError:
    """Return the error that names the packages to install."""
    missing = missing_packages()
    return ConfigError(
        f"Missing packages for a private Slurm: {', '.join(missing)}.",
        hint=f"Install them: {command(missing)}",
    )


def command(packages: Sequence[str]) -> str:
    """Return the command that installs these packages."""
    return f"sudo apt-get install --no-install-recommends {' '.join(packages)}"


def version_of(slurmctld: Path, env: dict[str, str]) -> str:
    """Return the output of `slurmctld -V` ("slurm-wlm 22.05.8"). Raises ConfigError."""
    done = subprocess.run(
        [slurmctld, "-V"], env=os.environ | env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ConfigError(f"Cannot run {slurmctld}.", detail=done.stderr)
    return done.stdout.strip()


WANTED = ("slurm-wlm", "munge")


def can_unpack() -> bool:
    """Return whether this machine has the tools that `unpacked` needs."""
    return all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb"))


def unpacked(place: Path, say: Callable[[str], None]) -> Software:
    """Return the Slurm in the folder `place`; download it first if needed. Raise LocalClusterError,
    with apt's output, if the download failed.
    """
    root = place / "root"
    if not root.exists():
        shutil.rmtree(place, ignore_errors=True)
        say("Downloading the distribution's Slurm to a private folder …")
        _fetch(place)
        part = place / "part"
        for package in sorted((place / "packages").glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(part)])
        _name_daemons(part / "usr" / "sbin")
        part.rename(root)
        shutil.rmtree(place / "packages")
    return _describe(root)


def _fetch(place: Path) -> None:
    """Download the packages that are not installed, with private lists and caches."""
    lists, cache, packages = place / "apt" / "lists", place / "apt" / "cache", place / "packages"
    for folder in (lists / "partial", cache / "archives" / "partial", packages):
        make_private(folder)
    apt = [
        "apt-get",
        "-q=2",
        f"-oDir::State::lists={lists}",
        f"-oDir::Cache={cache}",
        "-oDebug::NoLocking=true",
    ]
    _run([*apt, "update"])
    told = _run([*apt, "install", "--print-uris", "--yes", "--no-install-recommends", *WANTED])
    # One line per package: 'URI' NAME_VERSION_ARCH.deb SIZE HASH
    lines = [line.split() for line in told.splitlines() if line.startswith("'")]
    _run([*apt, "download", *(line[1].partition("_")[0] for line in lines)], cwd=packages)
    shutil.rmtree(place / "apt")


def _name_daemons(sbin: Path) -> None:
    """Give Debian's `slurmd-wlm` etc. their usual names, as alternatives(7) does for root. The
    names matter, because a daemon derives its role from its name (Slurm's run_in_daemon).
    """
    for path in sbin.glob("*-wlm"):
        path.with_name(path.name.removesuffix("-wlm")).symlink_to(path.name)


def _describe(root: Path) -> Software:
    """Return the programs below `root`, and the system's programs for those not downloaded."""
    libraries = tuple(sorted({path.parent for path in root.rglob("lib*.so*")}))
    plugins = next((path.parent for path in root.rglob("auth_munge.so")), None)
    found = programs(root / "usr" / "sbin", root / "usr" / "bin")
    env = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
    return Software(
        found,
        version_of(found["slurmctld"], env),
        libraries,
        plugins,
        found.get("slurmstepd"),
    )


def _run(argv: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=os.environ | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalClusterError(
            "Cannot fetch the distribution's packages of Slurm.",
            hint=f"Install them: {command(WANTED)}",
            detail=done.stdout + done.stderr,
        )
    return done.stdout
