"""Images for pyxis: a container set up by a script in a step of the job, saved as .sqsh.

Options of pyxis and the version that has each: --container-image, --container-mounts (0.1),
--container-remap-root, --no-container-mount-home (0.4), --container-save (0.7),
--no-container-entrypoint (0.8), --container-writable (0.11).
"""

from __future__ import annotations

import shlex

from jupyter_slurm.containers.enroot import enroot_name
from jupyter_slurm.containers.making.script import file
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.steps import SETUP, as_script, kept_variables
from jupyter_slurm.errors import RequestError

_STEP = (
    "srun --ntasks=1 --container-image={image} "
    '--container-save="$partial.sqsh" --container-writable --container-remap-root '
    "--no-container-mount-home --no-container-entrypoint "
)


class Pyxis:
    tool = "enroot"
    suffixes = (".sqsh",)

    def named(self, reference: Reference) -> str:
        return enroot_name(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        script = setup_script(recipe)
        image = shlex.quote(base or "")
        return (
            file(SETUP, script)
            + f'chmod 755 "$work/{SETUP}"\nstep "building"\n'
            + _STEP.format(image=image)
            + f'--container-mounts="$work:/mnt" /mnt/{SETUP}\n'
        )

    def pull(self, reference: Reference, version: str) -> str:
        name = shlex.quote(enroot_name(reference))
        return f"step pulling {name}\n{_STEP.format(image=name)}/bin/sh -c :\n"


def setup_script(recipe: Recipe) -> str:
    """The recipe as one script; RequestError: it cannot be. enroot gives every program the
    variables of /etc/environment."""
    if recipe.kind is Kind.DEFINITION:
        raise RequestError(
            "enroot takes no Apptainer definitions.",
            hint="Write what %post has as a setup script (#!/bin/sh), and say --from IMAGE.",
        )
    if recipe.kind is Kind.SCRIPT:
        return recipe.text
    steps = recipe.steps()
    kept = [
        f'printf "%s\\n" "{one.name}=${one.name}" >>/etc/environment\n'
        for one in kept_variables(steps)
    ]
    return as_script(steps) + "".join(kept)
