"""scancel: end jobs. Never name all of a user's jobs at once."""

import re
from collections.abc import Iterable
from typing import Final

_GONE: Final = (
    "Invalid job id specified",
    "Job/step already completing or completed",
    "Job has already finished",
)


def cancel_argv(ids: Iterable[str]) -> list[str]:
    """End jobs: SIGTERM, and SIGKILL after the site's KillWait. Takes `123`, `123_4`, `123_[1-4]`.

    ValueError for no ids.
    """
    return ["scancel", *_checked(ids)]


def is_already_gone(stderr: str) -> bool:
    """Tell whether scancel failed only because the job had ended already, as wanted."""
    return any(text in stderr for text in _GONE)


def not_ended(stderr: str, ids: Iterable[str]) -> set[str] | None:
    """Return those of several jobs that scancel could not end and that had not ended by themselves.
    None: scancel does not say which."""
    failed: set[str] = set()
    for line in stderr.splitlines():
        if not line.strip() or is_already_gone(line):
            continue
        named = {one for one in ids if re.search(rf"(?<![0-9_]){re.escape(one)}(?![0-9_])", line)}
        if not named:
            return None
        failed |= named
    return failed


def _checked(ids: Iterable[str]) -> list[str]:
    wanted = list(ids)
    for slurm_id in wanted:
        if not slurm_id[:1].isdigit():
            raise ValueError(f"{slurm_id!r} is not a job id")
    if not wanted:
        raise ValueError("no job ids were given to scancel")
    return wanted
