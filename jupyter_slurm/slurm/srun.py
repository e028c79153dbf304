"""srun: the argv of a step inside a running job, beside the job's own program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .versions import SlurmVersion, has_overlap, overlap_shares_gpus

_WAIT_S: Final = 20
"""How long srun tries to get its step; without a limit it would try for ever."""
_MPI_TYPES: Final = ("pmix", "pmi2")
_ASKED_BY_THE_JOB: Final = (
    "NTASKS NPROCS NTASKS_PER_NODE TASKS_PER_NODE DISTRIBUTION CPUS_PER_TASK GPUS GPUS_PER_TASK "
    "TRES_PER_TASK MEM_PER_NODE MEM_PER_CPU MEM_PER_GPU"
)
"""Variables of a job (SLURM_…) that srun inside it takes for options, as node/launch_step.py has
them: they would divide the step by the job's tasks."""


def parse_mpi_types(text: str) -> tuple[str, ...]:
    """Return those of the two ways in which ranks of MPI find each other that `srun --mpi=list`
    names, best first.

    >>> parse_mpi_types("MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix\\n")
    ('pmix', 'pmi2')
    """
    words = text.split()
    return tuple(one for one in _MPI_TYPES if one in words)


def beside_argv(
    slurm_id: str, argv: Sequence[str], *, node: str | None, version: SlurmVersion | None
) -> list[str]:
    """Run `argv` once in the allocation of a job, beside its own program, on `node` (None: any).

    `--unbuffered` passes every byte on at once; the program's standard output is then a terminal,
    which it has to set raw (srun(1)). The step asks for no memory and none of the job's generic
    resources, which the job's other steps hold (before 22.05 `--overlap` shares only CPUs).
    `version` None: not known, assumed to be recent. ValueError: that is not a job's id.
    """
    return _step_argv(slurm_id, argv, node=node, version=version, gres=("--gres=none",))


def terminal_argv(
    slurm_id: str,
    argv: Sequence[str],
    *,
    node: str | None,
    version: SlurmVersion | None,
    gpus: int = 0,
) -> list[str]:
    """Do the same for a program that gets all of the job's resources, its GPUs too.

    `gpus`: how many it has there without having asked for any; a step has to ask for these. Before
    22.05 `--overlap` shares only CPUs: such a step would wait for the GPUs until the job's other
    steps have ended, and goes without.
    """
    gres = _shared_gres(version, gpus)
    return _step_argv(slurm_id, argv, node=node, version=version, gres=gres)


def from_inside_argv(
    slurm_id: str, argv: Sequence[str], *, node: str, version: SlurmVersion | None, gpus: int = 0
) -> list[str]:
    """Do the same from a terminal inside the job, for a program that gets a terminal on `node`."""
    gres = _shared_gres(version, gpus)
    step = _step_argv(slurm_id, argv, node=node, version=version, gres=gres, streams="--pty")
    unset = [word for name in _ASKED_BY_THE_JOB.split() for word in ("-u", f"SLURM_{name}")]
    return ["env", *unset, *step]


def _shared_gres(version: SlurmVersion | None, gpus: int) -> Sequence[str]:
    if version is not None and not overlap_shares_gpus(version):
        return ("--gres=none",)
    return (f"--gres=gpu:{gpus}",) if gpus else ()


def _step_argv(
    slurm_id: str,
    argv: Sequence[str],
    *,
    node: str | None,
    version: SlurmVersion | None,
    gres: Sequence[str],
    streams: str = "--unbuffered",
) -> list[str]:
    if not slurm_id[:1].isdigit():
        raise ValueError(f"{slurm_id!r} is not a job id")
    return [
        "srun",
        f"--jobid={slurm_id}",
        *(["--overlap"] if version is None or has_overlap(version) else []),
        "--ntasks=1",
        "--nodes=1",
        *([f"--nodelist={node}"] if node else []),
        "--mem=0",
        *gres,
        "--mpi=none",
        f"--immediate={_WAIT_S}",
        "--quiet",
        streams,
        "--export=ALL",
        *argv,
    ]
