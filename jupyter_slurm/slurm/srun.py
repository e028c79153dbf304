"""srun and salloc: the argv for a step in a running job, and for a shell in a new allocation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .options import sbatch_args
from .versions import SlurmVersion, has_overlap, overlap_shares_gpus

_WAIT_S: Final = 20
"""Seconds for srun to create its step. Without a limit it would try forever."""
_MPI_TYPES: Final = ("pmix", "pmi2")
_FIRST_TASK: Final = '[ "${SLURM_PROCID:-0}" = 0 ] || exit 0; exec "$@"'
_WITH_GPUS: Final = (
    'gpus=$(scontrol show job -d -o "$SLURM_JOB_ID" |'
    " sed -n 's/.* GRES=gpu[^ ]*:\\([0-9]*\\)(IDX.*/--gres=gpu:\\1/p'); exec srun $gpus \"$@\""
)


def parse_mpi_types(text: str) -> tuple[str, ...]:
    """Return the known MPI types in the output of `srun --mpi=list`, best first.

    >>> parse_mpi_types("MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix\\n")
    ('pmix', 'pmi2')
    """
    words = text.split()
    return tuple(one for one in _MPI_TYPES if one in words)


def beside_argv(
    slurm_id: str, argv: Sequence[str], *, node: str | None, version: SlurmVersion | None
) -> list[str]:
    """Return the argv that runs `argv` once in a job's allocation, beside the job's program, on
    `node` (None for any). `--unbuffered` passes on every byte at once. The program's standard
    output is then a terminal, and the program has to set it to raw mode (srun(1)). The step does
    not request memory or generic resources, because the job's other steps hold them (before
    22.05 `--overlap` shares only CPUs). If `version` is None, assume a recent release. Raise
    ValueError if `slurm_id` is not a job ID."""
    return _step_argv(slurm_id, argv, node=node, version=version, gres=("--gres=none",))


def terminal_argv(
    slurm_id: str,
    argv: Sequence[str],
    *,
    node: str,
    version: SlurmVersion | None,
    gpus: int = 0,
) -> list[str]:
    """Return the argv that runs `argv` as `beside_argv` does, but on srun's own terminal and with
    all of the job's resources, including GPUs. Raise ValueError if `slurm_id` is not a job ID.
    `gpus`: the number of GPUs on the node that the job has without a request, which a step has to
    request. Before 22.05, `--overlap` shares only CPUs. The step would then wait for the GPUs until
    the job's other steps have ended, so it does not request any."""
    gres = _shared_gres(version, gpus)
    return _step_argv(slurm_id, argv, node=node, version=version, gres=gres, streams="--pty")


def allocation_argv(
    options: Mapping[str, str], argv: Sequence[str], *, version: SlurmVersion | None
) -> list[str]:
    """Return the argv that runs `argv` on srun's own terminal in a new allocation, which ends
    with `argv`. `options`: sbatch's options, except those that srun lacks. `--overlap` leaves
    room for steps started from that terminal. srun refuses `--exclusive` together with
    `--overlap`. So salloc then makes the allocation, and the step requests the node's GPUs,
    which it would not get otherwise. Of several tasks, only the first has the terminal; the
    others end."""
    step = [*_overlap(version), "--pty", "--export=ALL", "/bin/sh", "-c", _FIRST_TASK, "sh", *argv]
    if "exclusive" in options:
        return ["salloc", *sbatch_args(options), "/bin/sh", "-c", _WITH_GPUS, "sh", *step]
    return ["srun", *sbatch_args(options), *step]


def _overlap(version: SlurmVersion | None) -> Sequence[str]:
    return ("--overlap",) if version is None or has_overlap(version) else ()


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
        *_overlap(version),
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
