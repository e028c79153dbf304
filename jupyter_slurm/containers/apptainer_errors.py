"""Explain why Apptainer did not run a program, by its words in a job's log, and name the remedy.

Pure text; tried with Apptainer 1.4. Its messages look like those of many programs (`FATAL: …`), so
only lines in its exact form at the end of the log, where it gave up, count as its own.
"""

from __future__ import annotations

import re

from jupyter_slurm.containers.failures import (
    FOREIGN,
    LOCKED,
    NO_ROOM,
    NO_SHELL,
    TOO_MANY,
    UNKNOWN,
    UNREACHABLE,
    known,
    uncoloured,
)
from jupyter_slurm.containers.runtime import Explained

_LAST_LINES = 5
_ERRORS = re.compile(
    r"^(?:FATAL:   |ERROR:   |ERROR  : )(?P<own>.+?)\.?$"
    r"|^(?P<env>env: .?(?:apptainer|singularity)\b.*?)\.?$"
    r"|^\S*sh: .*?(?P<sh>(?:apptainer|singularity): .*not found)$",
    re.MULTILINE,
)
_USAGE = re.compile(
    r"^Error for command \"exec\": (.+)$(?s:.*)^Run '(?:apptainer|singularity) --help'.*\s*\Z",
    re.MULTILINE,
)

_KNOWN = (
    (
        r"^env: |^(?:apptainer|singularity): ",
        "The node has no Apptainer of that name",
        "A module may have it (--module NAME, `module avail`); else name another --runtime, or a "
        "partition whose nodes have it.",
    ),
    (
        r"unknown flag: --mount",
        "The container could not be started: this Singularity cannot mount a path with a colon, "
        "comma, quote or backslash",
        "3.9 and later can. Make a symbolic link without one and name that.",
    ),
    (r"toomanyrequests|rate limit", *TOO_MANY),
    (
        r"unauthorized|authentication required|access .*denied|denied: |incorrect username",
        LOCKED,
        "Is its name right? For a private one, log in once on the cluster: "
        "`apptainer registry login --username NAME docker://REGISTRY`.",
    ),
    (
        r"manifest unknown|name unknown|repository name not known|manifest for .* not found",
        *UNKNOWN,
    ),
    (
        r"dial tcp|no such host|[Tt]imeout|[Tt]imed out|TLS handshake|connection refused|x509"
        r"|server gave HTTP response",
        UNREACHABLE,
        "Copy its file (.sif) to where the nodes see it and name that, or name a mirror in the "
        "profile's [images].",
    ),
    (
        r"[Nn]o space left|disk quota exceeded",
        NO_ROOM,
        "It takes two or three times its size: name roomy folders with APPTAINER_TMPDIR and "
        "APPTAINER_CACHEDIR in the profile's `setup`, or pull it once for every node "
        "(`%slurm image pull`).",
    ),
    (
        r"image targets|image's architecture|exec format error|no image found in .* for arch",
        *FOREIGN,
    ),
    (
        r"could not open image .*no such file|failed to retrieve path",
        "The image is not on the node",
        "Is its path right, and on a file system that the nodes see?",
    ),
    (
        r"image format not recognized|bad superblock|trying to read the squashfs",
        "The image could not be unpacked: it is not an image, or only part of one",
        "Perhaps a transfer was cut off: pull or build it again.",
    ),
    (
        r"/dev/fuse|fusermount",
        "The container could not be started: users may not mount image files on the node",
        "Ask its administrators for /dev/fuse; an image that is a folder does without "
        "(`apptainer build --sandbox FOLDER IMAGE`).",
    ),
    (
        r"user namespace|requires privileges|max_user_namespaces",
        "The container could not be started: users may not make containers on the node",
        "Ask its administrators for unprivileged user namespaces, or for a set-uid Apptainer.",
    ),
    (
        r"mount source .* doesn't exist",
        "The container could not be started: something to be mounted is not on the node",
        "What --mount names must exist there.",
    ),
    (
        r"/bin/sh|executable file not found|shared library is likely missing",
        *NO_SHELL,
    ),
)


def explained(log_tail: str) -> Explained | None:
    """Explain the failure of Apptainer at the end of the log; None: it has not failed."""
    words = _words(uncoloured(log_tail))
    if words is None:
        return None
    own = (r"", "The container could not be started", "The sentence is Apptainer's own.")
    return known([*_KNOWN, own], words)


def explained_making(log_tail: str) -> Explained | None:
    """Explain the same for a job that makes an image; None: not known, or the recipe's own."""
    words = _words(uncoloured(log_tail))
    return None if words is None else known(_KNOWN, words)


def _words(log: str) -> str | None:
    usage = _USAGE.search(log)
    if usage:
        return usage[1]
    lines = [line for line in log.splitlines() if line.strip()]
    errors = list(_ERRORS.finditer("\n".join(lines[-_LAST_LINES:])))
    return str(errors[-1][errors[-1].lastgroup or 0]) if errors else None
