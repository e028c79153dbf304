"""Runtime `charliecloud`: the options and behaviour of ch-run.

Facts, from ch-run(1) and tests with 0.31:
- Images are mounted read-only, and a bind's destination must exist in them. So a folder
  of the job dir is first bound over /mnt, where any destination can be created.
- `--bind SRC:DST` cannot escape colons, and does not support read-only binds.
- `--set-env` (the image's ENV) fails for images without ENV, so a shell in the container reads
  /ch/environment.
- With a folder image, ch-run execs the program. With a SquashFS image, ch-run serves the files and
  unmounts them on TERM, which Slurm sends to every process of a job. So `env` (of coreutils 8.31
  and later) starts ch-run with signals blocked, and Python in the container unblocks them for the
  program. A program killed by a signal in a SquashFS image gives exit code 1.
- GPUs do not need an option, since /dev is the node's. The driver's libraries must be in the image
  (`ch-fromhost --nvidia`, once).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence

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
    NO_NAMESPACES,
    NO_SHELL,
    NO_TOOL,
    START_FAILED,
    explain,
    full_disk,
    registry_rows,
)
from jupyter_slurm.errors import RequestError

_SQUASH = (".sqfs", ".squashfs", ".sqsh")
_JOB_DIR = "/mnt/job"
_PID_FILE = "program.pid"
_PID_FILE_OF_NODE = "program$JSLURM_NODE.pid"
"""Name of the node's file with the program's process ID, as an sh expression."""

_OPTIONS = (
    "--home",
    "--env-no-expand",
    # Variables that describe the node's own programs are wrong in the image.
    *(f"--unset-env={glob}" for glob in ("LD_*", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")),
    "--unset-env=CONDA_*",
    "--set-env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    # The container uses the node's home, where packages of `pip install --user` belong to another
    # Python.
    "--set-env=PYTHONNOUSERSITE=1",
)

_USER = ': "${USER:=$(id -un)}"; export USER'
"""Sh text that sets USER. A job submitted with --export=NONE may lack it, and ch-run 0.31 then
fails with "$USER not set"."""

_IMAGE_ENVIRONMENT = r"""if [ -r /ch/environment ]; then
while IFS= read -r pair || [ -n "$pair" ]; do
  name=${pair%%=*} value=${pair#*=}
  case $name in "$pair" | '' | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
  case $value in \'*\') value=${value#\'} value=${value%\'} ;; esac
  export "$name=$value"
done </ch/environment
fi
"""

_BLOCK_SIGNALS = """if env --block-signal true 2>/dev/null; then
  set -- env --block-signal=HUP,INT,TERM,USR1,USR2 "$@"
fi
exec "$@"
"""

_UNBLOCK = (
    "import os, signal as s, sys; s.signal(s.SIGPIPE, s.SIG_DFL); s.signal(s.SIGXFSZ, s.SIG_DFL); "
    "s.pthread_sigmask(s.SIG_SETMASK, ()); os.execvp('env', ['env', '--', *sys.argv[1:]])"
)
"""Python code that unblocks all signals and runs a program. It also resets two signals that Python
ignores, because the program would ignore them too. It runs `env`, which reports a missing program
in one line."""

_UNBLOCK_SIGNALS = f"""printf "%s\\n" "$$" >"{_JOB_DIR}/{_PID_FILE_OF_NODE}"
unset JSLURM_NODE
if command -v python3 >/dev/null; then
  folder=$1; shift; set -- "$folder" python3 -IS -c {shlex.quote(_UNBLOCK)} "$@"
fi
"""


class Charliecloud:
    name = "charliecloud"
    takes_image = True
    image_suffixes = ("", *_SQUASH)
    programs = ("ch-run",)
    has_mpi = True

    def fetched(self, reference: Reference) -> str | None:
        return None

    def job_dir(self, box: Box) -> str:
        return _JOB_DIR

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        run, setup = self._run(box)
        if not run[-2].endswith(_SQUASH):
            return Launch((*run, *in_workdir(argv, box, _JOB_DIR, _IMAGE_ENVIRONMENT)), setup)
        before = _IMAGE_ENVIRONMENT + _UNBLOCK_SIGNALS
        words = in_workdir(argv, box, _JOB_DIR, before)
        return Launch(
            ("/bin/sh", "-c", _BLOCK_SIGNALS, "sh", *run, *words),
            setup,
            pid_file=f"{box.job_dir}/{_PID_FILE}",
        )

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch on a terminal. Signals are not blocked for ch-run, because the terminal sends
        them."""
        run, setup = self._run(box)
        return Launch((*run, *in_workdir(argv, box, _JOB_DIR, _IMAGE_ENVIRONMENT)), setup)

    def _run(self, box: Box) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return ch-run's command line up to `--`, and sh lines to run before it."""
        image = image_of(box, self.name)
        skeleton = f"{box.job_dir}/mnt"
        binds = [_bind(skeleton, "/mnt"), _bind(box.job_dir, _JOB_DIR)]
        setup = [_USER, f"mkdir -p -- {shlex.quote(skeleton + '/job')}"]
        for mount in box.mounts:
            dst = _destination(mount)
            binds.append(_bind(mount.src, dst))
            if dst.startswith("/mnt/"):
                setup.append(_mount_point(mount.src, skeleton + dst.removeprefix("/mnt")))
        return ("ch-run", *_OPTIONS, *binds, image, "--"), tuple(setup)

    def explain(self, log_tail: str) -> Explained | None:
        return explain([*_ERRORS, START_FAILED], _error_lines(_RUN_ERROR, log_tail))


def _bind(src: str, dst: str) -> str:
    if ":" in src:
        raise RequestError(
            f"Charliecloud cannot mount {src}: its path has a colon.",
            hint="Use a symbolic link without a colon.",
        )
    if not posixpath.isabs(src):
        raise RequestError(f"Charliecloud needs an absolute path to mount, not {src!r}.")
    return f"--bind={without_nul(src, NUL_IN_SRC)}:{without_nul(dst, NUL_IN_DST)}"


def _destination(mount: Mount) -> str:
    dst = posixpath.normpath(mount.dst)
    if mount.read_only:
        raise RequestError(f"Charliecloud cannot mount {mount.src} read-only.", hint="Omit `:ro`.")
    if dst in {"/", "/mnt"} or (dst + "/").startswith(_JOB_DIR + "/"):
        raise RequestError(
            f"Cannot mount {mount.src} at {mount.dst}.",
            hint="Use --mount SRC:/mnt/NAME.",
        )
    return dst


def _mount_point(src: str, path: str) -> str:
    """Return sh text that creates a mount point: a folder for a folder, an empty file for a
    file."""
    point, parent = shlex.quote(path), shlex.quote(posixpath.dirname(path))
    folder, file = f"mkdir -p -- {point}", f"mkdir -p -- {parent} && : >>{point}"
    return f"if [ -d {shlex.quote(src)} ]; then {folder}; else {file}; fi"


def explain_build(log_tail: str) -> Explained | None:
    """Explain a failure of ch-image or ch-convert. Return None if the cause is unknown or lies in
    the recipe."""
    lines = _error_lines(_BUILD_ERROR, log_tail)
    return explain(_ERRORS, lines) or full_disk(BUILDS_FULL, log_tail)


# The job's script, or the command that mounts an image, reports a missing ch-run.
_RUN_ERROR = re.compile(
    r"^ch-run\[\d+\]: error: (?P<own>.*?)(?: \(\S+\.c:\d+(?: \d+)?\))?$"
    r"|^.*slurm_script: line \d+: (?P<script>ch-run: command not found)$"
    r"|^(?P<env>env: .ch-run.: No such file .*)$",
    re.MULTILINE,
)
_BUILD_ERROR = re.compile(
    r"^error: (?P<own>.*)$|^\S*sh: .*?(?P<missing>ch-[a-z]+: .*not found)$", re.MULTILINE
)
_URLLIB = re.compile(r"HTTPS?ConnectionPool\(host='([^']+)', port=(\d+)\).*\] ([^'()]*\w).*")
"""A pattern for errors of Python's HTTP library, with groups for the host, the port and the
cause."""
_ERRORS = (
    (
        r"^ch-\w+: .*not found|^env: ",
        NO_TOOL,
        "Load its module (`modules` of the profile), or name another --runtime.",
    ),
    (r"namespace|unshare", *NO_NAMESPACES),
    (
        r"can't stat",
        "The image does not exist on the node",
        "Look for the image with `%slurm doctor`.",
    ),
    (
        r"FUSE error",
        "The node does not let users mount image files",
        "Use an image folder, or ask the administrators for /dev/fuse.",
    ),
    (r"source not found: ", *NO_MOUNT),
    (
        r"destination not found|can't mkdir",
        "Cannot start the container: the image lacks a mount point",
        "Mount below /mnt: --mount SRC:/mnt/NAME.",
    ),
    *registry_rows(
        "set CH_IMAGE_AUTH=yes, CH_IMAGE_USERNAME and CH_IMAGE_PASSWORD in a file that only you "
        "can read, and source it in the profile's `setup`",
        BUILDS_FULL[1],
    ),
    (r"can't execve", *NO_SHELL),
)


def _error_lines(pattern: re.Pattern[str], log_tail: str) -> list[str]:
    errors = list(pattern.finditer(log_tail))
    return [_URLLIB.sub(r"\1:\2: \3", str(one[one.lastgroup or 0])) for one in errors[-1:]]
