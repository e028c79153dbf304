"""Kernelspecs of kernels in jobs: what a line of options asks for, how it is called; on disk.

They are ordinary ones, in the user's own folder of Jupyter, so every client has them in its picker.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from jupyter_core import paths

from jupyter_slurm import line
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.sessions import take_idle
from jupyter_slurm.wire import JobKind, JobSpec

MODULE = "jupyter_slurm.kernel"
_NOT_HERE = tuple(
    "in out fetch attach fresh on-interrupt wait detach no-raise session dry-run".split()
)
_SPEC = "kernel.json"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The words of a kernel, understood."""

    request: line.Request
    idle_s: int | None
    """None: the profile's."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One that is on disk."""

    name: str
    display_name: str
    words: tuple[str, ...]
    folder: Path


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


def add(name: str | None, shown: str, words: Sequence[str]) -> KernelSpec:
    """Writes it. RequestError: a kernel has that name already that is none of these."""
    name = name or _name_of(shown)
    if not re.fullmatch(r"[a-z0-9._-]{1,64}", name):
        raise RequestError(
            f"`{name}` is no name for a kernel.",
            hint="Up to 64 of a-z, 0-9, `.`, `_` and `-`.",
            option="name",
        )
    folder = _folder() / name
    if folder.exists() and _read(folder) is None:
        raise RequestError(f"There is a kernel `{name}` already, which is not of this kind.")
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "argv": [sys.executable, "-m", MODULE, *words, "-f", "{connection_file}"],
        "display_name": shown,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": True},
    }
    (folder / _SPEC).write_text(json.dumps(told, indent=1, ensure_ascii=False), encoding="utf-8")
    return KernelSpec(name, shown, tuple(words), folder)


def listed() -> list[KernelSpec]:
    """By name."""
    found = map(_read, sorted(_folder().glob("*"))) if _folder().is_dir() else ()
    return [one for one in found if one is not None]


def remove(name: str) -> None:
    """NotFoundError: there is none of ours with that name. Kernels that run go on."""
    spec = next((one for one in listed() if one.name == name), None)
    if spec is None:
        raise NotFoundError(
            f"There is no kernel `{name}` in a job.", hint="`jupyter slurm kernel list`"
        )
    shutil.rmtree(spec.folder)


def _folder() -> Path:
    return Path(paths.jupyter_data_dir()) / "kernels"


def _name_of(shown: str) -> str:
    return "slurm-" + re.sub(r"[^a-z0-9.]+", "-", shown.lower().partition("(")[2]).strip("-.")[:50]


def _read(folder: Path) -> KernelSpec | None:
    """None: it is no kernel in a job."""
    try:
        told: dict[str, Any] = json.loads((folder / _SPEC).read_text(encoding="utf-8"))
        argv = told["argv"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if argv[1:3] != ["-m", MODULE]:
        return None
    return KernelSpec(folder.name, str(told.get("display_name", "")), tuple(argv[3:-2]), folder)
