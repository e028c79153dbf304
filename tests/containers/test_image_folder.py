"""Names in the image folder, and how `--image` finds them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from jupyter_slurm.containers import image_folder
from jupyter_slurm.containers.images import find_image
from jupyter_slurm.errors import NotFoundError, RequestError


@pytest.mark.parametrize("name", ["mine", "my-torch_2.1", "a"])
def test_valid_name_is_accepted(name: str) -> None:
    image_folder.check_name(name)


@pytest.mark.parametrize("name", ["", "Mine", "a b", "a/b", "a:b", "-a", ".a", "a..b", "a" * 65])
def test_invalid_name_is_rejected(name: str) -> None:
    with pytest.raises(RequestError, match="not a valid image name"):
        image_folder.check_name(name)


def test_version_file_belongs_to_one_image_name() -> None:
    for entry, found in (
        ("a+0123456789ab.sif", True),
        ("a+0123456789ab", False),
        ("b+0123456789ab.sif", False),
        ("ba+0123456789ab.sif", False),
        ("a+0123456789ab.sif.partial", False),
        ("a@apptainer.json", False),
    ):
        assert image_folder.is_version(entry, "a", (".sif",)) is found, entry
    assert image_folder.is_version("a+0123456789ab", "a", (".sqfs", ""))
    pulled = "docker.io%library%ubuntu+22.04+0123456789ab.sif"
    assert image_folder.is_version(pulled, "docker.io/library/ubuntu:22.04", (".sif",))


def found(wanted: str, site: Mapping[str, str], ours: Mapping[str, str]) -> str:
    return find_image(
        wanted,
        aliases={"short": "mine"},
        image_dirs=("/site",),
        suffixes=(".sif",),
        home="/home/ada",
        exists=lambda path: path in site.values(),
        listing=lambda folder: [path.removeprefix(f"{folder}/") for path in site.values()],
        there=lambda: ours,
        made=lambda name: next((ours[key] for key in image_folder.keys(name) if key in ours), None),
    )


def test_our_named_images_precede_site_images_and_site_copies_precede_our_pulls() -> None:
    site = {"mine": "/site/mine.sif", "ubuntu": "/site/ubuntu+22.04.sif"}
    ours = {"mine": "/ours/m", "docker.io/library/ubuntu:22.04": "/ours/u"}
    assert found("mine", site, ours) == found("short", site, ours) == "/ours/m"
    assert found("mine", site, {}) == "/site/mine.sif"
    assert found("ubuntu:22.04", site, ours) == "/site/ubuntu+22.04.sif"
    assert found("ubuntu:22.04", {}, ours) == found("docker://ubuntu:22.04", {}, ours) == "/ours/u"
    with pytest.raises(NotFoundError, match="Did you mean mine"):
        found("mine2", site, ours)
