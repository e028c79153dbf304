"""PURE: the words after `%%slurm_image` (or `jupyter slurm image build`) -> an `ImageRequest`.

`line.py` reads the options that a cell has too; containers/recipe.py reads the recipe below them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from jupyter_slurm.commands.arguments import Arguments, of_job
from jupyter_slurm.commands.command import Command
from jupyter_slurm.commands.line import Request
from jupyter_slurm.commands.packages_here import Here
from jupyter_slurm.errors import RequestError
from jupyter_slurm.slurm import options as sbatch
from jupyter_slurm.wire import ImageRemoval, ImageSpec

_WHOLE = re.compile(r"#!|(?:from|arg|bootstrap:)\s", re.IGNORECASE)
_SHARED = ("partition", "account", "qos", "reservation", "constraint", "clusters")
"""The options for all cells of a notebook that also apply to an image: they say where a job may
run, and making an image needs no GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    name: str
    """The image's name; to pull one, its reference."""
    file: str | None
    """The file with the recipe, on a command line."""
    base: str | None
    push: str | None
    """The folder that goes with the recipe, as typed; None: the one beside it, if it copies
    files."""
    env_from_here: bool
    again: bool
    request: Request
    """The other words: sbatch's options, the cluster, how to wait."""

    def build_spec(
        self,
        job_id: str,
        text: str,
        here: Here | None,
        notebook: str | None = None,
        folder: str | None = None,
        push: str | None = None,
    ) -> ImageSpec:
        """Return the spec of an image to build. `here`: the packages for --env-from-here; `folder`:
        the one beside the recipe; `push`: the full path of the one after --push. RequestError: the
        packages cannot be added to this recipe."""
        recipe, base = text, self.base
        if here is not None:
            if _WHOLE.match(text.lstrip()):
                raise RequestError(
                    "--env-from-here adds to lines of packages only.",
                    hint="Leave it off, or write the recipe as lines: `pip install …`.",
                )
            recipe, base = here.recipe() + text, self.base or here.base
        spec = self.pull_spec(job_id, notebook)
        return msgspec.structs.replace(
            spec, name=self.name, recipe=recipe, base=base, folder=folder, push=push
        )

    def pull_spec(self, job_id: str, notebook: str | None = None) -> ImageSpec:
        return ImageSpec(
            id=job_id,
            base=self.name,
            cluster=self.request.cluster,
            runtime=self.request.runtime,
            options=dict(self.request.options),
            again=self.again,
            notebook=notebook,
        )


def parse_image(
    command: Command, args: Arguments, *, defaults: Request | None = None
) -> ImageRequest:
    """Read the words after `image build` or `image pull`. RequestError names the wrong word.
    `defaults` are the notebook's for all cells."""
    told = [] if defaults is None else _defaults(defaults)
    own = vars(args)
    return ImageRequest(
        name=args.name,
        file=own.get("file"),
        base=own.get("from") or None,
        push=own.get("push"),
        env_from_here=own.get("env_from_here", False),
        again=args.rebuild,
        request=of_job(command, [*told, *args.words]),
    )


def _defaults(request: Request) -> list[str]:
    words = ["--cluster", request.cluster] if request.cluster else []
    kept = {name: value for name, value in request.options.items() if name in _SHARED}
    return [*words, *sbatch.sbatch_args(kept)]


def removed(name: str, done: ImageRemoval) -> str:
    """Say that an image was removed, and on which nodes an engine still holds it."""
    if not done.held_on:
        return f"{name}: removed"
    return (
        f"{name}: removed. Docker (or Podman) on {', '.join(done.held_on)} still holds it; the "
        "next job there in another image that was built or pulled here removes it."
    )
