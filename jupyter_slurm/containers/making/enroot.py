"""Images for enroot without pyxis: import, create, a script in `start --rw`, export as .sqsh.

A container stays on the node until it is removed, so it is, whatever happens.
"""

from __future__ import annotations

import shlex

from jupyter_slurm.containers.enroot import enroot_name
from jupyter_slurm.containers.making.pyxis import setup_script
from jupyter_slurm.containers.making.script import file
from jupyter_slurm.containers.recipe import Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.steps import SETUP

_BUILD = """trap 'enroot remove -f {name} >/dev/null 2>&1 || :' EXIT
trap 'exit 143' TERM
enroot create --name {name} {image}
step "building"
enroot start --root --rw --mount "$work:/mnt" {name} /mnt/{setup}
step "saving the image"
enroot export --output "$partial.sqsh" {name}
"""


class Enroot:
    tool = "enroot"
    suffixes = (".sqsh",)

    def named(self, reference: Reference) -> str:
        return f"docker://{enroot_name(reference)}"

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        lines = [file(SETUP, setup_script(recipe)), f'chmod 755 "$work/{SETUP}"\n']
        image = base or ""
        where = shlex.quote(image)
        if not image.startswith("/"):
            lines.append(f"step pulling {where}\n")
            lines.append(f'enroot import --output "$work/base.sqsh" {where}\n')
            where = '"$work/base.sqsh"'
        name = f"jupyter-slurm-{version}"
        return "".join([*lines, _BUILD.format(name=name, image=where, setup=SETUP)])

    def pull(self, reference: Reference, version: str) -> str:
        name = shlex.quote(self.named(reference))
        return f'step pulling {name}\nenroot import --output "$partial.sqsh" {name}\n'
