"""What is known before a job is sent: what the cluster offers, what would be sent, what is wrong.

Owns what clusters said of themselves, for a few minutes. A submission asks nobody: it is judged by
the profile, and by what happens to be known; only before it is refused by that, the cluster is
asked anew.
"""

from __future__ import annotations

import dataclasses
import time
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError, RequestError, SubmitError
from jupyter_slurm.jobs import costs, offers
from jupyter_slurm.jobs.asked import Asked, asked
from jupyter_slurm.jobs.cluster import SlurmCluster
from jupyter_slurm.jobs.clusters import Clusters
from jupyter_slurm.jobs.estimates import Estimates, Outlook
from jupyter_slurm.jobs.known import Source, known_partitions
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.limits import Judge
from jupyter_slurm.jobs.options import merged_options
from jupyter_slurm.jobs.prepare import prepare, runtime_of
from jupyter_slurm.profiles import ClusterProfile
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.wire import Check, ClusterInfo, JobKind, JobSpec, Preview

_INFO_KEPT_S = 300.0


class Beforehand:
    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._infos: dict[str, ClusterInfo] = {}
        self._estimates = Estimates()

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        """Asked again when it is older than a few minutes."""
        known = self._clusters.named(cluster)
        info = self._fresh(known.name)
        if info is None:
            info = self._ask(known)
        return _priced(info, known.profile)

    def preview(self, spec: JobSpec, estimate: bool = False) -> Preview:
        if spec.session is not None:
            raise RequestError(
                "A cell of a session is no submission of its own: there is nothing to preview.",
                hint="`%slurm session start … --dry-run` shows how the session would be submitted.",
            )
        cluster = self._clusters.named(spec.cluster)
        folder = JobDir(cluster.job_root() / spec.id)
        submission = prepare(spec, cluster.profile, folder, cluster.site(spec), key=b"")
        job = _asked(spec, cluster)
        checks, info = self._looked(cluster)
        checks += _interpreter(spec, cluster.profile)
        judge = Judge(cluster.profile, info)
        known = judge.partition(job)
        checks += [one.check() for one in judge.objections(job)]
        if info is not None:
            checks += costs.outlook(job, known, info, time.time())
        outlook = self._estimates.ask(cluster, spec.id, submission) if estimate else Outlook()
        return Preview(
            cluster=cluster.name,
            script=submission.script,
            sbatch=submission.sbatch,
            job_dir=str(folder.path),
            files=tuple(submission.files),
            command=submission.command,
            variables=submission.variables,
            cost=costs.cost(
                job,
                known,
                unit=cluster.profile.cost_unit,
                max_tres=info is not None and info.max_tres,
            ),
            checks=(*checks, *outlook.checks),
            start_estimate_s=outlook.start_s,
        )

    def judge(self, spec: JobSpec, cluster: SlurmCluster) -> str | None:
        """What the job should be warned of. SubmitError: sbatch would refuse it, and need not be
        asked; RequestError: it would by what the profile says."""
        job, info = _asked(spec, cluster), self._fresh(cluster.name)
        objections = Judge(cluster.profile, info).objections(job)
        if info is not None and any(one.certain and one.by is Source.CLUSTER for one in objections):
            # What is refused is refused by what holds now: it may have changed minutes ago.
            objections = Judge(cluster.profile, self._asked_anew(cluster)).objections(job)
        for one in objections:
            if one.certain:
                refusal = SubmitError if one.by is Source.CLUSTER else RequestError
                raise refusal(one.sentence, hint=one.hint)
        told = (f"{one.sentence} {one.hint}" for one in objections if not one.passing)
        return "\n".join(told) or None

    def _fresh(self, name: str) -> ClusterInfo | None:
        info = self._infos.get(name)
        recent = info is not None and time.time() - info.asked_s <= _INFO_KEPT_S
        return info if recent else None

    def _ask(self, cluster: SlurmCluster) -> ClusterInfo:
        info = self._infos[cluster.name] = offers.cluster_info(cluster)
        return info

    def _asked_anew(self, cluster: SlurmCluster) -> ClusterInfo | None:
        """None: it does not answer, and sbatch is to decide."""
        try:
            return self._ask(cluster)
        except JupyterSlurmError:
            return None

    def _looked(self, cluster: SlurmCluster) -> tuple[list[Check], ClusterInfo | None]:
        """What a preview shows does not depend on the controller's answering."""
        try:
            return [], self.cluster_info(cluster.name)
        except LoginNeededError:
            raise
        except JupyterSlurmError as exc:
            return [Check(ok=None, sentence=f"The cluster could not be asked: {exc}")], None


def _priced(info: ClusterInfo, profile: ClusterProfile) -> ClusterInfo:
    """With what only the profile says of its partitions."""
    told = known_partitions(profile, info)
    partitions = (
        replace(one, cost=told[one.name].cost, about=told[one.name].about)
        for one in info.partitions
    )
    return replace(info, partitions=tuple(partitions), cost_unit=profile.cost_unit)


def _asked(spec: JobSpec, cluster: SlurmCluster) -> Asked:
    """Of a batch script with what it says itself, which sbatch's command line overrides."""
    own = read_directives(spec.code) if spec.kind is JobKind.SCRIPT else {}
    wanted = asked({**own, **merged_options(spec, cluster.profile)})
    if spec.inputs is None:
        return wanted
    with suppress(OSError):  # whoever sends it says that it is not there
        wanted = dataclasses.replace(wanted, inputs_mib=Path(spec.inputs).stat().st_size >> 20)
    return wanted


def _interpreter(spec: JobSpec, profile: ClusterProfile) -> list[Check]:
    """Which Python runs the code, where no image says so."""
    if spec.kind not in (JobKind.CELL, JobKind.SESSION) or runtime_of(spec, profile) != "none":
        return []
    python = profile.for_job(spec).python
    sentence = f"Without an image the cell runs in `{python}` of the node."
    hint = "For another one set `python` in the cluster's profile, or load a module (--module)."
    return [Check(ok=None, sentence=sentence, hint=hint)]
