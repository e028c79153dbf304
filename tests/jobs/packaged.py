"""A site whose jobs install packages only from wheels of the tests."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_slurm.errors import SubmitError
from jupyter_slurm.wire import Environment, InstalledEnvironment, Job, JobState, ProgramJob
from tests.jobs.conftest import Site, spec
from tests.jobs.wheels import add_wheel, only_from

WHERE = "import alpha, sys, shutil; print(alpha.version, sys.prefix, shutil.which('python'))"
_BIN = Path(sys.executable).parent


class Packaged:
    """A site where pip and uv find only the wheels of a folder."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder
        add_wheel(folder, "alpha", requires=["beta"])
        add_wheel(folder, "beta")
        self.by_pip = only_from(folder)
        self.setup = f"{self.by_pip}export PATH={_BIN}:$PATH\n"
        site.edit_profile(python=sys.executable, setup=self.setup)

    def submit(self, *packages: str, code: str = WHERE, **changes: Any) -> Job:
        asked = {"environment": Environment(packages=packages), **changes}
        return self.site.service.submit(spec(code, **asked))

    def run(self, *packages: str, **changes: Any) -> Job:
        return self.site.wait(self.submit(*packages, **changes).id)

    def refused(self, *packages: str) -> Job:
        """Return the job that was not submitted because its packages cannot be installed."""
        asked = spec(WHERE, environment=Environment(packages=packages))
        with suppress(SubmitError):  # raised if the installation ends quickly
            self.site.service.submit(asked)
        job = self.site.wait(asked.id)
        assert job.state is JobState.REJECTED
        return job

    def installations(self) -> list[Job]:
        jobs = self.site.service.jobs()
        return [job for job in jobs if isinstance(job, ProgramJob)]

    def only(self) -> InstalledEnvironment:
        (found,) = self.site.service.environments()
        return found

    def root(self) -> Path:
        return Path(self.site.service._clusters.named(None).environments_root())


HOLDING = """#!/bin/sh
if [ "$1" = pip ]; then
  echo "holding on"
  until [ -e {gate} ]; do sleep 0.1; done
fi
exec {uv} "$@"
"""
"""Script of a uv that waits in the middle."""


def held(packaged: Packaged, tmp_path: Path) -> Path:
    """Make every installation wait until the file exists."""
    gate, folder = tmp_path / "gate", tmp_path / "bin"
    folder.mkdir()
    (folder / "uv").write_text(HOLDING.format(uv=_BIN / "uv", gate=gate))
    (folder / "uv").chmod(0o755)
    setup = f"{packaged.setup}export PATH={folder}:$PATH\n"
    packaged.site.edit_profile(python=sys.executable, setup=setup)
    return gate
