"""Explain enroot's failures, alone or through pyxis: the step, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jupyter_slurm.containers.failures import LOCKED, TOO_MANY, UNKNOWN, UNREACHABLE
from jupyter_slurm.containers.runtime import Explained

_SAID = re.compile(
    r"^(\[ERROR\] .*|curl: \(\d+\) .*|enroot-[a-z]+: .*|mksquashfs: .*|FATAL ERROR.*"
    r"|(?:/bin/)?sh: \d+: enroot: not found)$",
    re.MULTILINE,
)


def explained_by_enroot(log_tail: str) -> Explained | None:
    """Explain a failure by enroot's own lines; None: there are none."""
    said = _SAID.findall(log_tail)
    return explained(said) if said else None


def explained(said: Sequence[str]) -> Explained:
    """Explain a failure of enroot; `said` are its lines, or pyxis's, oldest first."""
    text = "\n".join(said)
    telling = [line for line in said if _TELLING.search(line)] or list(said)
    words = _TELLING.sub("", telling[-1]).strip().rstrip(".")
    for pattern, what, advice in _FAILURES:
        if re.search(pattern, text):
            return Explained(f"{what}: {words}.", advice)
    return Explained(f"enroot has failed: {words}.", "The sentence is its own.")


_REMOVE = (
    "Ask where ENROOT_DATA_PATH and ENROOT_CACHE_PATH lead there, and remove what is not needed: "
    "`enroot list`, `enroot remove NAME`."
)
IN_CONTAINER = ("There is no room for it on the node's disk where enroot keeps containers", _REMOVE)
_TELLING = re.compile(r"^\s*(?:\[ERROR\] |(?=curl: )|(?=enroot-[a-z]+: )|(?=FATAL ERROR))")
_FAILURES = (
    (
        r"error code: 40[13]|[Uu]nauthorized|returned error: 40[13]",
        LOCKED,
        "Is its name right? For a private one, write this line once into "
        "~/.config/enroot/.credentials on the cluster: "
        "`machine REGISTRY login NAME password PASSWORD`.",
    ),
    (r"error code: 404|returned error: 404", *UNKNOWN),
    (r"error code: 429|returned error: 429|toomanyrequests", *TOO_MANY),
    (
        r"curl: \((?:5|6|7|28|35|52|56|60)\)|error code: 50\d",
        UNREACHABLE,
        "Fetch it where there is a network (`enroot import -o FILE docker://NAME`), and say "
        "--image FILE.",
    ),
    (
        r"Invalid image reference",
        "The image could not be pulled: enroot does not understand its name",
        "Say NAME:TAG or REGISTRY#NAME:TAG in lower case; digests need enroot 4.",
    ),
    (
        r"[Nn]o space left on device(?!.*namespace)|[Qq]uota exceeded",
        "There is no room to unpack the image on the node",
        _REMOVE,
    ),
    (
        r"failed to (?:create|join) \w+ namespace|lacks support for ambient capabilities",
        "The container could not be started: the node does not let users make containers",
        "Ask its administrators for unprivileged user namespaces.",
    ),
    (
        r"nvidia\.sh|nvidia-container-cli",
        "The container could not be started: the node's NVIDIA tools do not give it its GPUs",
        "Ask for a GPU (--gpus 1), or tell the administrators; the driver may be too old for it.",
    ),
    (
        r"[Ee]xec format error",
        "The container could not be started: it is for another kind of processor",
        "Look for an image for the nodes' own (`uname -m` there).",
    ),
    (
        r"Invalid image format",
        "The image could not be unpacked: it is not a SquashFS file",
        "Make one: `enroot import -o FILE.sqsh docker://NAME`.",
    ),
    (
        r"File already exists",
        "The image could not be unpacked: a container of that name is left over",
        "Remove it on the node: `enroot list`, `enroot remove NAME`.",
    ),
    (
        r"source path does not exist|enroot-mount: failed to mount",
        "Something could not be mounted",
        "What --mount names must exist on the node, and be a folder where a folder is meant.",
    ),
    (
        r"[Cc]ommand not found|enroot: not found",
        "The node lacks a program",
        "Tell its administrators: enroot needs it.",
    ),
    (
        r"[Pp]ermission denied",
        "enroot was not allowed to read or write something on the node",
        "Can you read the image there? Else ask the administrators about its ENROOT_ folders.",
    ),
    (
        r"No such file or directory",
        "There is no such image on this node",
        "Look at its path; not every node sees every file system.",
    ),
)
