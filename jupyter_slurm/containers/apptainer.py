"""Runtimes `apptainer` and `singularity`, one tool under two names.

Facts (tested with Apptainer 1.4; otherwise from the manuals of Singularity 3.5 and later):
- The container inherits the environment except PATH and LD_LIBRARY_PATH, which the image sets. So
  the script first removes variables that describe the node's own programs.
- `--bind` splits at colons and commas. `--mount` takes CSV, which can quote them, but needs version
  3.9. So only paths with these characters use it. Apptainer creates mount points that the image
  lacks.
- Apptainer's parent process forwards signals to the program and exits with the program's code;
  Apptainer's own failures exit with 255. If the parent is killed, the program is killed too.
- The home comes from the user's passwd entry; $HOME is ignored.
- `run` executes a script in the image. A script that is generated from ENTRYPOINT and CMD parses
  them and its arguments again, as a shell does, unless a variable disables that. The script ignores
  WORKDIR.
- If the tool is set-uid, the kernel mounts a `.sif`. Otherwise a helper process serves the files,
  and exits on the first TERM. Under proctrack/linuxproc, `scancel` sends TERM to every process of
  the job; under proctrack/cgroup, it sends TERM only to the batch script. So a cell that saves its
  work on TERM cannot read more from the image. A folder image needs no helper.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from jupyter_slurm.containers.mounts import csv_line
from jupyter_slurm.containers.own_program import by_script
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import (
    NUL_IN_DST,
    NUL_IN_SRC,
    Box,
    Explained,
    Launch,
    Mount,
    image_of,
    in_workdir,
    without_nul,
)
from jupyter_slurm.containers.tool_errors import (
    BUILDS_FULL,
    NO_MOUNT,
    NO_SHELL,
    NO_TOOL,
    START_FAILED,
    explain,
    full_disk,
    registry_rows,
    uncoloured,
)
from jupyter_slurm.errors import RequestError

# $1: the program; $2: its alternative name, for nodes that lack the first name; $3: its verbosity;
# then the arguments of `exec`.
_START = r"""program=$1 other=$2 talk=$3; shift 3
command -v "$program" >/dev/null || ! command -v "$other" >/dev/null || program=$other
[ -z "${ROCR_VISIBLE_DEVICES:-}" ] || set -- --rocm "$@"
case ${CUDA_VISIBLE_DEVICES:-} in '' | NoDevFiles) ;; *) set -- --nv "$@" ;; esac
set -- "$program" --nocolor $talk exec "$@"
set -f
for name in LD_PRELOAD PYTHONPATH PYTHONHOME VIRTUAL_ENV \
    $(env | sed -n -e 's/^\(CONDA_[A-Za-z0-9_]*\)=.*/\1/p' -e 's/^\(BASH_FUNC_[^= ]*\)=.*/\1/p'); do
  set -- -u "$name" "$@"
done
exec env "$@"
"""

_INSIDE = "export PYTHONNOUSERSITE=1\n"
"""Sh text for the container. The container uses the node's home, where packages of `pip install
--user` belong to another Python."""

RUNSCRIPT = "/.singularity.d/runscript"
_RUN_INSIDE = f"{_INSIDE}export SINGULARITY_NO_EVAL=1\n"

_FETCHED = re.compile(r"[a-z][a-z-]*://")
_NOT_FOR_BIND = re.compile(r'[:,"\\\r\n]')


class Apptainer:
    takes_image = True
    image_suffixes = (".sif", "", ".simg", ".sqfs", ".squashfs", ".sqsh", ".img")
    has_mpi = True

    def __init__(self, name: str, other: str) -> None:
        """`name`: the program's name; `other`: its alternative name."""
        self.name = name
        self.programs = (name, other)
        self._other = other

    def fetched(self, reference: Reference) -> str | None:
        return apptainer_name(reference)

    def job_dir(self, box: Box) -> str:
        return box.job_dir

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        return self._launch(argv, box, _INSIDE)

    def launch_own(self, arguments: Sequence[str], box: Box) -> Launch:
        return self._launch(by_script(RUNSCRIPT, arguments), box, _RUN_INSIDE)

    def _launch(self, argv: Sequence[str], box: Box, before: str) -> Launch:
        image = image_of(box, self.name)
        mounts = [Mount(box.job_dir, box.job_dir), *box.mounts]
        return Launch(
            (
                "/bin/sh",
                "-c",
                _START,
                "sh",
                self.name,
                self._other,
                # Do not silence downloads, which take minutes; otherwise print only warnings and
                # errors.
                "" if _FETCHED.match(image) else "--quiet",
                "--pwd=/",
                *map(_mount, mounts),
                image,
                *in_workdir(argv, box, box.job_dir, before),
            )
        )

    def explain(self, log_tail: str) -> Explained | None:
        return explain([*_ERRORS, START_FAILED], _error_lines(log_tail))


APPTAINERS = (Apptainer("apptainer", "singularity"), Apptainer("singularity", "apptainer"))


def apptainer_name(reference: Reference) -> str:
    """Return Apptainer's name for the image, with a tag or a digest. Apptainer rejects both
    together."""
    version = f"@{reference.digest}" if reference.digest else f":{reference.tag}"
    return f"docker://{reference.registry}/{reference.repository}{version}"


def _mount(mount: Mount) -> str:
    src = without_nul(mount.src, NUL_IN_SRC)
    dst = without_nul(mount.dst, NUL_IN_DST)
    for path in (src, dst):
        if not posixpath.isabs(path):
            raise RequestError(f"Apptainer needs absolute paths to mount, not {path!r}.")
    if posixpath.normpath(dst) == "/":
        raise RequestError(f"Cannot mount {src} at {dst}.", hint="Use --mount SRC:/mnt/NAME.")
    if not _NOT_FOR_BIND.search(src + dst):
        return f"--bind={src}:{dst}{':ro' if mount.read_only else ''}"
    fields = ["type=bind", f"source={src}", f"destination={dst}"]
    return f"--mount={csv_line(fields + ['ro'] * mount.read_only)}"


def explain_build(log_tail: str) -> Explained | None:
    """Explain a failed build or pull. Return None if the cause is unknown or lies in the recipe."""
    return explain(_ERRORS, _error_lines(log_tail)) or full_disk(BUILDS_FULL, log_tail)


# Many programs print similar messages, so trust only lines in Apptainer's exact form at the end of
# the log.
_LAST_LINES = 5
_ERROR = re.compile(
    r"^(?:FATAL:   |ERROR:   |ERROR  : )(?P<own>.+)$"
    r"|^(?P<env>env: .?(?:apptainer|singularity)\b.*)$"
    r"|^\S*sh: .*?(?P<sh>(?:apptainer|singularity): .*not found)$",
    re.MULTILINE,
)
_USAGE = re.compile(
    r"^Error for command \"exec\": (.+)$(?s:.*)^Run '(?:apptainer|singularity) --help'.*\s*\Z",
    re.MULTILINE,
)
_ERRORS = (
    (
        r"^env: |^(?:apptainer|singularity): ",
        NO_TOOL,
        "Load its module (--module NAME), or name another --runtime or partition.",
    ),
    (
        r"/dev/fuse|fusermount|user namespace|requires privileges|max_user_namespaces",
        "The node does not let users start containers",
        "Ask the administrators for unprivileged user namespaces and /dev/fuse.",
    ),
    *registry_rows(
        "`apptainer registry login --username NAME docker://REGISTRY`",
        "Name larger folders with APPTAINER_TMPDIR and APPTAINER_CACHEDIR in the profile's "
        "`setup`, or pull the image once for all nodes with `%slurm image pull`.",
    ),
    (
        r"could not open image .*no such file|failed to retrieve path",
        "The image does not exist on the node",
        "Check its path, and use a file system that is mounted on the nodes.",
    ),
    (
        r"image format not recognized|bad superblock|trying to read the squashfs",
        "Cannot unpack the image: it is incomplete, or not an image",
        "Pull or build it again.",
    ),
    (r"mount source .* doesn't exist", *NO_MOUNT),
    (r"/bin/sh|executable file not found|shared library is likely missing", *NO_SHELL),
)


def _error_lines(log_tail: str) -> list[str]:
    log = uncoloured(log_tail)
    if usage := _USAGE.search(log):
        return [usage[1]]
    lines = [line for line in log.splitlines() if line.strip()]
    errors = list(_ERROR.finditer("\n".join(lines[-_LAST_LINES:])))
    return [str(error[error.lastgroup or 0]) for error in errors[-1:]]
