"""Says what a job of one process cannot use of what its options ask for. PURE.

Nothing of this is about a batch script or a program, which start tasks themselves, nor about a job
that a launcher spreads over its nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.jobs.preflight.resources import Resources
from jupyter_slurm.slurm.options import OPTIONS


def objections(wanted: Resources, options: Iterable[str]) -> Iterator[Objection]:
    """Yield what a person may expect of its options and does not get, with what to do instead."""
    nodes, tasks = wanted.nodes, wanted.tasks
    if nodes > 1:
        yield Objection(
            f"Its code runs once, on the first of {nodes} nodes.",
            "`--launch torchrun`, `mpi`, `ray` or `dask` uses them all; else ask for --nodes 1.",
            certain=False,
            option="nodes",
        )
    elif tasks > 1:
        yield Objection(
            f"Its code runs once, not {tasks} times.",
            f"For more CPUs give --cpus-per-task {tasks}; `--launch mpi` runs it in each task.",
            certain=False,
            option="ntasks",
        )
    for name in options:
        if OPTIONS[name].of_steps:
            yield Objection(
                f"`--{name}` counts only for what `srun` starts.",
                "Leave it out, unless the code itself calls `srun`.",
                certain=False,
                option=name,
            )
