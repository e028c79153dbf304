"""File names in our own image folder on a cluster, and the record of an image. No I/O.

    NAME+0123456789ab.sif     an image; the digits are those of its recipe or its reference
    NAME@apptainer.json       the record of `--image NAME` for that tool, written atomically
    .NAME.lock                a lock, held during a build
    .NAME+0123456789ab.tar@NODE   a mark that the engine on NODE has the image

An image file is never overwritten, so a new build does not disturb a job that runs in an old image.
The NAME of a pulled image is its whole reference, with `%` for `/` and `+` for `:`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.errors import MalformedError, RequestError
from jupyter_slurm.untrusted_json import Moment, read_json

OWN = "jupyter-slurm/image:"
"""Prefix of our images' names in an engine."""
_BUILT = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_LONGEST = 64
_TOOLS = {
    "sudo-docker": "docker",
    "podman": "docker",
    "singularity": "apptainer",
    "pyxis": "enroot",
}
_TAR = re.compile(r".*\+([0-9a-f]{12})\.tar")
_LOADED = re.compile(r"\.(?P<file>.+\.tar)@(?P<node>[^@]+)")
_RECORD = re.compile(r"(?P<stem>.+)@(?P<tool>[a-z]+)\.json")


class ImageRecord(Struct, frozen=True, kw_only=True):
    name: str
    """The name for `--image`: a built image's name, or a whole reference."""
    digest: str
    """The digest of the recipe, or of a pulled image's reference."""
    base: str | None = None
    """The base image; None if pulled."""
    file: Annotated[str, Meta(pattern=r"\A[^/\0]{1,255}\Z")]
    """The file's name in the folder."""
    made_s: Moment
    size_kib: int | None = None


def check_name(name: str) -> None:
    """Raise RequestError unless the name is valid for every tool."""
    if not _BUILT.fullmatch(name) or len(name) > _LONGEST:
        raise RequestError(
            f"{name!r} is not a valid image name.",
            hint="Use lower-case letters and digits, joined by `.`, `_` or `-`: my-pytorch.",
        )


def tool_of(runtime: str) -> str:
    """Return the name under which a runtime's records are stored. Tools that share images share
    it."""
    return _TOOLS.get(runtime, runtime)


def is_built_name(name: str) -> bool:
    return _BUILT.fullmatch(name) is not None and len(name) <= _LONGEST


def keys(wanted: str) -> list[str]:
    """Return possible file names for a record of `wanted`, best first."""
    found = [wanted] if is_built_name(wanted) else []
    with suppress(RequestError):
        found.append(str(parse_reference(wanted)))
    return found


def stem(name: str) -> str:
    return name.replace("/", "%").replace(":", "+")


def record_name(name: str, tool: str) -> str:
    return f"{stem(name)}@{tool}.json"


def version(digest: str, again: str | None) -> str:
    """Return the digits in a file's name. `again`: a string that differs for each rebuild, or
    None."""
    if again is None:
        return digest[:12]
    return hashlib.sha256(f"{digest} {again}".encode()).hexdigest()[:12]


def reference_digest(reference: str, tool: str) -> str:
    return hashlib.sha256(f"{tool} {reference}".encode()).hexdigest()


def is_version(entry: str, name: str, suffixes: Sequence[str]) -> bool:
    """Return whether a file in the folder is a version of that image."""
    endings = "|".join(map(re.escape, suffixes))
    return re.fullmatch(rf"{re.escape(stem(name))}\+[0-9a-f]{{12}}(?:{endings})", entry) is not None


def nodes_with(entries: Iterable[str], name: str) -> list[str]:
    """Return the nodes whose engines hold a version of the image, from the file names in the
    folder."""
    found = filter(None, map(_LOADED.fullmatch, entries))
    return sorted({one["node"] for one in found if is_version(one["file"], name, [".tar"])})


def tool_of_record(entry: str) -> str | None:
    """Return the tool of a record file; None if it is not a record."""
    found = _RECORD.fullmatch(entry)
    return found["tool"] if found else None


def read_record(content: bytes) -> ImageRecord | None:
    try:
        return read_json(content, ImageRecord)
    except MalformedError:
        return None


def begun_record(name: str, digest: str, base: str | None) -> str:
    """Return the text of a record; the script appends data known only on the node."""
    known: dict[str, Any] = {"name": name, "digest": digest, "base": base}
    return msgspec.json.encode(known).decode().removesuffix("}")


def docker_tag(path: str) -> str | None:
    """Return Docker's name for one of our image files; None for other files."""
    found = _TAR.fullmatch(path)
    return f"{OWN}{found[1]}" if found else None
