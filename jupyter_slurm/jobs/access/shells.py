"""Shells on the user's own terminal, run by `srun --pty` in a new allocation or in a running job.

The agent only prepares the argv, and the front end runs it. srun and OpenSSH therefore handle the
terminal's size, signals, colors and exit codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec

from jupyter_slurm.containers.runtime import SWEEP
from jupyter_slurm.errors import CommandError, RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.access.node_routes import place_of
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.outcome.allocation import ask_jobs
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission.dependencies import with_dependency
from jupyter_slurm.jobs.submission.prepare import prepare_shell
from jupyter_slurm.jobs.submission.resolve import Resolved, resolve
from jupyter_slurm.slurm import srun
from jupyter_slurm.slurm.units import parse_nodelist
from jupyter_slurm.wire import Job, ProgramSpec, new_id

_DEPENDENCY_WAIT_S = 20.0


class Shells:
    def __init__(self, registry: JobRegistry, clusters: Clusters) -> None:
        self._registry = registry
        self._clusters = clusters

    def shell(self, spec: ProgramSpec) -> list[str]:
        """Prepare a shell in its own allocation; see `Api.shell`."""
        cluster = self._clusters.named(spec.cluster)
        cluster.check_configuration(spec.slurm_conf)
        job = with_dependency(_resolved(spec, cluster), self._registry, _DEPENDENCY_WAIT_S)
        files, options = prepare_shell(job)
        folder = job.job_dir.path
        words = _swept(str(folder / layout.ENTER), *_program(spec.code))
        argv = srun.allocation_argv(options, words, version=cluster.srun_version())
        return cluster.on_terminal(folder, files, argv)

    def shell_in_job(self, job_id: str, code: str, node: str | None = None) -> list[str]:
        """Prepare a shell in a running job; see `Api.shell_in_job`."""
        job = self._registry.job(job_id)
        if job.session is not None:
            job = self._registry.job(job.session)
        slurm_id, first = place_of(job)
        cluster = self._clusters.named(job.cluster)
        where = first if node is None else self._checked(job, node, cluster)
        enter = () if kind_of(job).is_raw_script else (f"{job.job_dir}/{layout.ENTER}",)
        words = _swept(*enter, *_program(code))
        gpus = self._unasked_gpus(job, where, cluster)
        version = cluster.srun_version()
        argv = srun.terminal_argv(slurm_id, words, node=where, version=version, gpus=gpus)
        return cluster.on_terminal(cluster.job_root() / new_id(), {}, argv)

    def _unasked_gpus(self, job: Job, node: str, cluster: SlurmCluster) -> int:
        """Return the number of GPUs that the job has on the node without having requested GPUs.
        Return 0 if the job requested GPUs, or if the number is unknown."""
        if job.gpus:
            return 0
        with suppress(CommandError):  # the terminal then has no GPUs
            rows = ask_jobs(cluster, self._registry.record(job.id))
            return max((row.unasked_gpus(node) for row in rows), default=0)
        return 0

    def _checked(self, job: Job, node: str, cluster: SlurmCluster) -> str:
        """Return the node if the job runs on it. Otherwise raise a RequestError that names the
        job's nodes."""
        nodes = job.nodes
        if node not in nodes:  # just after the start, only the first node may be known
            rows = ask_jobs(cluster, self._registry.record(job.id))
            with suppress(ValueError):
                nodes = tuple(name for row in rows for name in parse_nodelist(row.nodelist or ""))
        if node not in nodes:
            raise RequestError(
                f"Job {job.id} is not running on {node}.",
                hint=f"Use one of its nodes: {', '.join(nodes or job.nodes)}.",
            )
        return node


def _resolved(spec: ProgramSpec, cluster: SlurmCluster) -> Resolved:
    """Resolve the spec for a shell. A remote shell starts in the home folder, as after a login, or
    in the scratch folder if the home folder is not shared with the nodes. It does not start in the
    job's folder, which is removed with the shell."""
    profile = cluster.profile
    if profile.host is not None and "chdir" not in {**profile.defaults, **spec.options}:
        scratch = profile.storage.scratch
        is_path = profile.storage.hidden and scratch and not {*"{$"} & {*scratch}
        folder = scratch if is_path else "~"
        spec = msgspec.structs.replace(spec, options={**spec.options, "chdir": folder})
    job = resolve(spec, cluster)
    unstaged = msgspec.structs.replace(job.profile.storage, stage=False)
    return replace(job, profile=msgspec.structs.replace(job.profile, storage=unstaged))


def _program(code: str) -> Sequence[str]:
    return ("/bin/sh", "-c", code)


def _swept(*argv: str) -> Sequence[str]:
    return ("/bin/sh", "-c", SWEEP, "sh", *argv)
