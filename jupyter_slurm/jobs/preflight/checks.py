"""Checks of a job before its submission, for errors that Slurm does not detect, such as syntax
errors, ignored lines or a missing folder. Previews also warn about requests above a partition's
maxima.

A check with `ok=False` stops the submission. Slurm judges everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from jupyter_slurm.errors import CodeError, SubmitError
from jupyter_slurm.formatting import duration, joined, memory
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.preflight import syntax
from jupyter_slurm.jobs.submission.options import Resources, resources_of
from jupyter_slurm.jobs.submission.resolve import Resolved
from jupyter_slurm.slurm.directives import ignored_directive
from jupyter_slurm.wire import Check, Job, JobSpec, Partition

JobsOf = Callable[[str | None], list[Job]]
"""A function that returns a cluster's jobs, each with the Python version that it reported."""


def check(job: Resolved, cluster: SlurmCluster, jobs: JobsOf) -> str | None:
    """Return warnings for the user, or None. Raise CodeError if the code does not compile,
    SubmitError for any other error."""
    return _warnings(found(job, cluster, jobs))


def check_cell(spec: JobSpec, jobs: JobsOf) -> str | None:
    """Return warnings for a session's cell, or None. Raise CodeError if the cell does not
    compile."""
    return _warnings(_syntax(spec, jobs, None))


def found(job: Resolved, cluster: SlurmCluster, jobs: JobsOf) -> Iterator[Check]:
    """Check a job that is not a session's cell."""
    yield from _syntax(job.spec, jobs, cluster.name)
    yield from _working_directory(job, cluster)
    yield from _options(job, resources_of(job.effective_options))


def check_maxima(job: Resources, one: Partition) -> Iterator[Check]:
    """Warn if the job requests more than the partition's maxima. A QOS may raise the maxima."""
    if one.limit_s is not None and (job.limit_s or 0) > one.limit_s:
        yield _warning(f"Partition {one.name} allows at most {duration(one.limit_s)}.", "time")
    if one.max_nodes is not None and job.nodes > one.max_nodes:
        yield _warning(
            f"Partition {one.name} allows at most {one.max_nodes} nodes per job.", "nodes"
        )
    if one.cpus is not None and job.cpus_per_node > one.cpus:
        yield _warning(
            f"A node in partition {one.name} has at most {one.cpus} CPUs.", "cpus-per-task"
        )
    if one.memory_mib is not None and (job.memory_per_node_mib or 0) > one.memory_mib:
        most = memory(one.memory_mib)
        yield _warning(f"A node in partition {one.name} has at most {most} of memory.", "mem")
    known = one.gpus_per_node > 0 or one.nodes > 0  # otherwise only the profile names the partition
    if known and max(job.gpus_per_node, min(job.gpus, 1)) > one.gpus_per_node:
        most = f"at most {one.gpus_per_node}" if one.gpus_per_node else "no"
        yield _warning(f"A node in partition {one.name} has {most} GPUs.", "gpus")


def _warnings(made: Iterator[Check]) -> str | None:
    """Return the warnings, or None. Raise CodeError or SubmitError for the first failed check."""
    warnings = []
    for one in made:
        if one.ok is False:
            refusal = CodeError if one.option == "code" else SubmitError
            raise refusal(one.sentence, hint=one.hint, option=one.option)
        warnings.append(joined(one.sentence, one.hint))
    return "\n".join(warnings) or None


def _syntax(spec: JobSpec, jobs: JobsOf, cluster: str | None) -> Iterator[Check]:
    """Check for a syntax error. Skip a cell with a fingerprint, since IPython has already checked
    it in the notebook, where all magics are known."""
    if not kind_of(spec).is_python or spec.fingerprint is not None:
        return
    error = syntax.fault_of_cell(spec.code, syntax.THE_CODE)
    if error is not None:
        certain = syntax.is_certain(error, spec.code, spec, jobs(cluster))
        yield Check(
            ok=False if certain else None,
            sentence=syntax.sentence(error),
            hint=None if certain else syntax.newer(),
            option="code",
        )


def _working_directory(job: Resolved, cluster: SlurmCluster) -> Iterator[Check]:
    """Check that the working directory of a job without an image exists. Otherwise Slurm would use
    /tmp."""
    folder = job.effective_options.get("chdir", "")
    if job.in_image or not folder.startswith(("/", "~/")):
        return
    path = PurePosixPath(job.site.home, folder[2:] if folder[0] == "~" else folder)
    if not cluster.transport.exists(path):
        yield Check(
            ok=False,
            sentence=f"Folder {folder} not found on {cluster.name}.",
            hint="Create it, or use another folder. If the folder exists only on the nodes, change "
            "to it in the code.",
            option="chdir",
        )


def _options(job: Resolved, wanted: Resources) -> Iterator[Check]:
    """Check for options and directives that do not fit the job's kind or launcher."""
    if job.spec.launch is not None:
        yield from _gpus_of_launch(job, wanted)
    elif job.kind.runner is not None and wanted.nodes > 1:
        yield _warning(
            f"The code runs once, on the first of the {wanted.nodes} nodes.",
            "nodes",
            "Run it on all nodes with `--launch torchrun`, `mpi`, `ray` or `dask`. Otherwise use "
            "--nodes 1.",
        )
    elif job.kind.runner is not None and wanted.tasks > 1:
        yield _warning(
            f"The code runs once, not {wanted.tasks} times.",
            "ntasks",
            f"For more CPUs, use --cpus-per-task {wanted.tasks}. To run the code in each task, use "
            "`--launch mpi`.",
        )
    if job.kind.takes_arguments and (line := ignored_directive(job.spec.code)):
        yield _warning(
            f"sbatch ignores `{line}`, because the line follows the first command.",
            "code",
            "Move the line to the top of the script.",
        )


def _gpus_of_launch(job: Resolved, wanted: Resources) -> Iterator[Check]:
    """Reject `--gpus` on several nodes. Slurm may give the nodes different numbers of GPUs, and
    then a step cannot use all GPUs (seen with Slurm 22.05)."""
    asked = job.effective_options.get("gpus")
    if asked is None or wanted.nodes < 2:
        return
    kind, colon, _ = asked.partition(",")[0].rpartition(":")
    each = max(1, wanted.gpus // wanted.nodes)
    yield Check(
        ok=False,
        sentence=f"With --gpus {asked}, Slurm may give the {wanted.nodes} nodes different numbers "
        "of GPUs, and then --launch cannot use all of them.",
        hint=f"Use --gpus-per-node {kind}{colon}{each}.",
        option="gpus",
    )


def _warning(sentence: str, option: str, hint: str | None = None) -> Check:
    return Check(ok=None, sentence=sentence, hint=hint, option=option)
