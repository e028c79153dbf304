"""The parsing of the words after `%%slurm_image`, `image build` and `image pull` into an
`ImageRequest`. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from jupyter_slurm.commands.arguments import of_job
from jupyter_slurm.commands.command import Command
from jupyter_slurm.commands.line import Request
from jupyter_slurm.commands.packages_here import Here
from jupyter_slurm.commands.parsing import Arguments, as_words, job_options
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import ImageRemoval, ImageSpec

_WHOLE = re.compile(r"#!|(?:from|arg|bootstrap:)\s", re.IGNORECASE)
_SHARED = (
    "cluster",
    "runtime",
    "partition",
    "account",
    "qos",
    "reservation",
    "constraint",
    "clusters",
)
"""Options for all jobs that also apply to image builds. GPU options do not, because builds do not
need GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    name: str
    """The new image's name, or the reference of an image to pull."""
    base: str | None
    push: str | None
    """The folder of the recipe's files, as typed; None for the recipe's own folder, if the recipe
    copies files."""
    env_from_here: bool
    again: bool
    request: Request
    """The options of the build job."""

    def build_spec(
        self,
        job_id: str,
        text: str,
        here: Here | None,
        notebook: str | None = None,
        folder: str | None = None,
        push: str | None = None,
    ) -> ImageSpec:
        """Return the spec of an image build. `here` contains the packages for --env-from-here,
        `folder` is the recipe's own folder, and `push` is the absolute path of the --push folder.
        Raise RequestError if the packages cannot be added to this recipe."""
        recipe, base = text, self.base
        if here is not None:
            if _WHOLE.match(text.lstrip()):
                raise RequestError(
                    "--env-from-here works with package lines only.",
                    hint="Omit it, or write the recipe as package lines, e.g. `pip install …`.",
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


def parse_image(command: Command, args: Arguments, before: Sequence[str] = ()) -> ImageRequest:
    """Parse the arguments of `image build` or `image pull`. Of the options `before` for every job,
    only those in `_SHARED` apply. Raise a RequestError that names the invalid word."""
    shared = [option for option in job_options(before) if option[0] in _SHARED]
    own = vars(args)
    return ImageRequest(
        name=args.name,
        base=own.get("from") or None,
        push=own.get("push"),
        env_from_here=own.get("env_from_here", False),
        again=args.rebuild,
        request=of_job(command, [*as_words(shared), *args.words]),
    )


def removed(name: str, done: ImageRemoval) -> str:
    """Return the message about a removed image. Name the nodes on which an engine still stores the
    image."""
    if not done.held_on:
        return f"{name}: removed"
    return (
        f"{name}: removed. Docker or Podman on {', '.join(done.held_on)} still stores the image. "
        "The next job with a built image on the node removes it."
    )
