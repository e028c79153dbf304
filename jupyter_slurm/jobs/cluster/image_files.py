"""The folder of this machine that goes with a recipe: what of it is pushed, and its digest.

It is pushed with the job that makes the image, as `--push` pushes a folder. `.dockerignore` says
what stays behind, and `.gitignore` nothing: a recipe often copies what git is not to keep.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from jupyter_slurm.errors import FileAccessError, RequestError
from jupyter_slurm.jobs.cluster.transfers import pushed_folder
from jupyter_slurm.readable import size
from jupyter_slurm.transport.files.ignore import ALWAYS, Exclusion, Patterns
from jupyter_slurm.transport.files.manifest import Listing, scan

_MOST_BYTES = 4 << 30
"""Larger folders are refused: beside a notebook often lie data that would fill the quota there."""
_IGNORE = ".dockerignore"


@dataclass(frozen=True, slots=True)
class Files:
    folder: str
    exclude: tuple[str, ...]
    """Patterns, as in .gitignore, of what is not pushed."""
    digest: str
    """Equal for the same names with the same contents."""


def files_in(folder: str | None, notebook: str | None) -> Files:
    """Look at the folder. The `notebook` in it stays behind: it changes whenever it is saved.
    RequestError; NotFoundError; FileAccessError."""
    if folder is None:
        raise RequestError(
            "The recipe copies files, but no folder has them.",
            hint="Name the folder: ImageSpec(folder=…).",
        )
    top = pushed_folder(folder)
    exclude = ["!*", *(f"{name.decode()}/" for name in sorted(ALWAYS))]
    if notebook and Path(notebook).parent == top:
        exclude.append("/" + re.sub(r"([\\*?\[ ])", r"\\\1", Path(notebook).name))
    exclude += _dockerignore(top / _IGNORE)
    found = scan(os.fsencode(top), Exclusion(exclude))
    total = sum(entry.size_bytes for entry in found.entries.values() if entry.kind == "file")
    if total > _MOST_BYTES:
        raise RequestError(
            f"{top} has {size(total)}, and an image takes at most {size(_MOST_BYTES)} along.",
            hint="Name a folder with what the image needs, --push DIR, or leave the rest out in "
            ".dockerignore.",
        )
    return Files(str(top), tuple(exclude), _digest(top, found))


def _dockerignore(file: Path) -> list[str]:
    """Return the patterns of a .dockerignore as those of a .gitignore: they begin at the top and
    mean a folder with all in it (`/**`), and one that takes a file back does so in a folder that is
    left out, too."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    patterns: list[str] = []
    for line in lines:
        word = line.strip()
        path = posixpath.normpath(word.removeprefix("!").strip()).strip("/").replace("[^", "[!")
        if not word or line.startswith("#") or path == ".":
            continue
        if not word.startswith("!"):
            patterns += [f"/{path}", f"/{path}/**"]
            continue
        parts = path.split("/")
        for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
            if Patterns(patterns, str(file)).match(os.fsencode(above), folder=True):
                patterns += [f"!/{above}/**", f"/{above}/*", f"/{above}/*/**"]
        patterns += [f"!/{path}", f"!/{path}/**"]
    return patterns


def _digest(top: Path, found: Listing) -> str:
    whole = hashlib.sha256()
    for name, entry in sorted(found.entries.items()):
        content, runs = entry.link, False
        if entry.kind == "file":
            runs = bool(entry.mode & stat.S_IXUSR)
            try:
                with (top / os.fsdecode(name)).open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").digest()
            except OSError as exc:
                raise FileAccessError(
                    f"{top / os.fsdecode(name)} cannot be read: {exc.strerror or exc}.",
                    hint="Make it readable, or leave it out in .dockerignore.",
                ) from exc
        whole.update(repr((name, entry.kind, runs, content)).encode())
    return whole.hexdigest()
