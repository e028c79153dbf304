"""Generated output of squeue for a queue of any size."""

from __future__ import annotations

from jupyter_slurm.slurm.fields import FIELD_END, RECORD_END

_NOW_S = 1_795_200_000
_REASONS = ("Priority", "Resources", "QOSMaxJobsPerUserLimit", "Dependency", "BeginTime")


def listed(count: int, *, user: str = "", changed: int = 0) -> bytes:
    """Return `count` jobs of a hundred users, or of a single user. Half of the jobs run. The first
    `changed` have another priority."""
    rows = (
        _row(number, user or f"user{number % 100}", bump=number < changed)
        for number in range(count)
    )
    return "\n".join(rows).encode()


def _row(number: int, user: str, *, bump: bool) -> str:
    runs = number % 2 == 0
    slurm_id = str(1_000_000 + number)
    fields = [
        slurm_id,
        slurm_id,
        "N/A",
        "RUNNING" if runs else "PENDING",
        user,
        "None" if runs else _REASONS[number % len(_REASONS)],
        f"gpu{number % 8}",
        "normal",
        f"project{number % 50}",
        "1",
        f"node{number % 900:03d}" if runs else "",
        str(_NOW_S - number % 3600) if runs else "N/A",
        str(_NOW_S + 86400 - number % 3600) if runs else "N/A",
        str(_NOW_S - 7200),
        "1-00:00:00",
        str(4_294_000_000 - number + (1_000_000 if bump else 0)),
        "(null)",
        "gres:gpu:a100:4",
        f"train-{number}-ä",
        f"jslurm:job{number:05}",
    ]
    return FIELD_END.join(fields) + RECORD_END
