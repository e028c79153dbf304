"""Images for enroot without pyxis. The build imports the base image, creates a container, runs the
recipe with `enroot start --rw`, and exports the container as .sqsh.

A container stays on the node until removed, so the script removes it even after a failure.
"""

from __future__ import annotations

import shlex

from jupyter_slurm.containers.builders.pyxis import program, setup
from jupyter_slurm.containers.builders.script import SAVING
from jupyter_slurm.containers.enroot_containers import (
    CONTAINERS_FULL,
    enroot_lines,
    enroot_name,
    explain_enroot,
)
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.containers.tool_errors import full_disk

# The container uses neither the image's entrypoint nor the user's home. The next job with an image
# on the node removes what a killed job leaves (`containers/enroot.py`). A cancelled build gets
# TERM, which must not interrupt the removal.
_BUILD = f"""name="jslurm-${{{{SLURM_JOB_ID:-login}}}}-image-$$"
trap 'trap "" TERM; enroot remove --force "$name" >/dev/null 2>&1 || :' EXIT
trap 'exit 143' TERM
export ENROOT_MOUNT_HOME=no ENROOT_LOGIN_SHELL=no
printf '%s\\n' 'rc() {{{{ cd / && exec "$@"; }}}}' >"$work/conf"
step "unpacking the base image"
enroot create --name "$name" {{image}}
step "building"
set -- --root --rw --conf "$work/conf" --mount "$work:/mnt:x-create=auto,rbind"
enroot start "$@" "$name" {{program}}
{SAVING}enroot export --output "$partial.sqsh" "$name"
"""


class Enroot:
    tool = "enroot"
    suffixes = (".sqsh",)
    reads = Kind.SCRIPT

    def named(self, reference: Reference) -> str:
        return f"docker://{enroot_name(reference)}"

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        lines = [setup(recipe)]
        image = base or ""
        where = shlex.quote(image)
        if not image.startswith("/"):
            lines.append(f"step pulling {where}\n")
            lines.append(f'enroot import --output "$work/base.sqsh" {where}\n')
            where = '"$work/base.sqsh"'
        return "".join([*lines, _BUILD.format(image=where, program=program(recipe))])

    def pull(self, reference: Reference, version: str) -> str:
        name = shlex.quote(self.named(reference))
        return f'step pulling {name}\nenroot import --output "$partial.sqsh" {name}\n'

    def explain(self, log_tail: str) -> Explained | None:
        return explain_enroot(enroot_lines(log_tail)) or full_disk(CONTAINERS_FULL, log_tail)
