"""Packages for jobs without an image: as the user asks for them, and as a cluster has them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["Environment", "EnvironmentSource", "InstalledEnvironment"]

EnvironmentSource = Literal["requirements", "uv.lock", "conda"]
"""The format of `Environment.text`: requirements of pip, a lock file of uv, or conda's YAML."""


class Environment(Struct, frozen=True, kw_only=True):
    """The packages that a job needs. The cluster installs equal ones once."""

    packages: tuple[str, ...] = ()
    """Requirements as pip reads them, in addition to those in `text`."""
    mine: bool = False
    """Whether `text` has the packages of the Python that submits the job."""
    file: str | None = None
    """The local file with `text`; None: there is none."""
    source: EnvironmentSource = "requirements"
    text: str = ""
    """"": not read yet, or no packages but `packages`."""
    project: str = ""
    """The pyproject.toml of a `uv.lock`."""
    left_out: tuple[str, ...] = ()
    """Packages that only the submitting machine has."""


class InstalledEnvironment(Struct, frozen=True, kw_only=True):
    id: str
    """The digest of its content, in hexadecimal digits."""
    packages: tuple[str, ...] = ()
    """The packages asked for, without their dependencies."""
    file: str | None = None
    """The name of the file that listed them."""
    tool: str
    """`uv`, `pip`, `conda`, `mamba` or `micromamba`."""
    python: str = ""
    """The version of its Python; "": conda chose it."""
    path: str
    """Its folder on the cluster."""
    size_mib: float | None = None
    made_s: float | None = None
    used_s: float | None = None
    """When a job last began in it."""
