"""The calls that list, build, pull and remove images on a cluster.

A job builds an image with a script of `containers.builders`, unless an image from the same recipe
exists or is being built.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import PurePosixPath

from jupyter_slurm.containers import image_folder
from jupyter_slurm.containers.builders import BUILDERS, WITHIN_SLURM, Builder, builder_for
from jupyter_slurm.containers.builders.script import NewImage, render
from jupyter_slurm.containers.images import name_of
from jupyter_slurm.containers.recipe import read_recipe
from jupyter_slurm.containers.references import Reference, parse_reference
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.image_files import Files, files_in
from jupyter_slurm.jobs.cluster.image_store import ImageStore
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.wire import (
    Image,
    ImageBuild,
    ImageOrigin,
    ImageRemoval,
    ImageSpec,
    Job,
    JobSpec,
    ProgramSpec,
)


class Images:
    """The images of all clusters. `images`, `make_image` and `remove_image` are calls of `Api`."""

    def __init__(
        self, registry: JobRegistry, clusters: Clusters, submit: Callable[[JobSpec], Job]
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._submit = submit
        self._making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """Locks by cluster. Concurrent requests for the same image share one job."""

    def images(self, cluster: str | None = None) -> list[Image]:
        known = self._clusters.named(cluster)
        profile = known.profile
        found = [
            Image(name=name, origin=ImageOrigin.ALIAS, path=reference)
            for name, reference in profile.images.items()
        ]
        store = known.image_store()
        found += [_image(store, tool, record) for tool, record in store.records()]
        found += [
            Image(name=name_of(path.name), origin=ImageOrigin.SITE, path=str(path))
            for path in known.site_images(profile.runtime)
        ]
        return found

    def make_image(self, spec: ImageSpec) -> ImageBuild:
        cluster = self._clusters.named(spec.cluster)
        runtime = spec.runtime or cluster.profile.runtime
        if spec.recipe is None and not spec.again and (own := _of_the_site(spec, cluster, runtime)):
            return ImageBuild(image=own)
        planned = _pulled if spec.recipe is None else _built
        plan = planned(spec, cluster, runtime)
        with self._making[cluster.name]:
            return self._made(spec, cluster, runtime, *plan)

    def _made(
        self,
        spec: ImageSpec,
        cluster: SlurmCluster,
        runtime: str,
        name: str,
        digest: str,
        base: str | None,
        files: Files | None,
        text: Callable[[Builder, str], str],
    ) -> ImageBuild:
        builder, store = builder_for(runtime), cluster.image_store()
        record = store.record(name, builder.tool)
        if record is not None and record.digest == digest and not spec.again and store.has(record):
            return ImageBuild(image=_image(store, builder.tool, record))
        version = image_folder.version(digest, spec.id if spec.again else None)
        new = NewImage(str(store.path), name, builder.tool, digest, base, version, spec.again)
        image = Image(
            name=name,
            origin=ImageOrigin.PULLED if spec.recipe is None else ImageOrigin.BUILT,
            path=str(store.path / new.stem),
            tool=builder.tool,
            base=base,
            digest=digest,
        )
        mark = f"image {cluster.name} {image.path}"
        for one in self._registry.live():
            if one.job.fingerprint == mark:
                return ImageBuild(image=image, job=one.job)
        code = render(new, builder.suffixes, text(builder, version))
        on_login = cluster.profile.build_on == "login" and runtime not in WITHIN_SLURM
        job = _job(spec, cluster.name, name, code, mark, files, on_login=on_login)
        return ImageBuild(image=image, job=self._submit(job))

    def remove_image(self, name: str, cluster: str | None = None) -> ImageRemoval:
        known = self._clusters.named(cluster)
        store = known.image_store()
        found = {
            (tool, record.name)
            for tool, record in store.records()
            if record.name in image_folder.keys(name)
        }
        if not found:
            raise NotFoundError(
                f"Cannot remove image {name!r}: jupyter-slurm did not build or pull it.",
                hint="List images with `%slurm image ls`.",
            )
        nodes: set[str] = set()
        for tool, one in found:
            suffixes = next(
                builder.suffixes for builder in BUILDERS.values() if builder.tool == tool
            )
            nodes |= set(store.remove(one, tool, suffixes))
        return ImageRemoval(held_on=tuple(sorted(nodes)))


_Plan = tuple[str, str, str | None, Files | None, Callable[[Builder, str], str]]


def _built(spec: ImageSpec, cluster: SlurmCluster, runtime: str) -> _Plan:
    """Return the image's name, digest and base, the recipe's files, and a function that returns the
    build script. Raises RequestError, or NotFoundError if the base image or the folder is missing.
    """
    builder = builder_for(runtime)
    image_folder.check_name(spec.name)
    pushes = spec.push is not None
    recipe = read_recipe(spec.recipe or "", spec.base, builder.reads, runtime, pushes=pushes)
    base = None if recipe.base is None else _base(recipe.base, cluster, runtime, builder)
    builder.build(recipe, base, "0" * 12)  # rejects an invalid recipe now
    files = files_in(spec.push or spec.folder, spec.notebook) if recipe.has_files else None
    return (
        spec.name,
        recipe.digest(base, builder.tool, files.digest if files else None),
        recipe.base,
        files,
        lambda builder, version: builder.build(recipe, base, version),
    )


def _pulled(spec: ImageSpec, cluster: SlurmCluster, runtime: str) -> _Plan:
    if not spec.base:
        raise RequestError("The name of the image to pull is missing.")
    # As for `--image`, the name may be the profile's alias for an image in another registry.
    reference = parse_reference(cluster.profile.images.get(spec.base, spec.base))
    digest = image_folder.reference_digest(str(reference), builder_for(runtime).tool)
    return (
        str(reference),
        digest,
        None,
        None,
        lambda builder, version: builder.pull(reference, version),
    )


def _of_the_site(spec: ImageSpec, cluster: SlurmCluster, runtime: str) -> Image | None:
    """Return the site's own image with the requested name; None if the site does not have it. Jobs
    would prefer this image to a pulled image."""
    name = spec.base or ""
    path = PurePosixPath(_base(name, cluster, runtime, builder_for(runtime))) if name else None
    if path is None or not path.is_absolute() or path.parent == cluster.image_store().path:
        return None
    return Image(name=name, origin=ImageOrigin.SITE, path=str(path))


def _base(wanted: str, cluster: SlurmCluster, runtime: str, builder: Builder) -> str:
    def fetched(reference: Reference) -> str | None:
        return builder.named(reference)

    return cluster.find_image(wanted, runtime, fetched)


def _job(
    spec: ImageSpec,
    cluster: str,
    name: str,
    code: str,
    mark: str,
    files: Files | None,
    *,
    on_login: bool,
) -> JobSpec:
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2])[:48]
    options = {} if on_login else dict(spec.options)
    if files:
        options.pop("chdir", None)  # the script starts in the folder of its files
    return ProgramSpec(
        id=spec.id,
        name=f"image-{label}",
        code=code,
        cluster=cluster,
        options=options,
        runtime="none",
        notebook=spec.notebook,
        fingerprint=mark,
        push=files.folder if files else None,
        push_exclude=files.exclude if files else (),
        on_login=on_login,
    )


def _image(store: ImageStore, tool: str, record: image_folder.ImageRecord) -> Image:
    built = image_folder.is_built_name(record.name)
    return Image(
        name=record.name,
        origin=ImageOrigin.BUILT if built else ImageOrigin.PULLED,
        path=str(store.path / record.file),
        tool=tool,
        base=record.base,
        digest=record.digest,
        made_s=record.made_s,
        size_mib=None if record.size_kib is None else record.size_kib / 1024,
    )
