"""Which release of Slurm it is, and what differs between releases, with the source of each fact.

Nothing here is about a single command's syntax; that is in the command's own module.
"""

import re
from typing import Final, NamedTuple

_VERSION = re.compile(r"(?:slurm[- _]*(?:wlm )?)?([0-9]{2})\.([0-9]{1,2})(?:\.([0-9]{1,6}))?")


class SlurmVersion(NamedTuple):
    """A release, ordered: 22.05.8 is (22, 5, 8)."""

    major: int
    minor: int
    micro: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor:02}.{self.micro}"


OLDEST_COVERED: Final = SlurmVersion(20, 11, 0)

_JSON_SINCE: Final = {
    "squeue": SlurmVersion(21, 8, 0),
    "sinfo": SlurmVersion(21, 8, 0),
    "sacct": SlurmVersion(21, 8, 0),
    "scontrol": SlurmVersion(23, 2, 0),
    "sacctmgr": SlurmVersion(23, 2, 0),
    "sdiag": SlurmVersion(23, 2, 0),
    "sshare": SlurmVersion(23, 11, 0),
}
"""The man pages of each release. sprio, sreport, sstat, scancel, sbatch and srun have none."""


def parse_version(text: str) -> SlurmVersion | None:
    """The release in what `sinfo --version` prints (`slurm 22.05.8`, `slurm-wlm 22.05.8`).

    None where there is no release in it.

    >>> str(parse_version("slurm-wlm 22.05.8"))
    '22.05.8'
    """
    match = _VERSION.search(text)
    if match is None:
        return None
    return SlurmVersion(int(match[1]), int(match[2]), int(match[3] or 0))


def has_json(command: str, version: SlurmVersion) -> bool:
    """Whether the command has `--json`, given that the site built the plugins for it."""
    since = _JSON_SINCE.get(command)
    return since is not None and version >= since


def squeue_json_obeys_filters(version: SlurmVersion) -> bool:
    """Before 24.05 `squeue --json` prints jobs that the filters should have left out.

    squeue_filter_jobs_for_json() in src/squeue came with 24.05; squeue(1) of 21.08 and 22.05 says
    that all other arguments are ignored.
    """
    return version >= (24, 5, 0)


def sacct_hides_high_exit_codes(version: SlurmVersion) -> bool:
    """Whether sacct prints exit codes of 128 and more less 128 (137 as `9:0`).

    PRINT_EXITCODE in src/sacct/print.c, all releases before 25.11.
    """
    return version < (25, 11, 0)


def has_overlap(version: SlurmVersion) -> bool:
    """Whether srun has `--overlap`; before, a job's steps share its CPUs anyway (RELEASE_NOTES)."""
    return version >= (20, 11, 0)


def overlap_shares_gpus(version: SlurmVersion) -> bool:
    """Whether `srun --overlap` shares memory and GPUs too; 20.11 and 21.08 share only CPUs."""
    return version >= (22, 5, 0)


def srun_takes_cpus_per_task(version: SlurmVersion) -> bool:
    """Whether a step inherits --cpus-per-task; 22.05 and 23.02 do not (RELEASE_NOTES)."""
    return not (22, 5, 0) <= version < (23, 11, 0)


def limits_request_rate(version: SlurmVersion) -> bool:
    """Whether a site can limit each user's requests (SlurmctldParameters=rl_enable)."""
    return version >= (23, 2, 0)


def requested_memory_is_per_unit(version: SlurmVersion) -> bool:
    """Whether sacct's ReqMem is per CPU or node (`4Gc`, `4Gn`) and not the total, as since 21.08.

    RELEASE_NOTES of 21.08.
    """
    return version < (21, 8, 0)


def has_export_nil(version: SlurmVersion) -> bool:
    """Whether `--export=NIL` exists, which passes no variables and starts no login shell."""
    return version >= (23, 2, 0)
