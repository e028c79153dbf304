"""Kernelspecs of kernels in jobs: what a line of options asks for, how it is called; on disk.

They are ordinary ones, in the user's own folder of Jupyter, so every client has them in its picker.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from jupyter_core import paths

from jupyter_slurm import line
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.sessions import take_idle
from jupyter_slurm.wire import Cluster, JobKind, JobSpec, RemoteKernel

MODULE = "jupyter_slurm.kernel"
_NOT_HERE = tuple(
    "in out out-format fetch attach fresh on-interrupt wait detach no-raise session dry-run".split()
)
_SPEC = "kernel.json"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The words of a kernel, understood."""

    request: line.Request
    idle_s: int | None
    """None: the profile's."""


@dataclass(frozen=True, slots=True)
class Told:
    """What `kernel add` is told, apart from what its job asks for. None: it is made of that."""

    name: str | None
    display_name: str | None


def take_own(words: Sequence[str]) -> tuple[Told, list[str]]:
    """The words that are about the kernelspec, and the others. RequestError."""
    own: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        name, equals, value = word[2:].partition("=")
        if not word.startswith("--") or name not in ("name", "display-name"):
            rest.append(word)
            continue
        own[name] = value if equals else next(left, "")
        if not own[name]:
            raise RequestError(f"--{name} needs a value.", option=name)
    return Told(own.get("name"), own.get("display-name")), rest


def meant(words: Sequence[str], clusters: Iterable[Cluster]) -> RemoteKernel:
    """The kernel that these words after `kernel add` ask for; nothing is written.

    RequestError: a word cannot be, or the name is taken. NotFoundError: there is no such cluster.
    """
    told, rest = take_own(words)
    wanted = parse(rest)
    known = {one.name: one for one in clusters}
    usual = os.environ.get("JUPYTER_SLURM_CLUSTER") or next(
        (one.name for one in known.values() if one.default), None
    )
    cluster = wanted.request.cluster or usual
    if cluster is None or cluster not in known:
        raise NotFoundError(f"There is no cluster `{cluster}`.", hint="`jupyter slurm clusters`")
    if wanted.request.cluster is None:
        rest = ["--cluster", cluster, *rest]
    shown = told.display_name or display_name(wanted, cluster)
    name = told.name or _name_of(shown)
    return RemoteKernel(
        name=name,
        display_name=shown,
        words=tuple(rest),
        cluster=cluster,
        exists=_folder_for(name).exists(),
    )


def parse(words: Sequence[str]) -> Wanted:
    """RequestError names the word that cannot be."""
    rest, idle_s = take_idle(words)
    for word in rest:
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and name in _NOT_HERE:
            raise RequestError(f"--{name} means nothing for a kernel.", option=name)
    return Wanted(line.parse(rest), idle_s)


def job_spec(wanted: Wanted, job_id: str, notebook: str | None) -> JobSpec:
    """The job that the kernel runs in."""
    made = line.spec(wanted.request, "", job_id=job_id, kind=JobKind.KERNEL, notebook=notebook)
    name = wanted.request.name or ("kernel" if notebook is None else made.name)
    return msgspec.structs.replace(made, name=name, idle_s=wanted.idle_s)


def display_name(wanted: Wanted, cluster: str) -> str:
    """`Python 3 (arandu · pytorch:22.11 · 1 GPU)`."""
    request = wanted.request
    parts = [cluster, *([request.image] if request.image else [])]
    for option, one, many in (("gpus", "GPU", "GPUs"), ("gres", "", ""), ("partition", "", "")):
        value = request.options.get(option)
        if value:
            parts.append(f"{value} {one if value == '1' else many}".strip())
    return f"Python 3 ({' · '.join(parts)})"


def add(kernel: RemoteKernel) -> None:
    """Writes it, in the place of one of ours with its name. RequestError: a kernel has that name
    that is none of ours."""
    folder = _folder_for(kernel.name)
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "argv": [
            sys.executable,
            *_interpreter_options(),
            *("-m", MODULE, *kernel.words, "-f", "{connection_file}"),
        ],
        "display_name": kernel.display_name,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": True},
    }
    (folder / _SPEC).write_text(json.dumps(told, indent=1, ensure_ascii=False), encoding="utf-8")


def listed() -> list[RemoteKernel]:
    """By name."""
    found = map(_read, sorted(_folder().glob("*"))) if _folder().is_dir() else ()
    return [one for one in found if one is not None]


def remove(name: str) -> None:
    """NotFoundError: there is none of ours with that name. Kernels that run go on."""
    if name not in [one.name for one in listed()]:
        raise NotFoundError(
            f"There is no kernel `{name}` in a job.", hint="`jupyter slurm kernel list`"
        )
    shutil.rmtree(_folder() / name)


def _interpreter_options() -> list[str]:
    """What keeps others' modules out: -P those in a notebook's folder, where kernels are started,
    and -E those of another Python's variables, with which VS Code may start it; but for who needs
    such variables to have this very program."""
    needed = {"PYTHONHOME", "PYTHONPATH"} & os.environ.keys() and not sys.flags.ignore_environment
    return ["-P"] if needed else ["-P", "-E"]


def _folder() -> Path:
    return Path(paths.jupyter_data_dir()) / "kernels"


def _name_of(shown: str) -> str:
    """Of what is in the brackets, where the title has some."""
    said = shown.lower()
    said = said.partition("(")[2] or said
    return "slurm-" + (re.sub(r"[^a-z0-9.]+", "-", said).strip("-.")[:50] or "kernel")


def _folder_for(name: str) -> Path:
    """Where a kernel with that name is, or would be. RequestError: it cannot be there."""
    if not re.fullmatch(r"[a-z0-9._-]{1,64}", name) or name.strip(".") == "":
        raise RequestError(
            f"`{name}` is no name for a kernel.",
            hint="Up to 64 of a-z, 0-9, `.`, `_` and `-`.",
            option="name",
        )
    folder = _folder() / name
    if folder.exists() and _read(folder) is None:
        raise RequestError(
            f"There is a kernel `{name}` already, which is not of this kind.", option="name"
        )
    return folder


def _read(folder: Path) -> RemoteKernel | None:
    """None: it is no kernel in a job."""
    try:
        told: dict[str, Any] = json.loads((folder / _SPEC).read_text(encoding="utf-8"))
        argv = told["argv"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if "-m" not in argv or argv[argv.index("-m") :][1:2] != [MODULE]:
        return None
    words = tuple(argv[argv.index("-m") + 2 : -2])
    try:
        cluster = parse(words).request.cluster
    except RequestError:  # an earlier release's, or edited
        cluster = None
    shown = str(told.get("display_name", ""))
    return RemoteKernel(name=folder.name, display_name=shown, words=words, cluster=cluster)
