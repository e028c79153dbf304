"""A job that is spread over nodes: what its launcher gets. PURE.

The batch script runs `node/launch.py` on the first node, outside any image, in place of the job's
own program. That has srun start the engine on all nodes, in the image: by the script `engine`, or
in the container of the step.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from jupyter_slurm.containers import Box, Launch
from jupyter_slurm.containers.none import NoContainer
from jupyter_slurm.containers.runtime import HasSteps
from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import RANKED, Files
from jupyter_slurm.jobs.submission.payload import node_files
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.wire import CellSpec, SessionSpec

_TASKS = frozenset(("ntasks", "ntasks-per-node", "ntasks-per-gpu"))
"""Options that say how many ranks there are; else there is one for each GPU."""

_GPUS = frozenset("gpus gres gpus-per-node gpus-per-socket gpus-per-task tres-per-task".split())
"""Options that ask for GPUs, which each step has then without asking for them."""

_RUNNERS = ("runner_ranks", "runner_engine", "runner_usage")


def launch(job: Resolved) -> Launch:
    """Return how the script starts the launcher. RequestError: MPI cannot work in the runtime."""
    if job.spec.launch == "mpi" and not job.runtime.has_mpi:
        raise RequestError(
            f"`--launch mpi` does not work with {job.runtime.name}: in its containers MPI does "
            "not find Slurm.",
            hint="`--launch torchrun` does, and other runtimes can do both.",
            option="launch",
        )
    folder = str(job.job_dir.path)
    words = [job.profile.python, "-uBS", f"{folder}/{layout.LAUNCHER}", folder, "{attempt}"]
    return NoContainer().launch(words, Box(job_dir=folder, workdir=folder))


def files(job: Resolved, in_image: Launch, box: Box, inside: str) -> Files:
    """Return the launcher's files, but for the script `engine`. `in_image`: how a program starts
    there; `inside`: where it sees the job's folder."""
    spec, runtime = job.spec, job.runtime
    program = job.kind.rank_runner if spec.launch in RANKED else job.kind.runner
    assert program is not None
    plan = {
        "engine": spec.launch,
        "is_ranked": spec.launch in RANKED,
        "runner": program,
        "has_result": job.kind.has_result or job.kind.takes_cells,
        "inside": inside,
        "in_image": job.in_image,
        "step": runtime.step(box) if isinstance(runtime, HasSteps) else None,
        "pid_file": in_image.pid_file,
        "by_task": not _TASKS.isdisjoint(job.options),
        "has_asked_for_gpus": not _GPUS.isdisjoint(job.options),
        "interface": job.profile.interface or None,
        "mpi": spec.mpi if isinstance(spec, CellSpec | SessionSpec) else None,
        "mpi_types": job.site.mpi_types or ("none",),
        "has_overlap": job.site.has_overlap,
        "max_restarts": spec.max_restarts if isinstance(spec, CellSpec) else 0,
    }
    ours = ("launch", "private_folder", "runner.", *_RUNNERS, program)
    found: dict[str, bytes | Path] = {layout.KEY: b"", layout.LAUNCH: msgspec.json.encode(plan)}
    for one in ours:
        found |= node_files(one)
    if spec.launch == "dask":
        found |= {layout.CERTIFICATE: b"", layout.CERTIFICATE_KEY: b""}
    return found
