"""The distribution's packages of Slurm, unpacked into a private folder, without root.

For Debian and its children: apt-get finds, checks and fetches them, dpkg-deb unpacks them. The
resulting `Software` has what the programs need to find their own parts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from jupyter_slurm.errors import LocalClusterError
from jupyter_slurm.local_cluster import software
from jupyter_slurm.local_cluster.software import Software
from jupyter_slurm.places import make_private

WANTED = ("slurm-wlm", "munge")


def available() -> bool:
    """Tell whether this machine has the tools that `unpacked` needs."""
    return all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb"))


def unpacked(place: Path, say: Callable[[str], None]) -> Software:
    """Return the Slurm in the folder `place`; fetch it first if it is not there yet.

    LocalClusterError, with apt's words, if apt cannot fetch it.
    """
    root = place / "root"
    if not root.exists():
        shutil.rmtree(place, ignore_errors=True)
        say("Fetching the distribution's Slurm into a private folder …")
        _fetch(place)
        part = place / "part"
        for package in sorted((place / "packages").glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(part)])
        _name_daemons(part / "usr" / "sbin")
        part.rename(root)
        shutil.rmtree(place / "packages")
    return _describe(root)


def _fetch(place: Path) -> None:
    """Fetch the packages that are not installed, with lists and caches of our own."""
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
    # One line a package: 'URI' NAME_VERSION_ARCH.deb SIZE HASH
    lines = [line.split() for line in told.splitlines() if line.startswith("'")]
    _run([*apt, "download", *(line[1].partition("_")[0] for line in lines)], cwd=packages)
    shutil.rmtree(place / "apt")


def _name_daemons(sbin: Path) -> None:
    """Give Debian's `slurmd-wlm` and so on their own names, as alternatives(7) does for root.

    The names matter: a daemon learns its role from its name (slurm's run_in_daemon).
    """
    for path in sbin.glob("*-wlm"):
        path.with_name(path.name.removesuffix("-wlm")).symlink_to(path.name)


def _describe(root: Path) -> Software:
    """Return the programs below `root`, and the system's for those that need no fetching."""
    libraries = tuple(sorted({path.parent for path in root.rglob("lib*.so*")}))
    plugins = next((path.parent for path in root.rglob("auth_munge.so")), None)
    programs = software.programs(root / "usr" / "sbin", root / "usr" / "bin")
    env = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
    return Software(
        programs,
        software.version_of(programs["slurmctld"], env),
        libraries,
        plugins,
        programs.get("slurmstepd"),
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
            "The distribution's packages of Slurm cannot be fetched.",
            hint=f"Install them: {software.command(WANTED)}",
            detail=done.stdout + done.stderr,
        )
    return done.stdout
