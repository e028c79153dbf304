"""The Protocol of container tools, its values, and the sh text that tools share. No I/O."""

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
"""POSIX sh that enters `$1` and runs the rest. `$1` is absolute, or starts with a dot and is
relative to the home."""


# The step ends when its terminal closes. Background processes would keep the terminal open if Slurm
# tracks processes by their parents (proctrack/linuxproc).
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
"""POSIX sh for a task on srun's terminal. It runs its arguments as a command, then kills leftover
processes."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file on the node that appears in the container as `dst`. Both paths are
    absolute."""

    src: str
    dst: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """The part of a job that a runtime needs to start a program."""

    job_dir: str
    """The job dir's absolute path on the node."""
    image: str | None = None
    """The absolute path of an image file or folder on the node, or the runtime's name for an image
    to download; None for no container."""
    mounts: tuple[Mount, ...] = ()
    env_file: str | None = None
    """The name of a file in the job dir with `export NAME='value'` lines, read last, in the
    container. A file hides the values, whereas `ps` shows command lines to all users of the node.
    """
    workdir: str | None = None
    """The working directory in the container; `~/…` and relative paths start from the home in the
    container. None for the home."""
    as_root: bool = False
    """Run the program as root in the container."""
    container_name: str | None = None
    """The value of pyxis's `--container-name`; None for a container that ends with the job."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The command that starts a program in the batch script. `argv` is not quoted yet."""

    argv: tuple[str, ...]
    """The command line, which ends with the program's command line."""
    setup: tuple[str, ...] = ()
    """POSIX sh lines to run first, quoted and idempotent."""
    pid_file: str | None = None
    """The node's file with the process ID to signal. On node K ≥ 1 of a job, `.K` precedes the
    file's suffix. None if the launched process execs the program."""


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
        """Return whether a job needs an image. If not, the job cannot have an image."""

    @property
    def image_suffixes(self) -> tuple[str, ...]:
        """Return the suffixes of image file names, best first; "" means a folder."""

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the programs that identify the tool on a machine, the tool's own program first. A
        word with dashes is an option of srun."""

    @property
    def has_mpi(self) -> bool:
        """Return whether MPI ranks in containers find each other through srun."""

    def fetched(self, reference: Reference) -> str | None:
        """Return the tool's name for an image that it downloads itself; None if it needs a file."""

    def job_dir(self, box: Box) -> str:
        """Return the job dir's path as the program sees it."""

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        """Return the launch of `argv`. Raise RequestError if the runtime does not support the
        box."""

    def explain(self, log_tail: str) -> Explained | None:
        """Explain the tool's failure at the end of a job's log. Return None if the tool did not
        fail."""


@runtime_checkable
class RunsOwnProgram(Protocol):
    """A tool that can run an image's own program."""

    def launch_own(self, arguments: Sequence[str], box: Box) -> Launch:
        """Launch that program in the image's working directory or, if the tool ignores that, in the
        box's folder. Raise RequestError as `Runtime.launch` does."""


def launch_own(runtime: Runtime, arguments: Sequence[str], box: Box) -> Launch:
    """Launch the image's own program. Raise RequestError as `Runtime.launch` does, or if the
    runtime does not support it."""
    if isinstance(runtime, RunsOwnProgram):
        return runtime.launch_own(arguments, box)
    raise RequestError(
        f"The runtime {runtime.name} cannot run an image's own program.",
        hint="Call the program from a cell or file that starts with `#!`.",
        option="runtime",
    )


@dataclass(frozen=True, slots=True)
class StepInImage:
    """The command line of an srun step on many nodes, with tasks in the image."""

    before: tuple[str, ...]
    """The command line before srun."""
    options: tuple[str, ...]
    """srun's options."""
    inside: tuple[str, ...]
    """The command line between srun's options and the program."""


@runtime_checkable
class HasSteps(Protocol):
    """A tool whose containers are srun steps, so a launch within a step would start another
    step."""

    def step(self, box: Box) -> StepInImage:
        """Return the command line of a step. Raise RequestError as `Runtime.launch` does."""


def in_workdir(argv: Sequence[str], box: Box, job_dir: str, before: str = "") -> tuple[str, ...]:
    """Return a command that runs `argv` in the box's folder with its environment: a POSIX sh that
    execs it. `job_dir`: the job dir as that shell sees it; `before`: sh text to run first. A
    missing folder ends the shell with a message and the exit code of a failed setup.
    """
    before += _environment(box, job_dir)
    return ("/bin/sh", "-c", before + _ENTER_FOLDER, "sh", _folder(box.workdir), *argv)


def in_image_folder(box: Box, job_dir: str, before: str = "") -> tuple[str, ...]:
    """Return a command as `in_workdir` does, but for the image's own working directory."""
    return ("/bin/sh", "-c", f'{before}{_environment(box, job_dir)}exec "$@"', "sh")


def _environment(box: Box, job_dir: str) -> str:
    """Return sh text that reads the box's environment."""
    if box.env_file is None:
        return ""
    return f". {shlex.quote(f'{job_dir}/{box.env_file}')}\n"


def image_of(box: Box, runtime: str) -> str:
    """Return the box's image. Raise RequestError if the box does not have an image."""
    if box.image is None:
        raise RequestError(
            f"The runtime {runtime} needs an image.",
            hint="Use --image NAME, or --runtime none for the node's own Python.",
            option="image",
        )
    return without_nul(box.image, "The image's name has a NUL character.")


def without_nul(text: str, sentence: str) -> str:
    """Return `text`. Raise RequestError with `sentence` if it contains NUL, which arguments cannot
    contain."""
    if "\0" in text:
        raise RequestError(sentence)
    return text


def _folder(workdir: str | None) -> str:
    has_nul = "The working directory has a NUL character."
    folder = without_nul(workdir or ".", has_nul).removeprefix("~/")
    if folder in {".", "~"}:
        return "."
    # After a leading dot, `cd` does not search $CDPATH or take `-` for an option.
    return folder if posixpath.isabs(folder) else f"./{folder}"


@runtime_checkable
class HasTerminal(Protocol):
    """A runtime that starts programs on a terminal in its own way."""

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch as `Runtime.launch` does, but on a terminal and without a `pid_file`. Use the
        container of the job's program if it runs on that node, otherwise a new container."""


def launch_beside(runtime: Runtime, argv: Sequence[str], box: Box) -> Launch:
    """Launch on a terminal as `HasTerminal.beside` does. Raise RequestError as `Runtime.launch`
    does."""
    if isinstance(runtime, HasTerminal):
        return runtime.beside(argv, box)
    return runtime.launch(argv, box)
