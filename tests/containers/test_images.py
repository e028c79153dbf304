from collections.abc import Callable, Iterable, Mapping

import pytest

from jupyter_slurm.containers.images import find_image, name_of
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.errors import NotFoundError, RequestError

SUFFIXES = ("", ".sqfs")


def find(
    reference: str,
    files: Mapping[str, Iterable[str]],
    aliases: Mapping[str, str] | None = None,
    fetched: Callable[[Reference], str | None] = lambda _: None,
) -> str:
    """`files` maps folders to the names in them. Every folder except /other is an image folder."""
    folders = [folder for folder in files if folder != "/other"]
    return find_image(
        reference,
        aliases=aliases or {},
        image_dirs=folders,
        suffixes=SUFFIXES,
        home="/home/u",
        exists=lambda path: any(path == f"{d}/{n}" for d, names in files.items() for n in names),
        listing=lambda folder: files.get(folder, ()),
        there=lambda: [name_of(name) for folder in folders for name in files[folder]],
        fetched=fetched,
    )


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("pytorch:22.11", "pytorch+22.11"),
        ("pytorch:22.11", "pytorch+22.11.sqfs"),
        ("pytorch:22.11", "pytorch:22.11.sqfs"),
        ("nvcr.io/nvidia/pytorch:22.11-py3", "nvcr.io%nvidia%pytorch+22.11-py3"),
        ("own image", "own image.sqfs"),
        ("pytorch+22.11.sqfs", "pytorch+22.11.sqfs"),
    ],
)
def test_image_folder_is_searched_for_names_that_ch_image_uses(reference: str, name: str) -> None:
    assert find(reference, {"/none": [], "/images": [name]}) == f"/images/{name}"


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("pytorch:22.11", "pytorch_22.11.sqfs"),
        ("pytorch:22.11", "pytorch-22.11-py3.sqfs"),
        ("tensorflow:20.10-tf2", "tensorflow_20.10-tf2-py3.sqfs"),
        ("nvcr.io/nvidia/pytorch:22.11-py3", "pytorch_22.11-py3.sqfs"),
        ("docker://nvcr.io/nvidia/pytorch:22.11-py3", "pytorch-22.11.sqfs"),
        ("ubuntu:20.04", "ubuntu_20.04.sqfs"),
    ],
)
def test_image_files_are_found_by_usual_names(reference: str, name: str) -> None:
    assert find(reference, {"/images": ["other_1.sqfs", name]}) == f"/images/{name}"


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        # Another user's image with the same name.
        ("somebody/pytorch:22.11-py3", "pytorch_22.11-py3.sqfs"),
        ("quay.io/nvidia/pytorch:22.11-py3", "pytorch_22.11-py3.sqfs"),
        ("pytorch:22.11", "pytorch_22.12-py3.sqfs"),
        ("pytorch:22.11", "pytorch_22.11-tf2-py3.sqfs"),
        (f"pytorch@sha256:{'0' * 64}", "pytorch_latest.sqfs"),
    ],
)
def test_similar_image_name_does_not_match(reference: str, name: str) -> None:
    with pytest.raises(NotFoundError):
        find(reference, {"/images": [name]})


@pytest.mark.parametrize(
    ("target", "path"),
    [("/other/p", "/other/p"), ("a:1", "/images/a+1"), ("~/p", "/home/u/p")],
)
def test_alias_can_name_a_path_or_another_image(target: str, path: str) -> None:
    files = {"/images": ["a+1"], "/other": ["p"], "/home/u": ["p"]}
    assert find("torch", files, {"torch": target}) == path


def test_alias_can_name_a_mirror() -> None:
    mirror = {"pytorch:22.11": "mirror.site.edu/nvidia/pytorch:22.11-py3"}
    assert find("pytorch:22.11", {}, mirror, fetched=str) == mirror["pytorch:22.11"]


def test_missing_image_is_reported_with_existing_images() -> None:
    with pytest.raises(NotFoundError) as caught:
        find("pytorch:22.1", {"/images": ["pytorch+22.11.sqfs"]}, {"jax": "/x"})
    assert str(caught.value.message) == "Image 'pytorch:22.1' not found on this cluster."
    detail = str(caught.value.detail)
    assert detail.startswith("Looked for pytorch+22.1, ")
    assert detail.endswith(" in /images.")
    assert str(caught.value.hint) == (
        "Did you mean pytorch:22.11? Available: jax, pytorch:22.11. "
        "Pull it from a registry with `%slurm image pull pytorch:22.1`."
    )


@pytest.mark.parametrize("reference", ["", "./a", "../a", "a\0", "a\nb", "@kept"])
def test_invalid_image_names_are_rejected(reference: str) -> None:
    with pytest.raises(RequestError):
        find(reference, {"/images": []})
