"""A real Apptainer for the tests, and the demo's image as a `.sif`."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.cluster.image import ROOT
from tests.cluster.started import started

_PATIENCE_S = 280.0


@dataclass(frozen=True)
class ApptainerEngine:
    bin: Path
    """The folder of `apptainer` and `singularity`."""
    sif: Path
    """Image with Python, NumPy, Matplotlib and tqdm. Do not change it."""
    folder: Path
    """The demo's image as a folder."""

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

    @property
    def unprivileged(self) -> dict[str, str]:
        """Environment of a cluster without set-uid, where Apptainer uses a user namespace and
        squashfuse."""
        return self.env | {"APPTAINER_USERNS": "1"}

    def copied(self, folder: Path) -> ApptainerEngine:
        """Copy the programs to a new `folder`, for users who cannot read this user's cache."""
        shutil.copytree(self.bin.parent, folder, symlinks=True)
        (loader,) = folder.glob("lib/*/ld-linux*.so.*")
        (starter,) = folder.glob("lib/*/apptainer/bin/starter")
        for program in (folder / "bin" / "apptainer", starter):
            # scripts/apptainer wrote the path of its libraries into each program.
            where = ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath"]
            argv = ["patchelf", *where, str(loader.parent), str(program)]
            subprocess.run(argv, check=True, timeout=_PATIENCE_S)
        return replace(self, bin=folder / "bin")

    def run(self, *words: str | Path) -> str:
        """Run `apptainer WORDS`, which must succeed, and return its output."""
        done = subprocess.run(
            ["apptainer", *words],
            env=os.environ | self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def exports(env: Mapping[str, str]) -> str:
    """Return export lines for a profile's `setup`."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in env.items())


def installed_apptainer(demo_image: Path) -> ApptainerEngine:
    """Return the Apptainer in the user's cache, with the `.sif`. Install it if it is missing (about
    10 s)."""
    done = subprocess.run(
        [ROOT / "scripts" / "apptainer"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_PATIENCE_S,
    )
    programs = Path(done.stdout.removesuffix(os.linesep))
    sif = programs.parent.parent / "apptainer-images" / f"{demo_image.name}.sif"
    engine = ApptainerEngine(programs, sif, demo_image)
    sif.parent.mkdir(exist_ok=True)
    with (sif.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not sif.exists() or sif.stat().st_mtime < demo_image.stat().st_mtime:
            partial = sif.with_name(f".{sif.name}.partial")
            # Building a folder takes seconds, and a packed image a minute.
            engine.run(
                "build", "--force", "--mksquashfs-args=-noI -noD -noF -noX", partial, demo_image
            )
            partial.rename(sif)
    return engine


@pytest.fixture(scope="session")
def apptainer_engine(demo_image: Path) -> ApptainerEngine:
    return started("Apptainer", lambda: installed_apptainer(demo_image))
