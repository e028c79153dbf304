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


# The step's end is that of its terminal, which what was left in the background would keep open
# where Slurm tracks processes by their parents (proctrack/linuxproc).
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
"""POSIX sh for a task that has a terminal of srun's: runs the rest, then ends what it has left."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the node that the container sees as `dst`; both paths are absolute."""

    src: str
    dst: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """The surroundings of a program: everything a runtime needs to know of the job."""

    job_dir: str
    """Absolute, on the node."""
    image: str | None = None
    """Absolute path of a folder or image file there, or the runtime's name for one that it fetches;
    None: no container."""
    mounts: tuple[Mount, ...] = ()
    env_file: str | None = None
    """Name of a file in the job dir with `export NAME='value'` lines, read last, inside. It has the
    values, since `ps` shows a command's words to all users of the node."""
    workdir: str | None = None
    """The path inside; `~/…` and relative paths start from the home there. None: the home."""
    as_root: bool = False
    """True: the program is root inside."""
    container_name: str | None = None
    """The value of pyxis's `--container-name`; None: the container goes with the job."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The start of a program in the batch script; each word of `argv` still needs quoting."""

    argv: tuple[str, ...]
    """Ends with the program's own words."""
    setup: tuple[str, ...] = ()
    """POSIX sh lines, quoted, to run before; running them twice does no harm."""
    pid_file: str | None = None
    """Path on the node of a file with the process id that gets the signals; of a job on many nodes
    `.K` comes before its ending on node K ≥ 1. None: the launched process becomes the program."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The reason why a container did not start, and the remedy."""

    sentence: str
    advice: str


class Runtime(Protocol):
    """A container tool, or none."""

    @property
    def name(self) -> str:
        """Return the name that `--runtime` and a profile's `runtime` use."""

    @property
    def takes_image(self) -> bool:
        """Return whether a job needs an image; False: it cannot have one."""

    @property
    def image_suffixes(self) -> tuple[str, ...]:
        """Return the endings of an image's file name, best first; "" is a folder."""

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the programs by which it is known on a machine, its own first; an option is one
        of srun's."""

    @property
    def has_mpi(self) -> bool:
        """Return whether ranks of MPI find each other inside, by what srun tells them."""

    def fetched(self, reference: Reference) -> str | None:
        """Return the tool's name for an image that it fetches by itself; None: it needs a file."""

    def job_dir(self, box: Box) -> str:
        """Return where the program finds the job dir."""

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        """Return the launch of `argv`. RequestError: this runtime cannot do what the box needs."""

    def explain(self, log_tail: str) -> Explained | None:
        """Explain the tool's failure at the end of a job's log; None: it was not the tool."""


@runtime_checkable
class RunsOwnProgram(Protocol):
    """A tool that can run the program which an image itself names."""

    def launch_own(self, arguments: Sequence[str], box: Box) -> Launch:
        """Launch that program where the image says, or else in the box's folder. RequestError: as
        of `Runtime.launch`."""


def launch_own(runtime: Runtime, arguments: Sequence[str], box: Box) -> Launch:
    """Launch the image's own program. RequestError: as of `Runtime.launch`, or the runtime does not
    know it."""
    if isinstance(runtime, RunsOwnProgram):
        return runtime.launch_own(arguments, box)
    raise RequestError(
        f"The runtime {runtime.name} cannot run an image's own program.",
        hint="Name the program in a cell or file that begins with `#!`.",
        option="runtime",
    )


@dataclass(frozen=True, slots=True)
class StepInImage:
    """The start of a step of srun's on many nodes, whose tasks run in the image."""

    before: tuple[str, ...]
    """The words before srun's own."""
    options: tuple[str, ...]
    """For srun."""
    inside: tuple[str, ...]
    """The words before those of the program."""


@runtime_checkable
class HasSteps(Protocol):
    """A tool whose containers are steps of srun's themselves, so that a launch in one of them would
    be another one."""

    def step(self, box: Box) -> StepInImage:
        """Return the start of a step. RequestError: as of `Runtime.launch`."""


def in_workdir(argv: Sequence[str], box: Box, job_dir: str, before: str = "") -> tuple[str, ...]:
    """Run `argv` in the box's folder with its environment by a POSIX sh that becomes it.

    `job_dir` is the job dir's path for that shell; `before` is sh text to run first. A missing
    folder ends the shell with a message and the exit code of a failed set-up.
    """
    before += _environment(box, job_dir)
    return ("/bin/sh", "-c", before + _ENTER_FOLDER, "sh", _folder(box.workdir), *argv)


def in_image_folder(box: Box, job_dir: str, before: str = "") -> tuple[str, ...]:
    """Run the words that follow likewise, but in the folder in which the image begins."""
    return ("/bin/sh", "-c", f'{before}{_environment(box, job_dir)}exec "$@"', "sh")


def _environment(box: Box, job_dir: str) -> str:
    """Return sh text that reads the box's environment."""
    if box.env_file is None:
        return ""
    return f". {shlex.quote(f'{job_dir}/{box.env_file}')}\n"


def image_of(box: Box, runtime: str) -> str:
    """Return the box's image. RequestError: it has none."""
    if box.image is None:
        raise RequestError(
            f"The runtime {runtime} needs an image.",
            hint="Use --image NAME, or --runtime none for the node's own Python.",
            option="image",
        )
    return without_nul(box.image, "The image's name has a NUL character.")


def without_nul(text: str, sentence: str) -> str:
    """Return `text`. RequestError, which says the sentence: it has NUL, the one character that no
    argument can have."""
    if "\0" in text:
        raise RequestError(sentence)
    return text


def _folder(workdir: str | None) -> str:
    has_nul = "The working directory has a NUL character."
    folder = without_nul(workdir or ".", has_nul).removeprefix("~/")
    if folder in {".", "~"}:
        return "."
    # With a dot in front `cd` does not look into $CDPATH, nor take `-` for an option.
    return folder if posixpath.isabs(folder) else f"./{folder}"


@runtime_checkable
class HasTerminal(Protocol):
    """A runtime that has its own way for a program with a terminal."""

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch as `Runtime.launch` does, but on a terminal and without a `pid_file`; in the
        container of the job's program if that runs there, else in another one."""


def launch_beside(runtime: Runtime, argv: Sequence[str], box: Box) -> Launch:
    """Launch on a terminal, as `HasTerminal.beside`. RequestError: as of `Runtime.launch`."""
    if isinstance(runtime, HasTerminal):
        return runtime.beside(argv, box)
    return runtime.launch(argv, box)
