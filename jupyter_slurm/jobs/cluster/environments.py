"""The package environments on a cluster, and the jobs that install them.

A job installs the packages with the script of `environment_script`, unless they are installed or
another job is installing them.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta, Struct

from jupyter_slurm.errors import (
    FileAccessError,
    MalformedError,
    NotFoundError,
    RequestError,
    SubmitError,
)
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.environment_script import (
    EnvironmentPlan,
    detail,
    progress,
    render,
)
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.untrusted_json import Moment, read_json
from jupyter_slurm.wire import (
    InstalledEnvironment,
    Job,
    JobSpec,
    JobState,
    ProgramSpec,
    new_id,
)

_SHARED = frozenset("partition account qos reservation constraint clusters".split())
"""Options of a job that also apply to the installation of its packages."""
_TAIL_BYTES = 8192
_MOST_BYTES = 1 << 20
_REMOVE_S = 600.0

_LIST = """
cd -- "$1" 2>/dev/null || exit 0
for one in *; do
  [ -L "$one" ] && [ -f "$one/about.json" ] || continue
  printf '%s\\0%s\\0%s\\0' "$one" "$(stat -Lc %Y -- "$one/used" 2>/dev/null)" \\
    "$(cat -- "$one/about.json")"
done
"""
# Remove the link first, so that jobs do not find a partly removed environment.
_REMOVE = """
cd -- "$1" || exit
shift
for one; do
  folder=$(readlink -- "$one") && rm -f -- "$one" && rm -rf -- "$folder" ".$one.lock" || exit
done
"""


class _About(Struct, frozen=True, kw_only=True):
    packages: tuple[str, ...] = ()
    file: str | None = None
    tool: Annotated[str, Meta(pattern=r"\A[a-z]{1,20}\Z")]
    python: str = ""
    made_s: Moment
    size_kib: int | None = None


class Environments:
    """The environments of all clusters. `environments` and `remove_environments` are calls of
    `api.Api`."""

    def __init__(
        self, registry: JobRegistry, clusters: Clusters, submit: Callable[[JobSpec], Job]
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._submit = submit
        self._installing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """Locks by cluster. Two jobs that need the same packages at once share one installation."""

    def environments(self, cluster: str | None = None) -> list[InstalledEnvironment]:
        return _installed(self._clusters.named(cluster))

    def remove_environments(
        self, ids: Sequence[str], cluster: str | None = None, unused_s: float | None = None
    ) -> list[InstalledEnvironment]:
        known = self._clusters.named(cluster)
        there = {one.id: one for one in _installed(known)}
        users = {
            record.job.environment_id: record.job for record in self._registry.live(known.name)
        }
        for one in ids:
            if one not in there:
                raise NotFoundError(
                    f"Environment {one!r} not found on {known.name}.",
                    hint="List environments with `%slurm env`.",
                )
            if one in users:
                raise RequestError(
                    f"The environment {one} is in use by job {users[one].id}.",
                    hint="Cancel the job, or wait for its end.",
                )
        gone = [there[one] for one in dict.fromkeys(ids)]
        if unused_s is not None:
            before_s = time.time() - unused_s
            gone += [
                one
                for one in there.values()
                if one.id not in users
                and one not in gone
                and max(one.used_s or 0.0, one.made_s or 0.0) < before_s
            ]
        if gone:
            argv = [
                "sh",
                "-c",
                _REMOVE,
                "remove",
                str(known.environments_root()),
                *(one.id for one in gone),
            ]
            done = known.transport.run(argv, timeout_s=_REMOVE_S)
            if done.returncode != 0:
                raise FileAccessError(
                    "Cannot remove the environments.", detail=done.stderr.decode(errors="replace")
                )
        return gone

    def installation(
        self, plan: EnvironmentPlan, cluster: SlurmCluster, spec: JobSpec
    ) -> Job | None:
        """Return the job that installs the packages of `spec`; submit it if needed. Return None if
        they are installed. Raises the errors of `Api.submit`."""
        record = PurePosixPath(plan.record)
        if cluster.transport.exists(record):
            return None
        mark = f"environment {cluster.name} {plan.id}"
        with self._installing[cluster.name]:
            for one in self._registry.live(cluster.name):
                if one.job.fingerprint == mark:
                    return one.job
            if cluster.transport.exists(record):  # installed by another job
                return None
            on_login = cluster.profile.install_on == "login"
            return self._submit(
                ProgramSpec(
                    id=new_id(),
                    name=f"packages-{plan.id}",
                    code=render(plan),
                    cluster=cluster.name,
                    options={}
                    if on_login
                    else {name: one for name, one in spec.options.items() if name in _SHARED},
                    runtime="none",
                    modules=spec.modules,
                    fingerprint=mark,
                    on_login=on_login,
                )
            )

    def told(self, job: Job, cluster: SlurmCluster) -> str:
        """Return the progress of the installation. Raises TransportError."""
        if job.started_s is None:
            return f"Installing packages in job {job.id}, which is {job.state.word}."
        line = progress(_log_tail(job, cluster))
        return f"Installing packages: {line}" if line else "Installing packages."

    def check_installed(self, job: Job, cluster: SlurmCluster) -> None:
        """Raise SubmitError if the job has ended without installing the packages. The waiting job
        reports this failure to the user, so mark the installation as delivered."""
        self._registry.change(job.id, delivered=True)
        if job.state is JobState.COMPLETED:
            return
        raise SubmitError(
            job.why or f"The packages were not installed: job {job.id} is {job.state.word}.",
            hint=job.advice,
            detail=detail(_log_tail(job, cluster)) or None,
            option="with",
        )


def _installed(cluster: SlurmCluster) -> list[InstalledEnvironment]:
    root = cluster.environments_root()
    output = cluster.transport.run(["sh", "-c", _LIST, "list", str(root)]).stdout
    words = output.decode(errors="replace").split("\0")[:-1]
    found = []
    for name, used, text in zip(words[::3], words[1::3], words[2::3], strict=True):
        with suppress(MalformedError):
            about = read_json(text.encode(), _About, _MOST_BYTES)
            found.append(
                InstalledEnvironment(
                    id=name,
                    packages=about.packages,
                    file=about.file,
                    tool=about.tool,
                    python=about.python,
                    path=str(root / name),
                    size_mib=None if about.size_kib is None else about.size_kib / 1024,
                    made_s=about.made_s,
                    used_s=float(used) if used.isdecimal() else None,
                )
            )
    return found


def _log_tail(job: Job, cluster: SlurmCluster) -> str:
    log = JobDir(PurePosixPath(job.job_dir)).log(0)
    return (cluster.transport.read(log, -_TAIL_BYTES) or b"").decode(errors="replace")
