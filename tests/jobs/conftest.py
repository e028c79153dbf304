"""A Service on a real Slurm in this process, and specs of jobs."""

from __future__ import annotations

import secrets
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.jobs.service import Service
from jupyter_slurm.wire import Job, JobSpec, JobState, Output, Stream
from tests.cluster.plugin import SlurmCluster, jupyter_homes
from tests.specs import job_spec
from tests.ssh.profile import SshSlurm, write_profile
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
QUICK = {
    "lookup_gap_s": 1.0,
    "lost_after_s": 2.0,
    "exit_grace_s": 20.0,
    "poll_s": 0.3,
}
"""Settings of a profile with short intervals, for events that usually take minutes."""
IMPATIENT = {"command_timeout_s": 3.0, "submit_timeout_s": 3.0}
"""Settings of a profile with short timeouts. Only tests of silent controllers use them, since a
busy machine could exceed them."""


def spec(code: str, **changes: Any) -> JobSpec:
    """Return a cell for the node's Python."""
    job_id = "".join(secrets.choice(LETTERS) for _ in range(8))
    return job_spec(code, id=job_id, **changes)


class Site:
    """A Service on a cluster. To restart the service, close it and open another service on the same
    store."""

    def __init__(
        self,
        cluster: SlurmCluster,
        home: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        sshd: Sshd | None = None,
        **settings: Any,
    ) -> None:
        """Open the site. With `sshd`, connect over SSH."""
        self.cluster = cluster
        for name, value in jupyter_homes(home).items():
            monkeypatch.setenv(name, value)
        self._home = home
        self._far = None if sshd is None else SshSlurm(cluster, sshd)
        self.edit_profile(**settings)
        for name, value in (self._far.env if self._far else {}).items():
            monkeypatch.setenv(name, value)
        self.service = Service()

    def edit_profile(self, **settings: Any) -> None:
        """Write the profile with the cluster's settings, short intervals, and these settings."""
        settings = {**QUICK, "job_root": str(self._home / "it's a root"), **settings}
        if self._far is not None:
            self._far.write_profile(self._home / "config", **settings)
            return
        profile = tomllib.loads(self.cluster.profile_path.read_text(encoding="utf-8"))
        write_profile(self._home / "config", self.cluster.name, {**profile, **settings})

    def at(self, folder: Path, **options: str) -> dict[str, Any]:
        """Return the spec fields to run in `folder`. Over SSH the folder is the option --chdir,
        since the notebook's folder is unknown on the cluster."""
        if self.service.clusters()[0].host is None:
            return {"cwd": str(folder), "options": options}
        return {"options": {**options, "chdir": str(folder)}}

    def restart(self) -> Service:
        self.service.close()
        self.service = Service()
        return self.service

    def run(self, code: str, limit_s: float = 120, **changes: Any) -> Job:
        """Submit a job, wait for its end, and return it."""
        return self.wait(self.service.submit(spec(code, **changes)).id, limit_s=limit_s)

    def wait(self, job_id: str, *wanted: JobState, limit_s: float = 120) -> Job:
        """Return the job once it is in one of these states. Without states, return it once it has
        ended."""

        def there(job: Job) -> bool:
            return job.state in wanted if wanted else job.state.final

        deadline_s = time.monotonic() + limit_s
        cursor = ""
        while not there(job := self.service.job(job_id)):
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{job.state} ({job.why}, {job.problem}), wanted {wanted}"
            cursor = self.service.changes(cursor, left_s).cursor
        return job

    def outputs(self, job_id: str) -> list[Output]:
        found: list[Output] = []
        cursor = ""
        while True:
            chunk = self.service.logs(job_id, cursor, wait_s=30, budget_bytes=None)
            found += chunk.outputs
            cursor = chunk.cursor
            if chunk.end:
                return found

    def text(self, job_id: str, name: str = "stdout") -> str:
        streams = [o for o in self.outputs(job_id) if isinstance(o, Stream) and o.name == name]
        return "".join(stream.text for stream in streams)

    def so_far(self, job_id: str) -> str:
        """Return the job's output so far, as text."""
        chunk = self.service.logs(job_id, budget_bytes=None)
        return "".join(str(getattr(output, "text", "")) for output in chunk.outputs)

    def wait_until_slurm_forgets(self) -> None:
        """Wait until a controller with a short `MinJobAge` purges its ended jobs. This takes up to
        30 s."""
        wait_until(lambda: not self.slurm_jobs())

    def slurm_jobs(self) -> list[str]:
        """Return the Slurm IDs of this site's jobs, in any state."""
        told = self.cluster.run("squeue", "-h", "-t", "all", "-o", "%A|%k").stdout
        ours = {job.id for job in self.service.jobs()}
        return [
            line.split("|")[0]
            for line in told.splitlines()
            if line.partition("jslurm:")[2].split(" ")[0] in ours
        ]


over_ssh = pytest.mark.parametrize("way", ["over ssh"], indirect=True)
"""Mark of tests that use their site over SSH: tests of files, long output, connections and
logins."""


@pytest.fixture
def way(request: pytest.FixtureRequest) -> Sshd | None:
    """Return the sshd of tests marked `over_ssh`, else None."""
    way: str = getattr(request, "param", "here")
    if way == "here":
        return None
    far: SshSlurm = request.getfixturevalue("ssh_slurm")
    return far.sshd


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Yield a site on the shared cluster."""
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=way)
    yield site
    site.service.close()


@pytest.fixture
def private_site(
    private_cluster: Callable[..., SlurmCluster],
    way: Sshd | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Site]]:
    """Yield a factory of sites on their own cluster: `private_site(nodes=1, extra_conf=(...,))`;
    `private_site(**IMPATIENT)` for silent controllers."""
    made: list[Site] = []

    def make(**wanted: Any) -> Site:
        settings = {name: wanted.pop(name) for name in IMPATIENT if name in wanted}
        cluster = private_cluster(**wanted)
        home = tmp_path / f"site{len(made)}"
        made.append(Site(cluster, home, monkeypatch, sshd=way, **settings))
        return made[-1]

    yield make
    for site in made:
        site.service.close()
