"""The Protocol of container tools, its values, and the sh text that tools share. PURE."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jupyter_slurm.containers.references import Reference
from jupyter_slurm.errors import RequestError

NUL_IN_SRC = "The path to mount has a NUL character."
NUL_IN_DST = "The mount point has a NUL character."

_ENTER_FOLDER = (
    'case $1 in /*) ;; *) cd ;; esac && cd -- "$1" || '
    '{ echo "jupyter-slurm: cannot enter the working directory $1" >&2; exit 66; }; '
    'shift && exec "$@"'
)
"""POSIX sh; `$1` is absolute, or starts with a dot and is relative to the home."""


# The step ends with its terminal, which background processes would keep open where Slurm tracks
# processes by their parents (proctrack/linuxproc).
SWEEP = r"""trap : HUP INT QUIT
"$@"
rc=$?
for stat in /proc/[0-9]*/stat; do
  pid=${stat#/proc/} pid=${pid%/stat} line=
  { read -r line <"$stat"; } 2>/dev/null
  set -- ${line##*)}
  [ "$pid" = "$$" ] || [ "${4:-}" != "$$" ] || kill -KILL "$pid" 2>/dev/null
done
exit "$rc"
"""
"""POSIX sh for a task with a terminal of srun: runs the rest, then ends the processes it has
left."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the node that the container sees as `dst`; both paths are absolute."""

    src: str
    dst: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A program's surroundings: everything a runtime needs to know about the job."""

    job_dir: str
    """Absolute, on the node."""
    image: str | None = None
    """Absolute path of an image folder or file there, or the runtime's name for an image to
    download; None: no container."""
    mounts: tuple[Mount, ...] = ()
    env_file: str | None = None
    """Name of a file in the job dir with `export NAME='value'` lines, read last, inside. Values are
    in a file since `ps` shows a command's words to all users of the node."""
    workdir: str | None = None
    """The path inside; `~/…` and relative paths start from the home there. None: the home."""
    as_root: bool = False
    """Run the program as root inside."""
    container_name: str | None = None
    """The value of pyxis's `--container-name`; None: the container ends with the job."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The start of a program in the batch script; the words of `argv` are not quoted yet."""

    argv: tuple[str, ...]
    """Ends with the program's own words."""
    setup: tuple[str, ...] = ()
    """POSIX sh lines, quoted, to run before; idempotent."""
    pid_file: str | None = None
    """Path on the node of a file with the process ID for signals; on node K ≥ 1 of a job `.K`
    precedes its suffix. None: the launched process becomes the program."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The reason why a container did not start, and the remedy."""

    sentence: str
    advice: str


class Runtime(Protocol):
    """A container tool, or none."""

    @property
    def name(self) -> str:
        """Return the name for `--runtime` and a profile's `runtime`."""

    @property
    def takes_image(self) -> bool:
        """Return whether a job needs an image; False: it cannot have one."""

    @property
    def image_suffixes(self) -> tuple[str, ...]:
        """Return the suffixes of an image's file name, best first; "" is a folder."""

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the programs that identify the tool on a machine, its own first; an option is one
        of srun's."""

    @property
    def has_mpi(self) -> bool:
        """Return whether MPI ranks in the containers find each other through srun."""

    def fetched(self, reference: Reference) -> str | None:
        """Return the tool's name for an image that it downloads itself; None: it needs a file."""

    def job_dir(self, box: Box) -> str:
        """Return the job dir's path for the program."""

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        """Return the launch of `argv`. RequestError: the runtime does not support the box."""

    def explain(self, log_tail: str) -> Explained | None:
        """Explain the tool's failure at the end of a job's log; None: not a failure of the tool."""


@runtime_checkable
class RunsOwnProgram(Protocol):
    """A tool that can run an image's own program."""

    def launch_own(self, arguments: Sequence[str], box: Box) -> Launch:
        """Launch that program in the image's folder, or else the box's. RequestError as in
        `Runtime.launch`."""


def launch_own(runtime: Runtime, arguments: Sequence[str], box: Box) -> Launch:
    """Launch the image's own program. RequestError as in `Runtime.launch`, or not supported."""
    if isinstance(runtime, RunsOwnProgram):
        return runtime.launch_own(arguments, box)
    raise RequestError(
        f"The runtime {runtime.name} cannot run an image's own program.",
        hint="Name the program in a cell or file that starts with `#!`.",
        option="runtime",
    )


@dataclass(frozen=True, slots=True)
class StepInImage:
    """The start of an srun step on many nodes whose tasks run in the image."""

    before: tuple[str, ...]
    """The words before srun."""
    options: tuple[str, ...]
    """srun's options."""
    inside: tuple[str, ...]
    """The words before the program."""


@runtime_checkable
class HasSteps(Protocol):
    """A tool whose containers are srun steps themselves, so that a launch inside one would be
    another step."""

    def step(self, box: Box) -> StepInImage:
        """Return the start of a step. RequestError as in `Runtime.launch`."""


def in_workdir(argv: Sequence[str], box: Box, job_dir: str, before: str = "") -> tuple[str, ...]:
    """Run `argv` in the box's folder with its environment, by a POSIX sh that becomes it.

    `job_dir` is the job dir's path for that shell; `before` is sh text to run first. A missing
    folder ends the shell with a message and the exit code of a failed setup.
    """
    before += _environment(box, job_dir)
    return ("/bin/sh", "-c", before + _ENTER_FOLDER, "sh", _folder(box.workdir), *argv)


def in_image_folder(box: Box, job_dir: str, before: str = "") -> tuple[str, ...]:
    """As `in_workdir`, but in the image's own working directory."""
    return ("/bin/sh", "-c", f'{before}{_environment(box, job_dir)}exec "$@"', "sh")


def _environment(box: Box, job_dir: str) -> str:
    """Return sh text that reads the box's environment."""
    if box.env_file is None:
        return ""
    return f". {shlex.quote(f'{job_dir}/{box.env_file}')}\n"


def image_of(box: Box, runtime: str) -> str:
    """Return the box's image. RequestError: none."""
    if box.image is None:
        raise RequestError(
            f"The runtime {runtime} needs an image.",
            hint="Use --image NAME, or --runtime none for the node's own Python.",
            option="image",
        )
    return without_nul(box.image, "The image's name has a NUL character.")


def without_nul(text: str, sentence: str) -> str:
    """Return `text`. RequestError with `sentence`: it contains NUL, which no argument can."""
    if "\0" in text:
        raise RequestError(sentence)
    return text


def _folder(workdir: str | None) -> str:
    has_nul = "The working directory has a NUL character."
    folder = without_nul(workdir or ".", has_nul).removeprefix("~/")
    if folder in {".", "~"}:
        return "."
    # With a leading dot `cd` does not search $CDPATH, nor take `-` for an option.
    return folder if posixpath.isabs(folder) else f"./{folder}"


@runtime_checkable
class HasTerminal(Protocol):
    """A runtime with its own way to run a program on a terminal."""

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch as `Runtime.launch`, but on a terminal and without a `pid_file`; in the container
        of the job's program if that runs there, else in another one."""


def launch_beside(runtime: Runtime, argv: Sequence[str], box: Box) -> Launch:
    """Launch on a terminal, as `HasTerminal.beside`. RequestError as in `Runtime.launch`."""
    if isinstance(runtime, HasTerminal):
        return runtime.beside(argv, box)
    return runtime.launch(argv, box)
