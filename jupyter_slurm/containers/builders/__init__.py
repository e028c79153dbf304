"""Make an image with each container tool: build it from a recipe, or pull it. PURE.

One file per tool behind the Protocol `Builder`; `script.py` frames its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from jupyter_slurm.containers.builders.apptainer import Apptainer
from jupyter_slurm.containers.builders.charliecloud import Charliecloud
from jupyter_slurm.containers.builders.docker import Docker
from jupyter_slurm.containers.builders.enroot import Enroot
from jupyter_slurm.containers.builders.pyxis import Pyxis
from jupyter_slurm.containers.builders.script import Failure, folder_full
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.errors import RequestError

__all__ = ["BUILDERS", "WITHIN_SLURM", "Builder", "builder_for", "explained"]

WITHIN_SLURM = frozenset({"pyxis"})
"""Runtimes that make images in a step of a job, and nowhere else."""


class Builder(Protocol):
    """A tool that makes images."""

    @property
    def tool(self) -> str:
        """Return the tool's letters in the names of records: tools that share images share them."""

    @property
    def reads(self) -> Kind:
        """Return the kind of recipe that the tool reads as it was written."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the endings of an image's file name; "" is a folder."""

    def named(self, reference: Reference) -> str:
        """Return the tool's name for an image of a registry."""

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        """Return sh text for `script.py`. `base`: the absolute path of `recipe.base` on the
        cluster, or its name by `named`. RequestError: the tool cannot take that base."""

    def pull(self, reference: Reference, version: str) -> str:
        """Return the same for an unchanged image of a registry."""

    def explain(self, log_tail: str) -> Explained | None:
        """Explain the tool's own failure, found in the end of the log of a job that was to make an
        image; None: it is not known."""


BUILDERS: Mapping[str, Builder] = MappingProxyType(
    {
        "charliecloud": Charliecloud(),
        "docker": Docker(("docker",)),
        "sudo-docker": Docker(("sudo", "-n", "docker")),
        "podman": Docker(("podman",)),
        "apptainer": Apptainer("apptainer"),
        "singularity": Apptainer("singularity"),
        "pyxis": Pyxis(),
        "enroot": Enroot(),
    }
)
"""The builders by the runtime's name."""


def builder_for(runtime: str) -> Builder:
    """Return the runtime's builder. RequestError: that runtime has no images."""
    if runtime in BUILDERS:
        return BUILDERS[runtime]
    raise RequestError(
        f"Runtime {runtime} does not use images.",
        hint=f"Use --runtime with a container tool: {', '.join(BUILDERS)}.",
    )


def explained(failure: Failure, log_tail: str) -> Explained | None:
    """Explain why the image was not made, by any of the runtimes that share the tool."""
    builders = (builder for builder in BUILDERS.values() if builder.tool == failure.tool)
    found = (builder.explain(log_tail) for builder in builders)
    return folder_full(failure, log_tail) or next(filter(None, found), None)
