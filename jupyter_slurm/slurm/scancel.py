"""scancel: the argv that cancels jobs by ID, never all of a user's jobs at once."""

from collections.abc import Iterable
from typing import Final

_GONE: Final = (
    "Invalid job id specified",
    "Job/step already completing or completed",
    "Job has already finished",
)


def cancel_argv(ids: Iterable[str]) -> list[str]:
    """Return the argv that cancels jobs. Slurm sends SIGTERM, and SIGKILL after the site's
    KillWait. IDs are `123`, `123_4` or `123_[1-4]`. Raise ValueError without IDs."""
    wanted = checked(ids)
    if not wanted:
        raise ValueError("no job ids were given to scancel")
    return ["scancel", *wanted]


def is_already_gone(stderr: str) -> bool:
    """Return whether scancel failed because the job had already ended."""
    return any(text in stderr for text in _GONE)


def checked(ids: Iterable[str]) -> list[str]:
    """Return the IDs. Raise ValueError if any is not an ID, e.g. an option of scancel."""
    wanted = list(ids)
    for slurm_id in wanted:
        if not slurm_id[:1].isdigit():
            raise ValueError(f"{slurm_id!r} is not a job id")
    return wanted
