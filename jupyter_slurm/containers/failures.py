"""Failures that container tools have in common: the sentence, and the remedy. PURE text.

Only a tool's own `*_errors.py` knows how the tool words each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jupyter_slurm.containers.runtime import Explained

_PULLED = "The image could not be pulled: "

LOCKED = f"{_PULLED}the registry does not let you have it"
UNKNOWN = (f"{_PULLED}there is no such image", "Look at its name and tag.")
TOO_MANY = (
    f"{_PULLED}the registry refuses so many downloads",
    "Log in to it, wait, or name a mirror in the profile's [images].",
)
UNREACHABLE = f"{_PULLED}the registry cannot be reached from the node"
NO_ROOM = "The image could not be unpacked: there is no room for it on the node"
FOREIGN = (
    "The image is for another kind of processor",
    "Take one that was built for the nodes' own (`uname -m` there).",
)
NO_SHELL = (
    "The container could not be started: the image has no shell",
    "It needs /bin/sh, and python3 for a cell: try another image.",
)
NO_TOOL = "The node has no such container tool"


ROOMY = (
    "Name a roomy folder of the node with `export TMPDIR=…` in the profile's `setup` (else it is "
    "/var/tmp)."
)
IN_FOLDER = ("There is no room for it in the node's folder for builds", ROOMY)
_FULL = re.compile(r"^.*(?:[Nn]o space left on device|[Qq]uota exceeded).*$", re.MULTILINE)
_LAST_LINES = 20
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def uncoloured(log_tail: str) -> str:
    """Return the log without the colours in which tools show what went wrong."""
    return _COLOUR.sub("", log_tail)


def full_disk(log_tail: str) -> str | None:
    """Return the line near the end of a log that tells of a full disk; None: there is none."""
    found = _FULL.findall("\n".join(uncoloured(log_tail).splitlines()[-_LAST_LINES:]))
    return str(found[-1]).strip().rstrip(".") if found else None


def without_room(where: tuple[str, str], log_tail: str) -> Explained | None:
    """Explain that a disk was full (`where`: a sentence's beginning, an advice); None: it was
    not."""
    words = full_disk(log_tail)
    return None if words is None else Explained(f"{where[0]}: {words}.", where[1])


def known(failures: Iterable[tuple[str, str, str]], words: str) -> Explained | None:
    """Return the first of `failures` (a pattern, a sentence's beginning, an advice) that `words`
    tell of; they end the sentence."""
    stop = "" if words.endswith(("?", "!")) else "."
    for pattern, what, advice in failures:
        if re.search(pattern, words):
            return Explained(f"{what}: {words}{stop}", advice)
    return None
