"""enroot's containers on the node: the common part of `enroot.py` and `pyxis.py`, which start
containers in different ways.

Facts (from the sources of enroot 3.0 to 4.1):
- /etc/rc of an imported image enters WORKDIR and execs ENTRYPOINT with CMD or arguments
  (src/docker.sh). With `--container-entrypoint`, pyxis runs /etc/rc before the step's tasks join
  the container, and passes a shell as argument, which most entrypoints reject. So the tasks run
  /etc/rc themselves.
- `enroot exec PID` (since 3.0) joins the container of a process with that process's initial
  environment, but keeps only the first line of each value. It fails for containers that the user is
  not allowed to join.
"""

from __future__ import annotations

import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from jupyter_slurm.containers.own_program import by_script
from jupyter_slurm.containers.references import HUB, Reference
from jupyter_slurm.containers.runtime import (
    NUL_IN_DST,
    Box,
    Explained,
    Launch,
    Mount,
    in_workdir,
    without_nul,
)
from jupyter_slurm.containers.tool_errors import (
    NO_MOUNT,
    NO_NAMESPACES,
    explain,
    registry_rows,
)
from jupyter_slurm.errors import RequestError

IMAGE_SUFFIXES = (".sqsh", ".squashfs", ".sqfs")
JOB_DIR = "/mnt/job"
RC = "/etc/rc"
_PID_FILE = "program.pid"

GPUS = r"""
gpus=
case ${CUDA_VISIBLE_DEVICES:-} in '' | NoDevFiles) ;; *)
  gpus=$(nvidia-smi -i "$CUDA_VISIBLE_DEVICES" --query-gpu=uuid --format=csv,noheader \
    2>/dev/null) && gpus=$(printf '%s' "$gpus" | tr '\n' ,) || gpus= ;;
esac
if [ -n "$gpus" ]; then
  export NVIDIA_VISIBLE_DEVICES="$gpus"
  export NVIDIA_DRIVER_CAPABILITIES="${NVIDIA_DRIVER_CAPABILITIES:-compute,utility,video}"
fi
ENROOT_LOGIN_SHELL=no; export ENROOT_LOGIN_SHELL
"""
"""Sh text for the node. It sets `gpus` to the UUIDs of the job's GPUs, which are valid with and
without cgroups, or to "" if the node's tools do not report any."""

INSIDE = r"""
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ -r /etc/environment ]; then
  while IFS= read -r pair || [ -n "$pair" ]; do
    case $pair in PATH=*) PATH=${pair#PATH=} PATH=${PATH#[\"\']} PATH=${PATH%[\"\']} ;; esac
  done </etc/environment
fi
[ -d "${TMPDIR:-/tmp}" ] || unset TMPDIR
export PATH PYTHONNOUSERSITE=1
# Store the process ID for signals only if it is the same inside and outside the container.
[ -z "$JSLURM_PIDS" ] || [ "$(readlink /proc/self/ns/pid)" != "$JSLURM_PIDS" ] ||
  printf '%s\n' "$$" >"/mnt/job/program${JSLURM_NODE:-}.pid"
unset JSLURM_PIDS JSLURM_NODE
"""
"""Sh text for the container. It replaces a PATH from the profile by the image's PATH, which enroot
stores in /etc/environment. The container uses the node's home, where packages of `pip install
--user` belong to another Python."""

# $1: the job dir; $2: sh text for the container; $3: the argument of that text; $4: the number of
# words that start another container; then these words and the program inside.
_BESIDE = r"""
dir=$1 text=$2 folder=$3 count=$4; shift 4
enter() { enroot exec --env TERM "$pid" "$@"; }
pid=$(cat "$dir/program.pid" 2>/dev/null)
is_ours() {
  enter /bin/sh -c : >/dev/null 2>&1 </dev/null || return
  # On nodes other than the batch script's, this process ID belongs to another process.
  [ "$(tr '\0' '\n' <"/proc/$pid/environ" | grep -cxF \
    -e "SLURM_JOB_ID=$SLURM_JOB_ID" -e "SLURMD_NODENAME=$SLURMD_NODENAME")" = 2 ]
}
if [ -n "$pid" ] && is_ours; then
  shift "$count"
  exec enroot exec --env TERM "$pid" /bin/sh -c "$text" sh "$folder" "$@"
fi
exec "$@"
"""


class StartMode(Enum):
    """Ways to start a program in a container."""

    PROGRAM = "program"
    """The job's program. Its process ID is written to a file."""
    BESIDE = "beside"
    """A program with a terminal, possibly beside the job's program."""


class EnrootContainers(ABC):
    """The base of a `Runtime` with `RunsOwnProgram` and `HasTerminal`; subclasses start
    containers."""

    takes_image = True
    image_suffixes = IMAGE_SUFFIXES

    @abstractmethod
    def started(self, argv: Sequence[str], box: Box, mode: StartMode) -> Launch:
        """Launch a program in a new container."""

    def fetched(self, reference: Reference) -> str | None:
        return enroot_name(reference)

    def job_dir(self, box: Box) -> str:
        return JOB_DIR

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        return replace(
            self.started(argv, box, StartMode.PROGRAM), pid_file=f"{box.job_dir}/{_PID_FILE}"
        )

    def launch_own(self, arguments: Sequence[str], box: Box) -> Launch:
        return self.launch(by_script(RC, arguments), box)

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch in the container of the job's program, found by its process ID. If that container
        does not exist, launch in a new container, without the changes made in the first."""
        _, _, text, _, folder = in_workdir((), box, JOB_DIR)
        own = self.started((), box, StartMode.BESIDE)
        words = (box.job_dir, text, folder, str(len(own.argv)), *own.argv, *argv)
        return replace(own, argv=("/bin/sh", "-c", _BESIDE, "sh", *words))


def enroot_name(reference: Reference) -> str:
    """Return the name for enroot 2 to 4 and pyxis: `ubuntu:20.04`,
    `nvcr.io#nvidia/pytorch:22.11-py3`.

    Version 4 also accepts a slash for the `#`, and digests.
    """
    if reference.registry == HUB:
        return f"{reference.repository.removeprefix('library/')}{reference.version}"
    return f"{reference.registry}#{reference.repository}{reference.version}"


def check_destination(mount: Mount) -> None:
    """Raise RequestError if enroot cannot mount at that path, or if the mount would hide the job's
    folder."""
    if not posixpath.isabs(mount.src):
        raise RequestError(f"enroot needs an absolute path to mount, not {mount.src!r}.")
    dst = posixpath.normpath(without_nul(mount.dst, NUL_IN_DST))
    if not is_plain(dst):
        raise RequestError(
            f"Cannot mount {mount.src} at {mount.dst}: enroot does not allow blanks, commas, "
            "colons, quotes, $ and \\ there.",
            hint="Use --mount SRC:/mnt/NAME; SRC may have any name.",
        )
    if dst in {"/", "/mnt"} or (dst + "/").startswith(JOB_DIR + "/"):
        raise RequestError(
            f"Cannot mount {mount.src} at {mount.dst}.",
            hint="Use --mount SRC:/mnt/NAME.",
        )


def is_plain(path: str) -> bool:
    """Return whether pyxis and enroot pass `path` on unchanged."""
    return not re.search(r'[\s,:"$`\\]', path)


_ERROR = re.compile(
    r"^ *(\[ERROR\] .*|curl: \(\d+\) .*|enroot-[a-z]+: .*|mksquashfs: .*|FATAL ERROR.*"
    r"|(?:/bin/)?sh: \d+: enroot: not found"
    r"|\[INFO\] Authenticating with user: .*(?!\n *\[INFO\]))$",
    re.MULTILINE,
)
"""A pattern for enroot's own errors. If a registry denies access, enroot 4.1.2 does not print an
error, so the pattern also matches a line about authentication at the log's end."""


def enroot_lines(log_tail: str) -> list[str]:
    """Return enroot's own error lines, oldest first."""
    return [line.removeprefix("[ERROR] ") for line in _ERROR.findall(log_tail)]


def explain_enroot(lines: Sequence[str]) -> Explained | None:
    """Explain a failure of enroot from its error lines. Return None if `lines` is empty."""
    return explain(_ERRORS, lines)


_REMOVE = (
    "Remove unneeded containers (see `enroot list`) with `enroot remove NAME`. ENROOT_DATA_PATH "
    "names the folder."
)
_LOGIN = "write `machine REGISTRY login NAME password PASSWORD` into ~/.config/enroot/.credentials"
CONTAINERS_FULL = ("The node's folder for enroot's containers is full", _REMOVE)
_ERRORS = (
    (r"failed to (?:create|join) \w+ namespace|ambient capabilities", *NO_NAMESPACES),
    *registry_rows(_LOGIN, _REMOVE),
    (
        r"authenticating with user",
        "Cannot pull the image: the registry denied access",
        f"Check the image's name. For a private image, log in once on the cluster: {_LOGIN}.",
    ),
    (
        r"invalid image reference",
        "Cannot pull the image: its name is not valid in enroot",
        "Use NAME:TAG or REGISTRY#NAME:TAG in lower case; digests need enroot 4.",
    ),
    (
        r"nvidia\.sh|nvidia-container-cli",
        "Cannot start the container: the node's NVIDIA tools cannot give it GPUs",
        "Ask for a GPU (--gpus 1), or report the node to the administrators.",
    ),
    (
        r"invalid image format",
        "Cannot unpack the image: it is not a SquashFS file",
        "Create a SquashFS file with `enroot import -o FILE.sqsh docker://NAME`.",
    ),
    (
        r"file already exists",
        "Cannot unpack the image: a container with that name exists on the node",
        "Remove it on the node with `enroot remove NAME`.",
    ),
    (r"source path does not exist|enroot-mount: failed to mount", *NO_MOUNT),
    (
        r"command not found|enroot: not found",
        "The node lacks a program that enroot needs",
        "Report the missing program to the administrators.",
    ),
    (
        r"permission denied",
        "enroot is not allowed to read or write a file on the node",
        "Check that you can read the image on the node.",
    ),
    (
        r"no such file or directory",
        "The image does not exist on the node",
        "Check its path, and use a file system that is mounted on the nodes.",
    ),
    ("", "enroot failed", "Look up the error in enroot's manual."),
)
