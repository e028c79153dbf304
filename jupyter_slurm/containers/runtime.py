"""The values that every container tool is spoken to with, and the Protocol that each one meets.

No tool's flags are known here, and nothing is run or looked up: see `none.py`, `charliecloud.py`.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jupyter_slurm.containers.references import Reference
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Text

_ENTER_FOLDER = 'case $1 in /*) ;; *) cd || exit ;; esac; cd -- "$1" && shift && exec "$@"'
"""POSIX sh; `$1` is absolute, or starts with a dot and is meant from the home on."""


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
    """Absolute path of a folder or image file there, or what the runtime calls one that it fetches;
    None: no container."""
    mounts: tuple[Mount, ...] = ()
    env_file: str | None = None
    """Name of a file in the job dir with `export NAME='value'` lines, read last, inside. Values
    travel so and not as words of a command, which `ps` shows to everybody on the node."""
    workdir: str | None = None
    """As seen inside; relative ones and `~/…` are meant from the home there. None: the home."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How the batch script starts a program; each word of `argv` still wants quoting."""

    argv: tuple[str, ...]
    """Ends with the program's own words."""
    setup: tuple[str, ...] = ()
    """POSIX sh lines, quoted, to be run before; running them twice does no harm."""
    pid_file: str | None = None
    """Path on the node of a file with the program's process id: signals go there. None: the
    launched process becomes the program."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a container did not start, and what to do about it."""

    sentence: Text
    advice: Text


class Runtime(Protocol):
    """A container tool, or none."""

    @property
    def name(self) -> str:
        """The name that `--runtime` and a profile's `runtime` use."""

    @property
    def takes_image(self) -> bool:
        """An image must be given; False: none can be."""

    @property
    def image_suffixes(self) -> tuple[str, ...]:
        """The endings of an image's file name, best first; "" is a folder."""

    def fetched(self, reference: Reference) -> str | None:
        """Return what the tool calls an image that it fetches by itself; None: it needs a file."""

    def job_dir(self, box: Box) -> str:
        """Return where the program finds the job dir."""

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        """Return how to launch it. RequestError: this runtime cannot do what the box asks for."""

    def explain(self, log_tail: str) -> Explained | None:
        """Explain the tool's failure at the end of a job's log; None: it was not the tool."""


@runtime_checkable
class KeepsContainers(Protocol):
    """A tool whose containers can stay on a node, each under a name: `--image @NAME`."""

    def kept(self, name: str) -> str:
        """Return the box's image for that container. RequestError: none can be called that."""


def in_workdir(argv: Sequence[str], box: Box, job_dir: str, before: str = "") -> tuple[str, ...]:
    """Run `argv` in the box's folder with its environment by a POSIX sh that becomes it.

    `job_dir` is where that shell finds it; `before` is sh text to run first. A folder that is not
    there ends the shell with its own message.
    """
    if box.env_file is not None:
        before += f". {shlex.quote(f'{job_dir}/{box.env_file}')}\n"
    return ("/bin/sh", "-c", before + _ENTER_FOLDER, "sh", _folder(box.workdir), *argv)


def image_of(box: Box, runtime: str) -> str:
    """Return the box's image. RequestError: it has none."""
    if box.image is None:
        raise RequestError(
            f"The runtime {runtime} needs an image.",
            hint="Say --image NAME, or --runtime none for the node's own Python.",
            option="image",
        )
    return without_nul(box.image, "the image's name")


def without_nul(text: str, what: str) -> str:
    """Return `text`; RequestError where it holds the one character that no program can be given."""
    if "\0" in text:
        raise RequestError(f"There is a NUL character in {what}.")
    return text


def _folder(workdir: str | None) -> str:
    folder = without_nul(workdir or ".", "the working folder").removeprefix("~/")
    if folder in {".", "~"}:
        return "."
    # With a dot in front `cd` does not look into $CDPATH, nor take `-` for an option.
    return folder if posixpath.isabs(folder) else f"./{folder}"


@runtime_checkable
class HasTerminal(Protocol):
    """The methods of a runtime that has its own ways for a program with a terminal."""

    def in_terminal(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch as `Runtime.launch` does, but on a terminal, and without a `pid_file`."""

    def beside(self, argv: Sequence[str], box: Box) -> Launch:
        """Launch in a job whose program already runs, in its container where it has one."""


def launch_in_terminal(runtime: Runtime, argv: Sequence[str], box: Box) -> Launch:
    """Launch in a terminal. RequestError: as of `Runtime.launch`."""
    if isinstance(runtime, HasTerminal):
        return runtime.in_terminal(argv, box)
    return runtime.launch(argv, box)


def launch_beside(runtime: Runtime, argv: Sequence[str], box: Box) -> Launch:
    """Launch beside the job's own program. RequestError: as of `Runtime.launch`."""
    if isinstance(runtime, HasTerminal):
        return runtime.beside(argv, box)
    return runtime.launch(argv, box)
