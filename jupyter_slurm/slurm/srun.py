"""srun: the argv of a step inside a job that runs, beside what the job runs itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .versions import SlurmVersion, has_overlap, overlap_shares_gpus

_WAIT_S: Final = 20
"""How long srun tries to get its step. Without a limit it would ask for ever."""


def beside_argv(
    slurm_id: str, argv: Sequence[str], *, node: str | None, version: SlurmVersion | None
) -> list[str]:
    """Run `argv` once in the allocation of a job, beside what runs there, on `node` (None: any).

    `--unbuffered` hands on every byte at once; the program's standard output is a terminal then,
    which it has to set raw (srun(1)). No memory of its own and none of the job's generic resources
    are asked for, which are the job's other steps' (before 22.05 `--overlap` shares only CPUs).
    `version` None: not known, taken to be a recent one. ValueError: that is not a job's id.
    """
    return _step_argv(slurm_id, argv, node=node, version=version, gres=("--gres=none",))


def terminal_argv(
    slurm_id: str, argv: Sequence[str], *, node: str | None, version: SlurmVersion | None
) -> list[str]:
    """Do the same for a program that is to have all that the job has, its GPUs too.

    Before 22.05 `--overlap` shares only CPUs: such a step would wait for the GPUs until the job's
    other steps have ended, and goes without.
    """
    shared = version is None or overlap_shares_gpus(version)
    gres = () if shared else ("--gres=none",)
    return _step_argv(slurm_id, argv, node=node, version=version, gres=gres)


def _step_argv(
    slurm_id: str,
    argv: Sequence[str],
    *,
    node: str | None,
    version: SlurmVersion | None,
    gres: Sequence[str],
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
        "--unbuffered",
        "--export=ALL",
        *argv,
    ]
