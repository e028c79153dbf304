"""The distribution's packages of Slurm, unpacked into a private folder, without root."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jupyter_slurm.local_cluster.software import Software


def unpack(place: Path, say: Callable[[str], None]) -> Software | None:
    return None
