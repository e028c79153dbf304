"""The images and environments of an Api in memory: a fake for front ends. A build prints text."""

from __future__ import annotations

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import (
    CellSpec,
    Image,
    ImageBuild,
    ImageOrigin,
    ImageRemoval,
    ImageSpec,
    InstalledEnvironment,
    Job,
    JobSpec,
)


class ImageSide:
    def __init__(self) -> None:
        self.image_specs: list[ImageSpec] = []
        self.made: dict[str, Image] = {}
        """Images by name. A repeated request returns the first image."""
        self.making = "print('making it')"
        """The job that builds each image."""
        self.installed: list[InstalledEnvironment] = []
        self.removals: list[tuple[list[str], float | None]] = []

    def submit(self, spec: JobSpec) -> Job:
        raise NotImplementedError

    def images(self, cluster: str | None = None) -> list[Image]:
        return list(self.made.values())

    def make_image(self, spec: ImageSpec) -> ImageBuild:
        self.image_specs.append(spec)
        name = spec.name or spec.base or ""
        if name in self.made and not spec.again:
            return ImageBuild(image=self.made[name])
        origin = ImageOrigin.PULLED if spec.recipe is None else ImageOrigin.BUILT
        image = Image(name=name, origin=origin, path=f"/images/{name}", tool="fake", made_s=1e9)
        job = self.submit(CellSpec(id=spec.id, name="image", code=self.making))
        self.made[name] = image
        return ImageBuild(image=image, job=job)

    def remove_image(self, name: str, cluster: str | None = None) -> ImageRemoval:
        if self.made.pop(name, None) is None:
            raise NotFoundError(f"Image {name!r} not found.")
        return ImageRemoval(held_on=("n1", "n2") if name == "loaded" else ())

    def environments(self, cluster: str | None = None) -> list[InstalledEnvironment]:
        return self.installed

    def remove_environments(
        self, ids: list[str], cluster: str | None = None, unused_s: float | None = None
    ) -> list[InstalledEnvironment]:
        self.removals.append((ids, unused_s))
        return [one for one in self.installed if one.id in ids]
