"""Images for jobs: requests, builds, and images on a cluster."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from jupyter_slurm.wire.job import Job

__all__ = ["Image", "ImageBuild", "ImageOrigin", "ImageRemoval", "ImageSpec"]


class ImageOrigin(StrEnum):
    BUILT = "built"  # from a recipe, in our own folder
    PULLED = "pulled"  # from a registry, in our own folder
    SITE = "site"  # in a folder of the site, named by the profile
    ALIAS = "alias"  # a name from the profile


class Image(Struct, frozen=True, kw_only=True):
    name: str
    """The name for `--image`."""
    origin: ImageOrigin
    path: str
    """The path on the cluster; for an alias, its target."""
    tool: str | None = None
    """The container tool of the image (tools that share images share the name); None if unknown."""
    base: str | None = None
    """The base image; None if we did not build the image, or if the recipe names it."""
    digest: str | None = None
    """The recipe's digest."""
    made_s: float | None = None
    size_mib: float | None = None


class ImageSpec(Struct, frozen=True, kw_only=True):
    """A request to build or pull an image."""

    id: str
    """The ID for the job, if the request needs a job; see `JobSpec.id`."""
    name: str = ""
    """The name of the new image; "" to pull an image."""
    recipe: str | None = None
    """The recipe; None to pull `base` unchanged."""
    base: str | None = None
    """The base image, as for `--image`; None if the recipe names it."""
    folder: str | None = None
    """The local folder of the recipe, pushed if the recipe copies files; None without a folder."""
    push: str | None = None
    """A folder to push in place of `folder`, for any recipe."""
    cluster: str | None = None
    """The cluster; None for the default cluster."""
    runtime: str | None = None
    """The container tool; None for the profile's tool."""
    options: dict[str, str] = field(default_factory=dict)
    """The sbatch options of the job; see `JobSpec.options`."""
    again: bool = False
    """Build even if the recipe has not changed."""
    notebook: str | None = None


class ImageBuild(Struct, frozen=True, kw_only=True):
    image: Image
    """The image, existing or future. Until the job has ended, its path lacks the tool's suffix."""
    job: Job | None = None
    """The job; None if the image already exists."""


class ImageRemoval(Struct, frozen=True, kw_only=True):
    held_on: tuple[str, ...] = ()
    """Nodes where Docker or Podman still holds the image. On each node, the next job with a built
    image removes it."""
