"""Explain why an engine did not start a container, by its words in a job's log, and name the
remedy. Pure text; tried with Docker 20.10 and 28, podman's by its manual and sources."""

from __future__ import annotations

import re

from jupyter_slurm.containers.docker_script import NOT_BEGUN
from jupyter_slurm.containers.failures import (
    FOREIGN,
    LOCKED,
    NO_ROOM,
    NO_SHELL,
    NO_TOOL,
    TOO_MANY,
    UNKNOWN,
    UNREACHABLE,
    known,
    without_room,
)
from jupyter_slurm.containers.runtime import Explained

_SAID = re.compile(rf"^jupyter-slurm: {re.escape(NOT_BEGUN)}", re.MULTILINE)
_NOISE = re.compile(r"^(?:See|Run) '\S+ run --help'|^\s*$|^WARN|^jupyter-slurm: ")
_ERRORS = re.compile(
    r"^(?:docker: )?Error response from daemon: (?P<daemon>.*?)\.?$"
    r"|^(?:docker|Error): (?P<tool>.*?)\.?$"
    r"|^(?:ERROR: )?(?P<client>(?:Cannot connect to the|Got permission denied|permission denied"
    r" while|failed to connect to the|error during connect).*?)\.?$"
    r"|^(?P<sudo>sudo: .*?)\.?$"
    r"|^\S*sh: .*?(?P<missing>(?:docker|podman|sudo): .*not found)$"
    r"|^\[FATAL +tini \(\d+\)\] (?P<init>.*?)\.?$",
    re.MULTILINE,
)
_PULLING = re.compile(r"Unable to find image|Pulling from|Trying to pull", re.MULTILINE)
_PULLED = re.compile(r"^Status: |Writing manifest to image destination", re.MULTILINE)

_RECIPES = re.compile(
    r"returned a non-zero code: \d+$|did not complete successfully: exit code"
    r"|^Error: building at STEP \"RUN ",
    re.MULTILINE,
)
"""Messages of builders on a recipe's command that failed: Docker's old one, BuildKit, podman."""

_PRUNE = (
    "Ask for unused images to be removed there (`docker image prune`), or leave the node out with "
    "--exclude."
)
_IN_ENGINE = (
    "There is no room for it on the node's disk where the engine keeps its images",
    _PRUNE,
)

_KNOWN = (
    (
        r"docker(?:\.io)?: (?:command )?not found|podman: (?:command )?not found"
        r"|sudo: (?:docker: )?(?:command )?not found",
        NO_TOOL,
        "Name another with --runtime, or a partition whose nodes have it.",
    ),
    (
        r"permission denied while trying to connect|^sudo: ",
        "You may not use the container engine there",
        "Ask the administrators for the group `docker`; where it is `sudo docker`, say "
        "--runtime sudo-docker.",
    ),
    (
        r"Cannot connect|[Ff]ailed to connect to the docker|Is the docker daemon running"
        r"|error during connect",
        "The container engine does not answer",
        "Its daemon does not run on this node: tell the administrators, or leave the node out "
        "with --exclude.",
    ),
    (
        r"no matching manifest|exec format error|Exec format error|does not match the"
        r"|no image found in (?:image index|manifest list) for architecture",
        *FOREIGN,
    ),
    (
        r"no space left|No space left|disk quota exceeded",
        NO_ROOM,
        _PRUNE,
    ),
    (
        r"unauthorized|no basic auth credentials|authentication required|access denied|denied:"
        r"|incorrect username or password",
        LOCKED,
        "Is its name right? For a private one, log in once on the cluster: "
        "`docker login REGISTRY` (or `podman login`).",
    ),
    (r"manifest unknown|not found: |No such image|name unknown", *UNKNOWN),
    (r"toomanyrequests|rate limit", *TOO_MANY),
    (
        r"dial tcp|no such host|timeout|[Tt]imed out|TLS handshake|request canceled|x509"
        r"|connection refused|server gave HTTP response",
        UNREACHABLE,
        "Load the image on the node beforehand, or name a mirror in the profile's [images].",
    ),
    (
        r"failed to register layer|Error processing tar|unexpected EOF|verification failed",
        "The image could not be unpacked",
        "It may be damaged, or the node's disk is: try another node, then another image.",
    ),
    (
        r"could not select device driver|unresolvable CDI devices|nvidia-container-cli"
        r"|unknown device",
        "The container could not be started: the node's engine cannot hand it GPUs",
        "The NVIDIA container toolkit is missing or wrong there: tell the administrators, or "
        "leave the node out with --exclude.",
    ),
    (
        r"bind source path does not exist|invalid mount|statfs .*no such file|mkdir .*"
        r"|not a directory",
        "The container could not be started: something cannot be mounted",
        "What --mount names must exist on the node, and root must be able to look into it.",
    ),
    (r"executable file not found|no such file or directory: unknown|exec .* failed", *NO_SHELL),
    (
        r"container name .* is already in use",
        "The container could not be started: one of its name is there already",
        "Submit it again; `docker ps` on the node shows the other one.",
    ),
)


def explained(log_tail: str) -> Explained | None:
    """Explain the engine's failure and the step in which it failed; None: the program had begun."""
    said = [found.start() for found in _SAID.finditer(log_tail)]
    if not said:
        return None
    log = log_tail[: said[-1]]
    pulling = _PULLING.search(log) and not _PULLED.search(log)
    what = "The image could not be pulled" if pulling else "The container could not be started"
    other = (r"", what, "The sentence is the container tool's own.")
    return known([*_KNOWN, other], _words(log))


def explained_making(log_tail: str) -> Explained | None:
    """Explain the engine's failure in the log of a job that makes an image; None: it is not known
    here, or the recipe's own."""
    full = without_room(_IN_ENGINE, log_tail)
    if full is not None or _RECIPES.search(log_tail):
        return full
    return known(_KNOWN, _words(log_tail))


def _words(log: str) -> str:
    """Return the tool's own words of the last error, else its last line."""
    errors = [found[found.lastgroup or 0] for found in _ERRORS.finditer(log)]
    if errors:
        return str(errors[-1])
    lines = [line for line in log.splitlines() if not _NOISE.match(line)]
    return lines[-1].rstrip(".") if lines else "it says nothing"
