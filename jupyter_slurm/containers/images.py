"""What `--image NAME` means on a cluster: aliases, image folders, files, names in a registry. Pure.

Whoever knows the cluster's files passes `exists` and `listing`; nothing is looked up here.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from jupyter_slurm.containers.image_folder import is_built_name
from jupyter_slurm.containers.mounts import home_expanded
from jupyter_slurm.containers.references import Reference, parse_reference
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
    kept: Callable[[str], str] | None = None,
) -> str:
    """The absolute path of the image on the cluster, else what a tool that fetches images itself
    calls it, as `fetched` says; `@NAME` is a container that it has on a node, as `kept` says.

    `made` gives the path of an image in our own folder. A name that only such a one can have is
    looked up there first; of all others the site's own come first.
    `listing` gives the names in a folder (none for a folder that is not there); it is only called
    to say what there is. NotFoundError names what was looked for and what exists; RequestError:
    this can be no image.
    """
    wanted = aliases.get(reference, reference)
    if wanted.startswith("@"):
        return _kept(wanted, kept)
    tried = candidates(wanted, image_dirs, suffixes, home)
    ours_first = is_built_name(wanted)
    if ours_first and (path := made(wanted)) is not None:
        return path
    for path in tried:
        if exists(path):
            return path
    if not wanted.startswith(("/", "~/")):
        if not ours_first and (path := made(wanted)) is not None:
            return path
        named = fetched(parse_reference(wanted))
        if named is not None:
            return named
    folders = [home_expanded(folder, home) for folder in image_dirs]
    offered = sorted({*aliases, *(n for folder in folders for n in names_in(listing(folder)))})
    raise NotFoundError(
        f"There is no image {reference!r} on this cluster.",
        hint=_hint(reference, offered),
        detail="Looked for " + ", ".join(tried) + "." if tried else None,
    )


def _kept(wanted: str, kept: Callable[[str], str] | None) -> str:
    if kept is None:
        raise RequestError(
            f"{wanted!r} is a container that is kept on a node, which this runtime has none of.",
            hint="pyxis and enroot have; for all others say the image: --image NAME.",
        )
    return kept(wanted.removeprefix("@"))


def candidates(
    reference: str, image_dirs: Sequence[str], suffixes: Sequence[str], home: str
) -> list[str]:
    """Paths that `reference` may mean, best first; RequestError for an empty or relative one.

    In an image folder `/` is written `%` and `:` is `+`, as ch-image and ch-convert name things.
    """
    if not reference or "\0" in reference or "\n" in reference:
        raise RequestError(f"{reference!r} is not the name of an image.")
    if reference.startswith(("/", "~/")):
        return [posixpath.normpath(home_expanded(reference, home))]
    if reference.startswith("."):
        raise RequestError(
            f"The image {reference!r} is a relative path.",
            hint="Give its absolute path on the cluster, or one that begins with ~/.",
        )
    stems = dict.fromkeys([_file_stem(reference), reference.replace("/", "%")])
    return [
        posixpath.join(home_expanded(folder, home), stem + suffix)
        for folder in image_dirs
        for stem in stems
        for suffix in suffixes
    ]


def names_in(entries: Iterable[str]) -> list[str]:
    """What the files of an image folder are called by `--image`; hidden ones are left out."""
    return [
        re.sub(r"\.(sqfs|squashfs|sqsh|sif)$", "", entry).replace("%", "/").replace("+", ":")
        for entry in entries
        if not entry.startswith(".")
    ]


def _file_stem(reference: str) -> str:
    return reference.replace("/", "%").replace(":", "+")


def _hint(reference: str, offered: Sequence[str]) -> str:
    if not offered:
        return (
            "This cluster's profile names no images: add them to its [images] table, say where "
            "they lie with `image_dirs`, or give a path."
        )
    near = difflib.get_close_matches(reference, offered, n=1)
    start = f"Did you mean {near[0]}? " if near else ""
    return f"{start}There are: {', '.join(offered)}."
