"""Packages for jobs without an image: requests, and environments installed on a cluster."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["Environment", "EnvironmentSource", "InstalledEnvironment"]

EnvironmentSource = Literal["requirements", "uv.lock", "conda"]
"""The format of `Environment.text`: pip requirements, a uv lock file, or conda's YAML."""


class Environment(Struct, frozen=True, kw_only=True):
    """The packages that a job needs. The cluster installs equal sets once."""

    packages: tuple[str, ...] = ()
    """Requirements in pip's syntax, in addition to those in `text`."""
    mine: bool = False
    """`text` lists the packages of the submitting Python."""
    file: str | None = None
    """The local file with `text`; None without a file."""
    source: EnvironmentSource = "requirements"
    text: str = ""
    """The packages in the format `source`; "" until they are read, or if only `packages` applies.
    """
    project: str = ""
    """The pyproject.toml of a `uv.lock`."""
    left_out: tuple[str, ...] = ()
    """Packages that exist only on the submitting machine."""


class InstalledEnvironment(Struct, frozen=True, kw_only=True):
    id: str
    """The digest of the environment's content, in hexadecimal."""
    packages: tuple[str, ...] = ()
    """The requested packages, without their dependencies."""
    file: str | None = None
    """The name of the file with the requirements."""
    tool: str
    """`uv`, `pip`, `conda`, `mamba` or `micromamba`."""
    python: str = ""
    """The Python version; "" if conda chose it."""
    path: str
    """The path of the environment's folder on the cluster."""
    size_mib: float | None = None
    made_s: float | None = None
    used_s: float | None = None
    """The time at which a job last started in the environment."""
