"""Images for Apptainer and Singularity: `build --fakeroot` creates a .sif from a definition file.

Facts: temporary files take two or three times the image's size, in APPTAINER_TMPDIR. Each tool
reads variables with its own prefix, so the script sets the variables of both tools. mksquashfs uses
the slowest gzip level by default. A variable of Apptainer 1.4 and later sets the level; other
versions ignore it. `%post` runs under `sh -ex`, so its commands appear in the log.
"""

from __future__ import annotations

import shlex
from itertools import chain

from jupyter_slurm.containers.apptainer import apptainer_name, explain_build
from jupyter_slurm.containers.builders.script import file
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained

_BEGIN = """mkdir "$work/tmp" "$work/cache"
for tool in APPTAINER SINGULARITY; do
  export "${tool}_TMPDIR=$work/tmp"
  eval "[ -n \\"\\${${tool}_CACHEDIR:-}\\" ]" || export "${tool}_CACHEDIR=$work/cache"
done
: "${APPTAINER_MKSQUASHFS_ARGS:=-Xcompression-level 1}"; export APPTAINER_MKSQUASHFS_ARGS
"""


class Apptainer:
    tool = "apptainer"
    suffixes = (".sif",)
    reads = Kind.DEFINITION

    def __init__(self, program: str) -> None:
        self._program = program

    def named(self, reference: Reference) -> str:
        return apptainer_name(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        text = recipe.text if recipe.kind is Kind.DEFINITION else _definition(recipe, base or "")
        # Paths in a definition file are relative to Apptainer's working directory.
        enter = 'cd -- "$beside"\n' if recipe.has_files else ""
        build = f'{self._program} build --fakeroot --force "$partial.sif" "$work/definition"\n'
        return f'{_BEGIN}{file("definition", text)}{enter}step "building"\n{build}'

    def pull(self, reference: Reference, version: str) -> str:
        name = shlex.quote(self.named(reference))
        return f'{_BEGIN}step pulling {name}\n{self._program} pull "$partial.sif" {name}\n'

    def explain(self, log_tail: str) -> Explained | None:
        return explain_build(log_tail)


def _definition(recipe: Recipe, base: str) -> str:
    """Return a definition file for package lines."""
    bootstrap = "localimage" if base.startswith("/") else "docker"
    commands = "".join(f"    {one}\n" for one in chain(*recipe.commands()))
    return (
        f"Bootstrap: {bootstrap}\nFrom: {base.removeprefix('docker://')}\n\n%post\n{commands}\n"
        "%environment\n    export PYTHONNOUSERSITE=1\n"
    )
