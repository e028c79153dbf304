"""The packages of this Python as lines of a recipe, for `--env-from-here` and `--with-mine`.

`read` finds them in each package's metadata (PEP 376, PEP 610) and in conda's `conda-meta`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib import metadata

_OURS = frozenset({"pip", "setuptools", "wheel", "jupyter-slurm", "jupyter_slurm"})
"""Packages that a notebook does not need, or that registries do not have."""
_NOT_ELSEWHERE = ("python", "_libgcc_mutex", "_openmp_mutex")


@dataclass(frozen=True, slots=True)
class Here:
    pip: tuple[str, ...]
    """pip's requirements, `NAME==VERSION`, sorted."""
    conda: tuple[str, ...] = ()
    """conda's requirements, `NAME=VERSION`, for packages that the user requested."""
    left_out: tuple[str, ...] = ()
    """Packages that exist only on this machine: editable installs, local folders."""
    python: str = field(default="")
    """The Python version, like `3.11`."""

    @property
    def base(self) -> str:
        """Return the name of an image with the same Python version."""
        return "continuumio/miniconda3:latest" if self.conda else f"python:{self.python}-slim"

    def recipe(self) -> str:
        lines = [f"conda install python={self.python} {' '.join(self.conda)}"] if self.conda else []
        if self.pip:
            lines += ["pip:", *(f"  {one}" for one in self.pip)]
        return "\n".join(lines) + "\n"


def read() -> Here:
    """Return the packages of this process's Python."""
    from importlib import metadata  # noqa: PLC0415 - slow

    return collect(metadata.distributions(), Path(sys.prefix, "conda-meta"))


def collect(distributions: Iterable[metadata.Distribution], conda_meta: Path) -> Here:
    """Return the packages of the distributions and of `conda_meta`, which may be missing."""
    pip: dict[str, str] = {}
    left_out: set[str] = set()
    for one in distributions:
        name = one.metadata["Name"]
        if not name or name.lower() in _OURS or name in pip:
            continue  # an earlier distribution on the path shadows it
        if (one.read_text("INSTALLER") or "").strip() == "conda":
            continue
        if _is_local(one):
            left_out.add(name)
        else:
            pip[name] = f"{name}=={one.version}"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    conda = tuple(sorted(_asked_of_conda(conda_meta)))
    return Here(tuple(sorted(pip.values(), key=str.lower)), conda, tuple(sorted(left_out)), version)


def _is_local(one: metadata.Distribution) -> bool:
    try:
        origin: Any = json.loads(one.read_text("direct_url.json") or "{}")
        return str(origin.get("url", "")).startswith("file:")
    except (ValueError, AttributeError):
        return False


def _asked_of_conda(folder: Path) -> list[str]:
    """Return the packages that the user asked conda to install. conda adds their dependencies."""
    asked: list[str] = []
    for path in folder.glob("*.json") if folder.is_dir() else ():
        try:
            known: Any = json.loads(path.read_text(encoding="utf-8"))
            name, version = str(known["name"]), str(known["version"])
            wanted = bool(known.get("requested_spec"))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if wanted and name not in _NOT_ELSEWHERE:
            asked.append(f"{name}={version}")
    return asked
