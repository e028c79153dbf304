"""Images for pyxis: a container set up by a script in a step of the job, saved as .sqsh.

Which version of pyxis has each of the options is said in `containers/pyxis.py`.
"""

from __future__ import annotations

import shlex

from jupyter_slurm.containers import runtime_named
from jupyter_slurm.containers.enroot_containers import enroot_name
from jupyter_slurm.containers.making.context import refuse_definition
from jupyter_slurm.containers.making.script import file
from jupyter_slurm.containers.pyxis import SRUN, STEP, STEP_INSIDE
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.containers.steps import SETUP, as_script, kept_variables

_OPTIONS = (
    '--container-save="$partial.sqsh" --container-writable --container-remap-root '
    '--no-container-mount-home --no-container-entrypoint --container-mounts="$work:/mnt"'
)
_INSIDE = shlex.quote(STEP_INSIDE + 'exec "$@"')


class Pyxis:
    tool = "enroot"
    suffixes = (".sqsh",)

    def named(self, reference: Reference) -> str:
        return enroot_name(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        script = file(SETUP, setup_script(recipe)) + f'chmod 755 "$work/{SETUP}"\n'
        return f'{script}step "building"\n{_step(base or "", f"/mnt/{SETUP}")}'

    def pull(self, reference: Reference, version: str) -> str:
        name = enroot_name(reference)
        # Not `:`, which for srun begins another part of a heterogeneous job.
        return f"step pulling {shlex.quote(name)}\n{_step(name, '/bin/sh -c true')}"

    def explain(self, log_tail: str) -> Explained | None:
        return runtime_named("pyxis").explain(log_tail)


def _step(image: str, program: str) -> str:
    """An order to end comes to the step by itself: this shell waits for its end."""
    return f"""trap 'exit 143' TERM
set -- --container-image={shlex.quote(image)} {_OPTIONS} -- /bin/sh -c {_INSIDE} sh {program}
{STEP}
{SRUN} "$@"
"""


def setup_script(recipe: Recipe) -> str:
    """The recipe as one script; RequestError: it cannot be. enroot gives every program the
    variables of /etc/environment."""
    refuse_definition(recipe, "enroot")
    if recipe.kind is Kind.SCRIPT:
        return recipe.text
    steps = recipe.steps()
    kept = [
        f'printf "%s\\n" "{one.name}=${one.name}" >>/etc/environment\n'
        for one in kept_variables(steps)
    ]
    return as_script(steps) + "".join(kept)
