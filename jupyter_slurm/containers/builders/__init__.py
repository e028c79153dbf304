"""Image builders, one per container tool. They build images from recipes, or pull them. No I/O.

One file per tool implements the Protocol `Builder`; `script.py` wraps the tool's sh text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from jupyter_slurm.containers.builders.apptainer import Apptainer
from jupyter_slurm.containers.builders.charliecloud import Charliecloud
from jupyter_slurm.containers.builders.docker import Docker
from jupyter_slurm.containers.builders.enroot import Enroot
from jupyter_slurm.containers.builders.pyxis import Pyxis, explain_script
from jupyter_slurm.containers.builders.script import Failure, folder_full
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.errors import RequestError

__all__ = ["BUILDERS", "WITHIN_SLURM", "Builder", "builder_for", "explained"]

WITHIN_SLURM = frozenset({"pyxis"})
"""Runtimes that can build images only in a job step."""


class Builder(Protocol):
    """A tool that builds images."""

    @property
    def tool(self) -> str:
        """Return the tool's name for record files. Tools that share images share this name."""

    @property
    def reads(self) -> Kind:
        """Return the kind of recipe that the tool reads natively."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the suffixes of image file names; "" means a folder."""

    def named(self, reference: Reference) -> str:
        """Return the name of a registry image in the tool's form."""

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        """Return sh text for `script.py`. `base` is the absolute path of `recipe.base` on the
        cluster, or the name that `named` returns for it. Raise RequestError if the tool does not
        support that base."""

    def pull(self, reference: Reference, version: str) -> str:
        """Return sh text that pulls a registry image unchanged."""

    def explain(self, log_tail: str) -> Explained | None:
        """Explain the tool's failure from the end of a build job's log. Return None if the failure
        is unknown."""


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
"""Builders by runtime name."""


def builder_for(runtime: str) -> Builder:
    """Return the runtime's builder. Raise RequestError if the runtime does not use images."""
    if runtime in BUILDERS:
        return BUILDERS[runtime]
    raise RequestError(
        f"Runtime {runtime} does not use images.",
        hint=f"Use --runtime with a container tool: {', '.join(BUILDERS)}.",
    )


def explained(failure: Failure, log_tail: str) -> Explained | None:
    """Explain why the build failed. Ask the builders of all runtimes that share the tool."""
    builders = (builder for builder in BUILDERS.values() if builder.tool == failure.tool)
    found = (builder.explain(log_tail) for builder in builders)
    known = folder_full(failure, log_tail) or next(filter(None, found), None)
    return known or explain_script(failure, log_tail)
