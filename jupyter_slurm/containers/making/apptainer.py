"""Images for Apptainer and Singularity: a .sif, by `build --fakeroot` from a definition.

Facts: temporary files are two or three times the image, and go to APPTAINER_TMPDIR; each tool reads
the variables with its own prefix, so both are set. mksquashfs packs with the slowest gzip by
default (from 1.4 on an option changes that; others ignore it). A definition's sections begin with
`%` at the start of a line, so a script comes in as a file, not as text of %post.
"""

from __future__ import annotations

import shlex

from jupyter_slurm.containers.apptainer import RUNSCRIPT, apptainer_name
from jupyter_slurm.containers.apptainer_errors import explained_making
from jupyter_slurm.containers.failures import IN_FOLDER, without_room
from jupyter_slurm.containers.making.script import beside, file
from jupyter_slurm.containers.own_program import written
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.containers.steps import FILES, INSIDE, SETUP, as_script, kept_variables

INSIDE_FILES = f"{INSIDE}-{FILES}"
"""The path in the image of the files beside the recipe, while it is built."""

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

    def __init__(self, program: str) -> None:
        self._program = program

    def named(self, reference: Reference) -> str:
        return apptainer_name(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        lines = [_BEGIN]
        if recipe.kind is Kind.DEFINITION:
            lines.append(file("definition", recipe.text))
            # Relative paths in it begin where Apptainer runs.
            lines.append('cd -- "$beside"\n' if recipe.sources() else "")
        else:
            steps = [] if recipe.kind is Kind.SCRIPT else recipe.steps()
            script = as_script(steps, INSIDE_FILES) + written(steps, RUNSCRIPT, "exec")
            script = recipe.text if recipe.kind is Kind.SCRIPT else script
            lines.append(file(SETUP, script) + f'chmod 755 "$work/{SETUP}"\n')
            files = f"    @work@/{FILES} {INSIDE_FILES}\n" if recipe.sources() else ""
            lines.append(beside(FILES) if files else "")
            text = _DEFINITION.format(head=_head(base or ""), script=INSIDE, files=files)
            for one in kept_variables(steps):
                text += f"    export {one.name}={one.value}\n"
            # The folder's name is known on the node only.
            lines.append(file("begun", text) + 'sed "s|@work@|$work|" "$work/begun" ')
            lines.append('>"$work/definition"\n')
        lines.append('step "building"\n')
        # Apptainer traces the commands of a recipe, and says nothing of the line before them.
        base_line = recipe.base_line()
        lines.append(f"printf '+ %s\\n' {shlex.quote(base_line)}\n" if base_line else "")
        lines.append(
            f'{self._program} build --fakeroot --force "$partial.sif" "$work/definition"\n'
        )
        return "".join(lines)

    def pull(self, reference: Reference, version: str) -> str:
        name = shlex.quote(self.named(reference))
        return f'{_BEGIN}step pulling {name}\n{self._program} pull "$partial.sif" {name}\n'

    def explain(self, log_tail: str) -> Explained | None:
        return explained_making(log_tail) or without_room(IN_FOLDER, log_tail)


def _head(base: str) -> str:
    if base.startswith("/"):
        return f"Bootstrap: localimage\nFrom: {base}"
    return f"Bootstrap: docker\nFrom: {base.removeprefix('docker://')}"


_DEFINITION = f"""{{head}}

%files
    @work@/{SETUP} {{script}}
{{files}}
%post
    {{script}}
    rm -rf {{script}} {INSIDE_FILES}

%environment
    export PYTHONNOUSERSITE=1
"""
