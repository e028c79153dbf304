"""Explain why Charliecloud did not run a program or make an image, by its words in a job's log, and
name the remedy. Pure text; tried with 0.31."""

from __future__ import annotations

import re

from jupyter_slurm.containers.failures import (
    FOREIGN,
    LOCKED,
    NO_ROOM,
    NO_TOOL,
    ROOMY,
    TOO_MANY,
    UNREACHABLE,
    known,
)
from jupyter_slurm.containers.runtime import Explained

_RUN = re.compile(r"^ch-run\[\d+\]: error: (.*?)(?: \(\S+\.c:\d+(?: \d+)?\))?$", re.MULTILINE)
_NO_RUN = re.compile(
    r"^.*slurm_script: line \d+: (ch-run: command not found)$|^(env: .ch-run.: No such file .*)$",
    re.MULTILINE,
)
"""Written by the job's own script, or by the command that starts ch-run with an image to mount."""
_MAKE = re.compile(
    r"^error: (?P<own>.*?)\.?$|^\S*sh: .*?(?P<missing>ch-[a-z]+: .*not found)$", re.MULTILINE
)
_URLLIB = re.compile(r"HTTPS?ConnectionPool\(host='([^']+)', port=(\d+)\).*\] ([^'()]*\w).*")
"""The error of Python's library for a connection, with the one part that is of use."""

_FAILURES_OF_RUN = (
    (r"can't stat", "Look whether the image is there: `%slurm doctor`."),
    (r"source not found", "What is to be mounted must exist on the node."),
    (
        r"destination not found|can't mkdir",
        "The image has no such folder: mount below /mnt, as in --mount SRC:/mnt/NAME.",
    ),
    (r"can't execve", "The image has no such program: try another image."),
    (
        r"namespace|unshare",
        "The node does not let users make containers: ask its administrators for "
        "unprivileged user namespaces.",
    ),
)

_LOGIN = (
    "For a private one, set CH_IMAGE_AUTH=yes, CH_IMAGE_USERNAME and CH_IMAGE_PASSWORD in a file "
    "of the cluster that only you can read, and source it in the profile's `setup`."
)
_FAILURES_OF_MAKE = (
    (
        r"ch-\w+: .*not found",
        NO_TOOL,
        "A module may have it (`setup` or `modules` of the profile); ch-convert is of 0.26.",
    ),
    (
        r"unauthorized or not in registry",
        "The image could not be pulled: there is no such image, or the registry does not let you "
        "have it",
        f"Look at its name and tag. {_LOGIN}",
    ),
    (
        r"no further authentication possible|but got 40[13]",
        LOCKED,
        f"Is its name right? {_LOGIN}",
    ),
    (r"but got 429|[Rr]ate limit", *TOO_MANY),
    (r"requested arch unavailable", *FOREIGN),
    (
        r"[Nn]o space left|quota exceeded",
        NO_ROOM,
        ROOMY,
    ),
    (
        r"GET failed: ",
        UNREACHABLE,
        "Name a mirror in the profile's [images], or pull it in a partition whose nodes have a "
        "network.",
    ),
)


def explained(log_tail: str) -> Explained | None:
    """Explain the failure of ch-run; None: it has not failed."""
    missing = _NO_RUN.search(log_tail)
    if missing:
        advice = "A module may have it (`setup` or `modules` of the profile); or name another "
        return Explained(f"{NO_TOOL}: {missing[1] or missing[2]}.", f"{advice}--runtime.")
    errors = _RUN.findall(log_tail)
    if not errors:
        return None
    if foreign := known(((r"Exec format error", *FOREIGN),), errors[-1]):
        return foreign
    own = "The sentence is ch-run's own; `man ch-run` explains its options."
    found = (advice for pattern, advice in _FAILURES_OF_RUN if re.search(pattern, errors[-1]))
    return Explained(f"Charliecloud could not run the container: {errors[-1]}.", next(found, own))


def explained_making(log_tail: str) -> Explained | None:
    """Explain the failure of ch-image or ch-convert in the log of a job that makes an image; None:
    their messages are not known here."""
    errors = [found["own"] or found["missing"] for found in _MAKE.finditer(log_tail)]
    if not errors:
        return None
    return known(_FAILURES_OF_MAKE, _URLLIB.sub(r"\1:\2: \3", errors[-1]))
