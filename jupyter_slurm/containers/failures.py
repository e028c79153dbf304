"""Failures that container tools have in common: the sentence, and the remedy. PURE text.

Only a tool's own `*_errors.py` knows how the tool words each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.wire import Message, Text, together

PRIVATE = Message.of("A private one needs a login, once: `{slurm} image login REGISTRY`.")
_PULLED = "The image could not be pulled: "

LOCKED = (
    f"{_PULLED}the registry does not let you have it",
    together("Is its name right?", PRIVATE),
)
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


def known(failures: Iterable[tuple[str, str, Text]], words: str) -> Explained | None:
    """Return the first of `failures` (a pattern, a sentence's beginning, an advice) that `words`
    tell of; they end the sentence."""
    stop = "" if words.endswith(("?", "!")) else "."
    for pattern, what, advice in failures:
        if re.search(pattern, words):
            return Explained(f"{what}: {words}{stop}", advice)
    return None
