"""Explanations of a container tool's failure, from its error lines in a job's log. No I/O.

Each tool's module has a table with rows of a pattern, a sentence and a hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jupyter_slurm.containers.runtime import Explained

Row = tuple[str, str, str]
"""A pattern for an error line, the sentence that the line completes, and a hint."""

NOT_FOUND = ("Cannot pull the image: the registry does not have it", "Check its name and tag.")
NO_TOOL = "The node does not have this container tool"
NO_NAMESPACES = (
    "The node does not let users start containers",
    "Ask the administrators for unprivileged user namespaces.",
)
NO_MOUNT = (
    "Cannot start the container: a mount failed",
    "Check the SRC path of --mount on the node.",
)
NO_SHELL = (
    "Cannot start the container: the image lacks the program",
    "Use an image with /bin/sh, and python3 for a cell.",
)
START_FAILED = ("", "Cannot start the container", "See the tool's manual.")
BUILDS_FULL = (
    "The node's folder for builds is full",
    "Name a larger folder by `export TMPDIR=…` in the profile's `setup`.",
)
_FULL = r"no space left on device|quota exceeded"
_LAST_LINES = 20
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def registry_rows(login: str, room: str) -> tuple[Row, ...]:
    """Return the rows for pulling and unpacking an image, in every tool's wording.

    `login`: the command that logs in to a registry; `room`: a hint for freeing disk space.
    """
    return (
        (
            r"toomanyrequests|rate limit|\b429\b",
            "Cannot pull the image: the registry limits downloads",
            "Log in to the registry, wait, or name a mirror in the profile's [images].",
        ),
        (
            r"unauthorized|no basic auth|authentication (?:required|possible)|access .*denied"
            r"|(?<!permission )denied: |incorrect username|(?:error|code:|got) 40[13]\b",
            "Cannot pull the image: the registry denied access",
            f"Check the image's name. For a private image, log in once on the cluster: {login}.",
        ),
        (
            r"manifest unknown|name unknown|repository name not known"
            r"|manifest for .* not found|\berror(?: code)?: 404",
            *NOT_FOUND,
        ),
        (
            r"no space left|quota exceeded",
            "Cannot unpack the image: the node's disk is full",
            room,
        ),
        (
            r"no matching manifest|exec format error|image targets|image's architecture"
            r"|does not match the|no image found in|requested arch unavailable",
            "The image is for another processor architecture",
            "Use an image for the nodes' architecture; `uname -m` on a node prints it.",
        ),
        (
            r"x509|certificate verify failed|curl: \(60\)",
            "Cannot pull the image: the node does not trust the registry's certificate",
            "Ask the administrators to install the certificate.",
        ),
        (
            r"dial tcp|no such host|timeout|timed out|TLS handshake|request canceled"
            r"|connection refused|server gave HTTP|GET failed: |error code: 50\d"
            r"|curl: \((?:5|6|7|28|35|52|56)\)",
            "Cannot pull the image: the node cannot reach the registry",
            "Pull it on a machine with network access, or name a mirror in the profile's [images].",
        ),
    )


def explain(rows: Iterable[Row], lines: Sequence[str]) -> Explained | None:
    """Return the explanation of the first row that matches a line; None if none matches. Try the
    last line first."""
    for pattern, sentence, hint in rows:
        for line in reversed(lines):
            if re.search(pattern, line, re.IGNORECASE):
                return Explained(completed(sentence, line), hint)
    return None


def full_disk(place: tuple[str, str], log_tail: str) -> Explained | None:
    """Explain a full disk, reported near the end of a build's log. Return None if it is not
    reported. `place`: a sentence and a hint."""
    lines = uncoloured(log_tail).splitlines()[-_LAST_LINES:]
    return explain([(_FULL, *place)], lines)


def uncoloured(log_tail: str) -> str:
    return _COLOUR.sub("", log_tail)


def completed(sentence: str, line: str) -> str:
    """Complete the sentence with the tool's own message."""
    words = line.strip()
    return f"{sentence}: {words if words.endswith(('?', '!')) else words.rstrip('.') + '.'}"
