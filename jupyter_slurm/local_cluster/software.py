"""Find the installed Slurm, and what is missing. This looks at the disk and starts no daemon."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_slurm.errors import ConfigError

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
    """The programs of one installation, by name.

    If they are not in the system's places: `libraries` are the folders of their libraries,
    `plugins` that of Slurm's plugins, and `stepd` is the slurmstepd for slurmd.
    """

    programs: dict[str, Path]
    version_text: str
    libraries: tuple[Path, ...] = ()
    plugins: Path | None = None
    stepd: Path | None = None

    @property
    def version(self) -> tuple[int, int]:
        """Return (22, 5) for "slurm-wlm 22.05.8". ConfigError."""
        found = re.search(r"(\d+)\.(\d+)", self.version_text)
        if found is None:
            raise ConfigError(f"slurmctld -V said {self.version_text!r}, which is not a version.")
        return int(found[1]), int(found[2])

    @property
    def commands(self) -> dict[str, Path]:
        """Return Slurm's commands for users, by name."""
        return {name: self.programs[name] for name in COMMANDS if name in self.programs}

    def environment(self, conf: Path) -> dict[str, str]:
        """Return the environment for Slurm's programs: the caller's, without another Slurm's."""
        env = {key: text for key, text in os.environ.items() if not key.startswith(("SLURM", "SB"))}
        env["SLURM_CONF"] = str(conf)
        if self.libraries:
            env["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, self.libraries))
        return env


def missing_packages() -> tuple[str, ...]:
    """Return the Debian packages of the programs that this machine lacks; () if it has all."""
    there = programs()
    return tuple(dict.fromkeys(pkg for name, pkg in _PACKAGES.items() if name not in there))


def installed() -> Software | None:
    """Return the system's programs, or None if one is missing."""
    if missing_packages():
        return None
    found = programs()
    return Software(found, version_of(found["slurmctld"], {}))


def programs(*first: Path) -> dict[str, Path]:
    """Return the existing programs, by name: those in the folders `first`, else the system's."""
    path = os.pathsep.join([*map(str, first), os.environ.get("PATH", os.defpath), *_SBIN])
    found = {name: shutil.which(name, path=path) for name in (*_PACKAGES, *COMMANDS, "slurmstepd")}
    return {name: Path(text) for name, text in found.items() if text}


def not_installed() -> ConfigError:
    """Return the error that names the packages to install."""
    missing = missing_packages()
    return ConfigError(
        f"A private Slurm needs packages that are not on this machine: {', '.join(missing)}.",
        hint=f"Install them: {command(missing)}",
    )


def command(packages: Sequence[str]) -> str:
    """Return the command that installs these packages."""
    return f"sudo apt-get install --no-install-recommends {' '.join(packages)}"


def version_of(slurmctld: Path, env: dict[str, str]) -> str:
    """Return the output of `slurmctld -V` ("slurm-wlm 22.05.8"). ConfigError."""
    done = subprocess.run(
        [slurmctld, "-V"], env=os.environ | env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ConfigError(f"{slurmctld} does not run.", detail=done.stderr)
    return done.stdout.strip()
