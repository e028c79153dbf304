"""Previews and judges jobs before they are sent, by what clusters offer and profiles say.

Keeps for a few minutes what clusters said of themselves. Judges a submission by the profile and by
what is kept; asks a cluster anew at most once an hour, if the job asks for what sbatch would take
and let wait for ever, and before it refuses a job.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from jupyter_slurm.errors import (
    CodeError,
    JupyterSlurmError,
    LoginNeededError,
    RequestError,
    SubmitError,
)
from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.preflight import costs, lacking, offers, one_process, spending, syntax
from jupyter_slurm.jobs.preflight.estimates import Estimates, Outlook
from jupyter_slurm.jobs.preflight.limits import Judge, of_inputs
from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.jobs.preflight.partition_facts import Source, known_partitions
from jupyter_slurm.jobs.preflight.resources import Resources, resources_of
from jupyter_slurm.jobs.submission.prepare import prepare
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.slurm.directives import ignored_directive
from jupyter_slurm.wire import CellSpec, Check, ClusterInfo, Job, JobSpec, Preview, Spending

_INFO_KEPT_S = 30.0
"""Seconds for which figures of free nodes and GPUs are shown without another question."""
_REFUSAL_KEPT_S = 300.0
_LIMITS_KEPT_S = 3600.0
"""Limits of partitions change seldom, and what speaks against a job is asked for anew."""


class Preflight:
    def __init__(self, clusters: Clusters, jobs: Callable[[str | None], list[Job]]) -> None:
        """Take `jobs`, which returns a cluster's jobs: they tell of its Pythons."""
        self._clusters = clusters
        self._jobs = jobs
        self._infos: dict[str, ClusterInfo] = {}
        self._judged_by: dict[str, ClusterInfo] = {}
        """Resources for a submission; apart, as it knows nothing of the job that followed."""
        self._estimates = Estimates()

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        """Return what the cluster offers, asked again when it is older than half a minute."""
        known = self._clusters.named(cluster)
        info = self._fresh(known.name)
        if info is None:
            info = self._ask(known)
        return _priced(info, known.profile)

    def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
        """Return what `Api.spending` does."""
        known = self._clusters.named(cluster)
        return spending.spending(known, self.cluster_info(known.name), since_s)

    def preview(self, job: Resolved, cluster: SlurmCluster, estimate: bool = False) -> Preview:
        submission = prepare(job)
        wanted = _resources(job)
        checks, info = self._looked(cluster)
        checks += _interpreter(job)
        judge = Judge(cluster.profile, info)
        known = judge.partition(wanted)
        objections = [*judge.objections(wanted), *_of_many_nodes(job, wanted)]
        objections += _of_ignored_lines(job.spec)
        if missing := _missing_folder(job, cluster):
            objections.append(missing)
        if fault := self._fault(job.spec, cluster.name):
            objections.append(fault)
        objections += _of_one_process(job, wanted)
        objections += lacking.objections(job.spec, self._jobs(cluster.name))
        checks += [one.check() for one in objections]
        if info is not None:
            checks += costs.outlook(wanted, known, info, time.time())
        # sbatch, which need not know of the refusal, may well say when the job would start.
        hopeless = any(one.certain for one in objections)
        ask = estimate and not hopeless
        outlook = self._estimates.ask(cluster, submission) if ask else Outlook()
        return Preview(
            cluster=cluster.name,
            script=submission.script,
            sbatch=submission.sbatch,
            job_dir=str(job.job_dir.path),
            files=tuple(submission.files),
            variables=submission.variables,
            cost=costs.cost(
                wanted,
                known,
                unit=cluster.profile.cost_unit,
                max_tres=info is not None and info.max_tres,
            ),
            checks=(*checks, *outlook.checks),
            start_estimate_s=outlook.start_s,
        )

    def judge(self, job: Resolved, cluster: SlurmCluster) -> str | None:
        """Return what to warn the user of. SubmitError: sbatch would refuse it, and need not be
        asked; RequestError: it would by what the profile says; CodeError: it does not compile."""
        fault = self._compiled(job.spec, cluster.name)
        wanted, info = _resources(job), self._newest(cluster.name)
        if info is None and (wanted.limit_s is not None or wanted.nodes > 1):
            objections = Judge(cluster.profile, self._asked_anew(cluster)).objections(wanted)
        else:
            objections = Judge(cluster.profile, info).objections(wanted)
            by_it = [one for one in objections if one.by is Source.CLUSTER and not one.passing]
            if by_it and (
                not _is_fresh(info, _REFUSAL_KEPT_S) or any(one.certain for one in by_it)
            ):
                # What is refused is refused by what holds now: it may have changed minutes ago.
                objections = Judge(cluster.profile, self._asked_anew(cluster)).objections(wanted)
        objections += _of_many_nodes(job, wanted)
        if missing := _missing_folder(job, cluster):
            objections.append(missing)
        for one in objections:
            if one.certain:
                refusal = SubmitError if one.by is Source.CLUSTER else RequestError
                raise refusal(one.sentence, hint=one.hint, option=one.option)
        objections += fault
        objections += _of_ignored_lines(job.spec)
        objections += _of_one_process(job, wanted)
        objections += lacking.objections(job.spec, self._jobs(cluster.name))
        warnings = (one.text for one in objections if not one.passing)
        return joined(*warnings, between="\n") or None

    def judge_cell(self, spec: CellSpec, memory_mib: int | None) -> str | None:
        """Return what a cell of a session that has so much memory should be warned of."""
        cell = _with_inputs(Resources(memory_per_node_mib=memory_mib), spec)
        found = [*self._compiled(spec, None), *of_inputs(cell)]
        return joined(*(one.text for one in found), between="\n") or None

    def _compiled(self, spec: JobSpec, cluster: str | None) -> list[Objection]:
        """Return what to warn of in the code. CodeError: the job's Python cannot compile it."""
        fault = self._fault(spec, cluster)
        if fault is not None and fault.certain:
            raise CodeError(fault.sentence, hint=fault.hint, option=fault.option)
        return [] if fault is None else [fault]

    def _fault(self, spec: JobSpec, cluster: str | None) -> Objection | None:
        """Return the code's syntax error. A notebook's cell, which has a fingerprint, was read by
        its own IPython, which alone knows all of its magics."""
        if not kind_of(spec).is_python or spec.fingerprint is not None:
            return None
        error = syntax.fault_of_cell(spec.code, syntax.THE_CODE)
        if error is None:
            return None
        certain = syntax.is_certain(error, spec.code, spec, self._jobs(cluster))
        hint = "" if certain else syntax.newer()
        return Objection(syntax.sentence(error), hint, certain, Source.PROFILE, "code")

    def _fresh(self, name: str) -> ClusterInfo | None:
        info = self._infos.get(name)
        return info if _is_fresh(info, _INFO_KEPT_S) else None

    def _newest(self, name: str) -> ClusterInfo | None:
        """Return what a submission is judged by."""
        known = [of[name] for of in (self._infos, self._judged_by) if name in of]
        info = max(known, key=lambda one: one.asked_s, default=None)
        return info if _is_fresh(info, _LIMITS_KEPT_S) else None

    def _ask(self, cluster: SlurmCluster) -> ClusterInfo:
        info = self._infos[cluster.name] = offers.cluster_info(cluster)
        return info

    def _asked_anew(self, cluster: SlurmCluster) -> ClusterInfo | None:
        """Ask the cluster anew; None: it does not answer, and sbatch is to decide."""
        try:
            self._judged_by[cluster.name] = offers.cluster_info(cluster)
        except JupyterSlurmError:
            return None
        return self._judged_by[cluster.name]

    def _looked(self, cluster: SlurmCluster) -> tuple[list[Check], ClusterInfo | None]:
        """Return what the cluster offers; without an answer, a check that says so."""
        try:
            return [], self.cluster_info(cluster.name)
        except LoginNeededError:
            raise
        except JupyterSlurmError as exc:
            unknown = f"Cannot ask the cluster: {exc.message}"
            return [Check(ok=None, sentence=unknown, hint=exc.hint)], None


def check_previewable(spec: JobSpec) -> None:
    """Raise RequestError for a cell of a session, which is not submitted by itself."""
    if spec.session is not None:
        raise RequestError(
            "A cell of a session is not submitted by itself, so there is nothing to preview.",
            hint="`%slurm session start … --dry-run` shows how its session would be submitted.",
        )


def _is_fresh(info: ClusterInfo | None, kept_s: float) -> bool:
    return info is not None and time.time() - info.asked_s <= kept_s


def _priced(info: ClusterInfo, profile: ClusterProfile) -> ClusterInfo:
    """Add what only the profile says of its partitions."""
    told = known_partitions(profile, info)
    partitions = (
        replace(one, cost=told[one.name].cost, about=told[one.name].about)
        for one in info.partitions
    )
    return replace(info, partitions=tuple(partitions), cost_unit=profile.cost_unit)


def _missing_folder(job: Resolved, cluster: SlurmCluster) -> Objection | None:
    """Return why the job cannot begin in the folder that was named; of one in an image nothing is
    known here. Slurm would run it in /tmp."""
    folder = job.effective_options.get("chdir", "")
    if job.in_image or not folder.startswith(("/", "~/")):
        return None
    home = PurePosixPath(job.site.home)
    if cluster.transport.exists(home / folder[2:] if folder[0] == "~" else PurePosixPath(folder)):
        return None
    return Objection(
        f"There is no folder {folder} on {cluster.name}.",
        "Create it there, or name another. If only the nodes have it, change to it in the code.",
        certain=True,
        option="chdir",
    )


def _of_one_process(job: Resolved, wanted: Resources) -> Iterator[Objection]:
    if job.kind.runner is not None and job.spec.launch is None:
        yield from one_process.objections(wanted, job.options)


def _of_ignored_lines(spec: JobSpec) -> Iterator[Objection]:
    """Yield that sbatch ignores options of the script."""
    if kind_of(spec).takes_arguments and (line := ignored_directive(spec.code)):
        yield Objection(
            f"sbatch ignores `{line}`: it follows the first command.",
            "Move it to the top of the script.",
            certain=False,
            by=Source.PROFILE,
            option="code",
        )


def _of_many_nodes(job: Resolved, wanted: Resources) -> Iterator[Objection]:
    """Yield that the job's nodes may get unlike numbers of GPUs, of which no step can have all
    (seen with Slurm 22.05)."""
    asked = job.effective_options.get("gpus")
    if job.spec.launch is None or asked is None or wanted.nodes < 2:
        return
    kind, colon, _ = asked.partition(",")[0].rpartition(":")
    each = max(1, wanted.gpus // wanted.nodes)
    yield Objection(
        f"With --gpus {asked}, Slurm may give each of the {wanted.nodes} nodes another number of "
        "GPUs, and then --launch cannot use all of them.",
        f"Ask for --gpus-per-node {kind}{colon}{each}.",
        certain=True,
        by=Source.PROFILE,
        option="gpus",
    )


def memory_mib(job: Resolved) -> int | None:
    """Return the memory that the job asks for on each node; None: it leaves that open."""
    return _resources(job).memory_per_node_mib


def _resources(job: Resolved) -> Resources:
    return _with_inputs(resources_of(job.effective_options), job.spec)


def _with_inputs(wanted: Resources, spec: JobSpec) -> Resources:
    if not isinstance(spec, CellSpec) or spec.inputs is None:
        return wanted
    with suppress(OSError):  # the sender says that it is not there
        file_mib = Path(spec.inputs).stat().st_size >> 20
        wanted = dataclasses.replace(wanted, inputs_mib=file_mib)
    return wanted


def _interpreter(job: Resolved) -> list[Check]:
    """Say which Python runs the code, where no image says so."""
    if not job.kind.has_records or job.in_image:
        return []
    sentence = f"Without an image the cell runs in `{job.profile.python}` of the node."
    hint = "For another one set `python` in the cluster's profile, or load a module (--module)."
    return [Check(ok=None, sentence=sentence, hint=hint)]
