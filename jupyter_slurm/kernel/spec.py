"""Kernelspecs of kernels in jobs, in the user's Jupyter data folder.

Every Jupyter client lists them. The values of `--env` are in a separate file (0600) that the
kernelspec names, because Jupyter serves the kernelspec's folder and because command lines are
public.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from jupyter_core import paths

from jupyter_slurm import places
from jupyter_slurm.commands import line
from jupyter_slurm.commands.arguments import of_job, read_arguments, take
from jupyter_slurm.commands.command import OurOption
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.commands.submitting import KERNEL_ADD
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.wire import Cluster, RemoteKernel

MODULE = "jupyter_slurm.kernel"
_SPEC = "kernel.json"
_LOGO = "logo-svg.svg"
"""Jupyter's file name for the icon of a kernel."""
_VALUES = "--env-file"
"""The internal option that names the file with the values of `--env`."""
_ENV = "--env"
_STORED = replace(
    KERNEL_ADD,
    options=MappingProxyType(
        {**KERNEL_ADD.options, "env-file": OurOption("FILE", "the file with the values of --env")}
    ),
)
"""The command that parses the arguments in a kernelspec."""
_HIDDEN = "…"


@dataclass(frozen=True, slots=True)
class Stored:
    """The job options of a kernelspec, as arguments."""

    words: tuple[str, ...]
    """The arguments, including the values of `--env`."""
    identity: tuple[str, ...]
    """The identity of the kernelspec's kernels. Different values of `--env` mean a different
    kernel."""


def stored(words: Sequence[str]) -> Stored:
    """Return the job options of a kernelspec, with the values of `--env`. Raise RequestError if the
    file with the values of `--env` is missing or unreadable."""
    rest, files = take(_STORED, words, "env-file")
    if not files:
        return Stored(tuple(words), tuple(words))
    values: dict[str, str] = {}
    for file in files:
        values |= _read_values(Path(file))
    env = [word for name, value in values.items() for word in (_ENV, f"{name}={value}")]
    digest = hashlib.sha256(msgspec.json.encode(values)).hexdigest()
    return Stored((*rest, *env), (*rest, digest))


def meant(args: Arguments, clusters: Iterable[Cluster]) -> RemoteKernel:
    """Return the kernel that `kernel add` would add.

    Raise RequestError if an argument is invalid or the name is taken, and NotFoundError if the
    cluster is unknown.
    """
    request = of_job(KERNEL_ADD, args.words)
    words = [*args.words, *(["--idle", args.typed["idle"]] if args.idle else [])]
    known = {one.name: one for one in clusters}
    usual = os.environ.get("JUPYTER_SLURM_CLUSTER") or next(
        (one.name for one in known.values() if one.default), None
    )
    cluster = request.cluster or usual
    if cluster is None:
        raise NotFoundError(
            "The default cluster is not set.", hint="Name the kernel's cluster with --cluster NAME."
        )
    if cluster not in known:
        raise NotFoundError(
            f"Found no cluster `{cluster}`.",
            hint="List the clusters with `jupyter slurm clusters`.",
        )
    if request.cluster is None:
        words = ["--cluster", cluster, *words]
    shown = args.display_name or display_name(request, cluster)
    name = args.name or _name_of(shown)
    return RemoteKernel(
        name=name,
        display_name=shown,
        words=tuple(words),
        cluster=cluster,
        exists=_folder_for(name).exists(),
    )


def parse(words: Sequence[str]) -> line.Request:
    """Parse the job options of a kernelspec. Raise a RequestError that names an invalid option."""
    return of_job(KERNEL_ADD, read_arguments(KERNEL_ADD, words).words)


def display_name(request: line.Request, cluster: str) -> str:
    """Return the title, such as `Python 3 (arandu · pytorch:22.11 · 1 GPU)`."""
    parts = [cluster, *filter(None, [request.container_name or request.image])]
    for option, one, many in (("gpus", "GPU", "GPUs"), ("gres", "", ""), ("partition", "", "")):
        value = request.options.get(option)
        if value:
            parts.append(f"{value} {one if value == '1' else many}".strip())
    return f"Python 3 ({' · '.join(parts)})"


def add(kernel: RemoteKernel) -> RemoteKernel:
    """Write the kernelspec. It replaces our kernelspec with the same name, if any. Return the
    kernel as `listed` does.

    Raise RequestError if another kind of kernel has that name.
    """
    folder = places.private_dir(_folder_for(kernel.name))
    _remove_values()
    words, env = take(_STORED, kernel.words, "env")
    file = places.kernel_values_dir() / f"{kernel.name}.json"
    if env:
        values = line.parse([word for one in env for word in (_ENV, one)]).env
        places.write_private(file, msgspec.json.encode(values).decode())
        words += [_VALUES, os.fspath(file)]
    kernelspec = {
        "argv": [
            sys.executable,
            *_interpreter_options(),
            *("-m", MODULE, *words, "-f", "{connection_file}"),
        ],
        "display_name": kernel.display_name,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": True},
    }
    places.write_private(folder / _SPEC, json.dumps(kernelspec, indent=1, ensure_ascii=False))
    logo = resources.files(__package__).joinpath(_LOGO).read_text(encoding="utf-8")
    places.write_private(folder / _LOGO, logo)
    if not env:
        file.unlink(missing_ok=True)
    made = _read(folder)
    assert made is not None
    return made


def listed() -> list[RemoteKernel]:
    """Return our kernels, sorted by name."""
    found = map(_read, sorted(_folder().glob("*"))) if _folder().is_dir() else ()
    return [one for one in found if one is not None]


def remove(name: str) -> None:
    """Remove a kernelspec; running kernels continue. Raise NotFoundError if `name` is not one of
    our kernels."""
    if name not in [one.name for one in listed()]:
        raise NotFoundError(
            f"Found no kernel `{name}` that runs in a job.",
            hint="List the kernels with `jupyter slurm kernel list`.",
        )
    shutil.rmtree(_folder() / name)
    _remove_values()


def _interpreter_options() -> list[str]:
    """Return the options of Python that exclude modules from unexpected places. -P excludes modules
    in the notebook's folder, where kernels start. -E ignores Python's variables, which VS Code may
    set for another Python. Omit -E if this process itself uses PYTHONHOME or PYTHONPATH."""
    needed = {"PYTHONHOME", "PYTHONPATH"} & os.environ.keys() and not sys.flags.ignore_environment
    return ["-P"] if needed else ["-P", "-E"]


def _folder() -> Path:
    return Path(paths.jupyter_data_dir()) / "kernels"


def _name_of(shown: str) -> str:
    """Derive a kernel's name from its title. If the title has parentheses, use only the text inside
    them."""
    said = shown.lower()
    said = said.partition("(")[2] or said
    return "slurm-" + (re.sub(r"[^a-z0-9.]+", "-", said).strip("-.")[:50] or "kernel")


def _folder_for(name: str) -> Path:
    """Return the folder for a kernel with this name, even if it does not exist yet. Raise
    RequestError if the name is invalid or another kind of kernel has it."""
    if not re.fullmatch(r"[a-z0-9._-]{1,64}", name) or name.strip(".") == "":
        raise RequestError(
            f"`{name}` is not a valid kernel name.",
            hint="Use at most 64 lowercase letters, digits, `.`, `_` and `-`.",
            option="name",
        )
    folder = _folder() / name
    if folder.exists() and _read(folder) is None:
        raise RequestError(
            f"Another kernel already has the name `{name}`.",
            option="name",
        )
    return folder


def _read_values(file: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise RequestError(
            f"Cannot read the --env values of this kernel from {file}: {exc}.",
            hint="Add the kernel again with `jupyter slurm kernel add --name NAME`.",
        ) from exc


def _remove_values() -> None:
    """Remove the values of kernels that no longer exist."""
    for file in places.kernel_values_dir().glob("*.json"):
        if not (_folder() / file.stem).is_dir():
            file.unlink(missing_ok=True)


def _shown(words: Sequence[str]) -> tuple[str, ...]:
    """Return the job options of a kernelspec, with hidden values of `--env`; () if the options are
    invalid."""
    try:
        words = stored(words).words
    except RequestError:  # the file with the values of --env is missing
        with suppress(RequestError):
            words, _ = take(_STORED, words, "env-file")
    try:
        rest, env = take(_STORED, words, "env")
    except RequestError:  # from an earlier release, or edited; a word may be a secret
        return ()
    names = [one.partition("=")[0] for one in env]
    return (*rest, *(word for name in names for word in (_ENV, f"{name}={_HIDDEN}")))


def _read(folder: Path) -> RemoteKernel | None:
    """Read a kernelspec's folder. Return None if it is not a kernel in a job."""
    kernelspec = _kernelspec(folder)
    if kernelspec is None:
        return None
    words = _shown(_words_of(kernelspec))
    try:
        cluster = parse(words).cluster
    except RequestError:  # edited by hand
        cluster = None
    shown = str(kernelspec.get("display_name", ""))
    return RemoteKernel(name=folder.name, display_name=shown, words=words, cluster=cluster)


def _kernelspec(folder: Path) -> dict[str, Any] | None:
    """Read a kernelspec. Return None if it is missing or not ours."""
    try:
        kernelspec: dict[str, Any] = json.loads((folder / _SPEC).read_text(encoding="utf-8"))
        argv = kernelspec["argv"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if "-m" not in argv or argv[argv.index("-m") :][1:2] != [MODULE]:
        return None
    return kernelspec


def _words_of(kernelspec: dict[str, Any]) -> list[str]:
    argv: list[str] = kernelspec["argv"]
    return argv[argv.index("-m") + 2 : -2]
