"""The search for the image of `--image NAME` among aliases, image folders, files and registry
names. No I/O.

The caller has access to the cluster's files, and passes `exists` and `listing`.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from jupyter_slurm.containers.image_folder import is_built_name
from jupyter_slurm.containers.mounts import home_expanded
from jupyter_slurm.containers.references import NGC, Reference, parse_reference
from jupyter_slurm.errors import NotFoundError, RequestError


def find_image(
    reference: str,
    *,
    aliases: Mapping[str, str],
    image_dirs: Sequence[str],
    suffixes: Sequence[str],
    home: str,
    exists: Callable[[str], bool],
    listing: Callable[[str], Iterable[str]],
    fetched: Callable[[Reference], str | None] = lambda _: None,
    made: Callable[[str], str | None] = lambda _: None,
    there: Callable[[], Iterable[str]] = lambda: (),
) -> str:
    """Return the absolute path of the image on the cluster, or the name from `fetched` for a tool
    that downloads images.

    `made` returns the path of an image in our own folder, or None. Our images take precedence for
    names that only they can have; otherwise the site's images do. `listing` returns the names in a
    folder (none for a missing folder), and `there` returns the names of all images. Raise
    NotFoundError, with the names of existing images, if the image is not found. Raise RequestError
    if `reference` is not an image name.
    """
    wanted = aliases.get(reference, reference)
    check_name(wanted)
    ours_first = is_built_name(wanted)
    if ours_first and (path := made(wanted)) is not None:
        return path
    folders = [home_expanded(folder, home) for folder in image_dirs]
    if wanted.startswith(("/", "~/")):
        path = posixpath.normpath(home_expanded(wanted, home))
        if exists(path):
            return path
        tried = path
    else:
        stems = file_stems(wanted)
        wished = [stem + suffix for stem in stems for suffix in suffixes]
        for folder in folders:
            names = frozenset(listing(folder))
            for path in (posixpath.join(folder, name) for name in wished if name in names):
                if exists(path):
                    return path
        if not ours_first and (path := made(wanted)) is not None:
            return path
        named = fetched(parse_reference(wanted))
        if named is not None:
            return named
        tried = f"{', '.join(stems)} in {', '.join(folders)}" if folders else ""
    offered = sorted({*aliases, *there()})
    is_path = reference.startswith(("/", "~/"))
    raise NotFoundError(
        f"File {tried} not found on this cluster."
        if is_path
        else f"Image {reference!r} not found on this cluster.",
        hint=_hint(reference, offered),
        detail=f"Looked for {tried}." if tried and not is_path else None,
        option="image",
    )


def check_name(reference: str) -> None:
    """Raise RequestError for an empty name, a relative path, or several lines."""
    if not reference or "\0" in reference or "\n" in reference:
        raise RequestError(f"{reference!r} is not an image name.", option="image")
    if reference.startswith("."):
        raise RequestError(
            f"The image {reference!r} is a relative path.",
            hint="Use an absolute path on the cluster, or a path that starts with ~/.",
            option="image",
        )


def file_stems(reference: str) -> list[str]:
    """Return possible file names in an image folder for `reference`, best first.

    ch-image and ch-convert write `/` as `%` and `:` as `+`. `apptainer pull` names files NAME_TAG,
    without the registry, so this form is possible only for names without a registry or from NGC.
    """
    stems = [reference.replace("/", "%").replace(":", "+"), reference.replace("/", "%")]
    try:
        found = parse_reference(reference)
    except RequestError:
        return list(dict.fromkeys(stems))
    prefix, _, name = found.repository.rpartition("/")
    known = "/" not in reference or (found.registry, prefix) == (NGC, "nvidia")
    if known and found.tag and not found.digest:
        _, _, written = reference.removeprefix("docker://").partition(":")
        tags = dict.fromkeys([written or found.tag, found.tag])
        if found.registry == NGC:
            tags[found.tag.removesuffix("-py3")] = None
        stems += [f"{name}{between}{tag}" for between in "_-" for tag in tags]
    return list(dict.fromkeys(stems))


def name_of(file: str) -> str:
    """Return the `--image` name of a file in an image folder."""
    stem = re.sub(r"\.(sqfs|squashfs|sqsh|sif|simg|img)$", "", file)
    return stem.replace("%", "/").replace("+", ":")


def _hint(reference: str, offered: Sequence[str]) -> str:
    near = difflib.get_close_matches(reference, offered, n=1)
    start = f"Did you mean {near[0]}? " if near else ""
    there = f"Available: {', '.join(offered)}." if offered else "The cluster has no images yet."
    if reference.startswith(("/", "~/")):
        return f"{start}{there}"
    return f"{start}{there} Pull it from a registry with `%slurm image pull {reference}`."
