"""An image for jobs to run in: as it is asked for, and as a cluster has it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from jupyter_slurm.wire.job import Job


class ImageOrigin(StrEnum):
    BUILT = "built"  # from a recipe, into our own folder
    PULLED = "pulled"  # from a registry, into our own folder
    SITE = "site"  # in a folder of the site's that the profile names
    ALIAS = "alias"  # a name that the profile gives


class Image(Struct, frozen=True, kw_only=True):
    name: str
    """As `--image` says it."""
    origin: ImageOrigin
    path: str
    """On the cluster; of an alias, what it stands for."""
    tool: str | None = None
    """Whose it is: tools that share images share the name; None: not known."""
    base: str | None = None
    """What it was built from; None: not built here, or its recipe says so."""
    digest: str | None = None
    """Of the recipe."""
    made_s: float | None = None
    size_mib: float | None = None


class ImageSpec(Struct, frozen=True, kw_only=True):
    """What is asked for: an image built from a recipe, or pulled."""

    id: str
    """Of the job that makes it, if one is needed; see `JobSpec.id`."""
    name: str = ""
    """What it will be called; "" of one that is pulled."""
    recipe: str | None = None
    """Its text; None: `base` is pulled as it is."""
    base: str | None = None
    """The image to start from, as `--image` would say it; None: the recipe says it."""
    cluster: str | None = None
    """None: the default cluster."""
    runtime: str | None = None
    """None: the profile's."""
    options: dict[str, str] = field(default_factory=dict)
    """sbatch's, for the job that makes it; see `JobSpec.options`."""
    again: bool = False
    """Made even if nothing has changed."""
    notebook: str | None = None


class ImageBuild(Struct, frozen=True, kw_only=True):
    image: Image
    """As it is, or as it will be once the job has ended well: then its path ends where the tool's
    suffix begins."""
    job: Job | None = None
    """None: the image is there, and nothing had to be done."""
