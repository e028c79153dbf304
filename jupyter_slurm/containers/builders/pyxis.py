"""Images for pyxis: a script sets up a container in a job step, and pyxis saves it as .sqsh.

Pyxis saves the container even after a failed step, which takes minutes. So only a successful script
creates the target folder. Without that folder, enroot cannot write the image (tested with pyxis
0.24 and enroot 4.1.2).
"""

from __future__ import annotations

import re
import shlex
from itertools import chain

from jupyter_slurm.containers import runtime_named
from jupyter_slurm.containers.builders.script import SEE_OUTPUT, Failure, beside, file
from jupyter_slurm.containers.enroot_containers import CONTAINERS_FULL, enroot_name
from jupyter_slurm.containers.pyxis import SRUN, STEP, STEP_INSIDE
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.containers.tool_errors import completed, full_disk, uncoloured
from jupyter_slurm.formatting import brief

_SETUP, _FILES = "setup", "files"
"""Names of the script and its folder of files in `$work`, which is /mnt in the container."""

_RUNNING = "building"
"""The step that runs the script."""
_NOT_ITS_OWN = re.compile(r"jupyter-slurm: |(?:slurmstepd|srun|pyxis)\b\S*:? ")
_LONGEST_WORDS = 200

_OPTIONS = (
    '--container-save="$partial.d/made/image.sqsh" --container-writable --container-remap-root '
    "--no-container-mount-home --no-container-entrypoint "
    '--container-mounts="$work:/mnt,$work/way/made:/mnt/made"'
)
_ENDED = "jupyter-slurm: the setup has ended with exit code"
_INSIDE = shlex.quote(
    f"""{STEP_INSIDE}"$@" || {{ rc=$?; echo "{_ENDED} $rc" >&2; exit "$rc"; }}
mkdir /mnt/made/made
"""
)


class Pyxis:
    tool = "enroot"
    suffixes = (".sqsh",)
    reads = Kind.SCRIPT

    def named(self, reference: Reference) -> str:
        return enroot_name(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        return f'{setup(recipe)}step "{_RUNNING}"\n{_step(base or "", program(recipe))}'

    def pull(self, reference: Reference, version: str) -> str:
        name = enroot_name(reference)
        # Do not use `:`, because srun would split the command there into parts of a heterogeneous
        # job.
        return f"step pulling {shlex.quote(name)}\n{_step(name, '/bin/sh -c true')}"

    def explain(self, log_tail: str) -> Explained | None:
        # Ignore the log lines after this mark, because they concern the container, which is not
        # saved.
        log_tail = log_tail.partition(_ENDED)[0]
        own = runtime_named("pyxis").explain(log_tail)
        return own or full_disk(CONTAINERS_FULL, log_tail)


def _step(image: str, program: str) -> str:
    """Return the step's sh text. The step gets termination signals itself; this shell waits for
    it."""
    return f"""trap 'exit 143' TERM
mkdir "$partial.d" "$work/made" "$work/way"
ln -s "$partial.d" "$work/way/made" # mount paths cannot contain blanks
set -- --container-image={shlex.quote(image)} {_OPTIONS} -- /bin/sh -c {_INSIDE} sh {program}
{STEP}
{SRUN} "$@"
[ ! -e "$partial.d/made/image.sqsh" ] || mv "$partial.d/made/image.sqsh" "$partial.sqsh"
"""


def explain_script(failure: Failure, log_tail: str) -> Explained | None:
    """Explain the failure of a setup script from the last line of its output. Return None for
    another failure, or if the output is empty or ends with a traced command."""
    if failure.tool != Pyxis.tool or failure.doing != _RUNNING:
        return None
    output = uncoloured(log_tail).partition(_ENDED)[0].rpartition(f"jupyter-slurm: {_RUNNING}\n")[2]
    lines = [line for line in output.splitlines() if line.strip() and not _NOT_ITS_OWN.match(line)]
    if not lines or lines[-1].startswith("+ "):  # traced: `stopped_at` names it
        return None
    words = brief(lines[-1].strip(), _LONGEST_WORDS)
    return Explained(completed("The output ends with", words), SEE_OUTPUT)


def setup(recipe: Recipe) -> str:
    """Return sh text that writes the recipe as a script to `$work`, and copies the recipe's files
    there."""
    text = recipe.text
    if recipe.kind is Kind.LINES:  # -x, so the log shows where it stopped
        text = "\n".join(["#!/bin/sh", "set -ex", *chain(*recipe.commands())]) + "\n"
    files = beside(_FILES) if recipe.has_files else ""
    return f'{files}{file(_SETUP, text)}chmod 755 "$work/{_SETUP}"\n'


def program(recipe: Recipe) -> str:
    """Return the shell command that runs the script in the container, in the folder of the recipe's
    files if it has files."""
    script = f"/mnt/{_SETUP}"
    return f"/bin/sh -c 'cd /mnt/{_FILES} && exec {script}'" if recipe.has_files else script
