"""Slurm's release, and differences between releases, with sources. Differences in the syntax of one
command are in its module.
"""

import re
from typing import NamedTuple

_VERSION = re.compile(r"(?:slurm[- _]*(?:wlm )?)?([0-9]{2})\.([0-9]{1,2})(?:\.([0-9]{1,6}))?")


class SlurmVersion(NamedTuple):
    """A release, ordered: 22.05.8 is (22, 5, 8)."""

    major: int
    minor: int
    micro: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor:02}.{self.micro}"


def parse_version(text: str) -> SlurmVersion | None:
    """Return the release in the output of `sinfo --version` (`slurm 22.05.8`, `slurm-wlm 22.05.8`),
    or None.

    >>> str(parse_version("slurm-wlm 22.05.8"))
    '22.05.8'
    """
    match = _VERSION.search(text)
    if match is None:
        return None
    return SlurmVersion(int(match[1]), int(match[2]), int(match[3] or 0))


def has_overlap(version: SlurmVersion) -> bool:
    """Return whether srun has `--overlap`. Before 20.11, steps always share CPUs
    (RELEASE_NOTES)."""
    return version >= (20, 11, 0)


def overlap_shares_gpus(version: SlurmVersion) -> bool:
    """Return whether `srun --overlap` also shares memory and GPUs; in 20.11 and 21.08 it shares
    only CPUs."""
    return version >= (22, 5, 0)
