"""An image for jobs to run in: as the user asks for it, and as a cluster has it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from jupyter_slurm.wire.job import Job

__all__ = ["Image", "ImageBuild", "ImageOrigin", "ImageRemoval", "ImageSpec"]


class ImageOrigin(StrEnum):
    BUILT = "built"  # from a recipe, into our own folder
    PULLED = "pulled"  # from a registry, into our own folder
    SITE = "site"  # in a folder of the site's that the profile names
    ALIAS = "alias"  # a name that the profile gives


class Image(Struct, frozen=True, kw_only=True):
    name: str
    """The name for `--image`."""
    origin: ImageOrigin
    path: str
    """Its path on the cluster; for an alias, its target."""
    tool: str | None = None
    """The tool that has it: tools that share images share the name; None: not known."""
    base: str | None = None
    """The image it was built from; None: not made here, or its recipe names it."""
    digest: str | None = None
    """The recipe's digest."""
    made_s: float | None = None
    size_mib: float | None = None


class ImageSpec(Struct, frozen=True, kw_only=True):
    """What is asked for: an image built from a recipe, or pulled."""

    id: str
    """The id of the job that makes it, if one is needed; see `JobSpec.id`."""
    name: str = ""
    """Its future name; "" for one to pull."""
    recipe: str | None = None
    """The recipe's text; None: pull `base` as it is."""
    base: str | None = None
    """The image to start from, as for `--image`; None: the recipe names it."""
    folder: str | None = None
    """The folder of this machine beside the recipe, which goes to the cluster with a recipe that
    copies files; None: it has none."""
    push: str | None = None
    """A folder that goes with the recipe in place of `folder`, whatever the recipe says."""
    cluster: str | None = None
    """None: the default cluster."""
    runtime: str | None = None
    """None: the profile's."""
    options: dict[str, str] = field(default_factory=dict)
    """sbatch's options for the job that makes it; see `JobSpec.options`."""
    again: bool = False
    """Whether to make it even if nothing has changed."""
    notebook: str | None = None


class ImageBuild(Struct, frozen=True, kw_only=True):
    image: Image
    """The image as it is, or as it will be once the job has succeeded: then its path lacks the
    tool's suffix."""
    job: Job | None = None
    """The job that makes it; None: the image exists already."""


class ImageRemoval(Struct, frozen=True, kw_only=True):
    held_on: tuple[str, ...] = ()
    """The nodes whose Docker or Podman has loaded the image, and removes it with the next job in
    another one."""
