"""The local folder of a recipe.

It is pushed with the build job like a `--push` folder, but follows `.dockerignore`, since a recipe
often copies files that `.gitignore` excludes.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from jupyter_slurm.errors import RequestError
from jupyter_slurm.formatting import size
from jupyter_slurm.jobs.cluster.transfers import pushed_folder
from jupyter_slurm.transport.files.ignore import ALWAYS, Exclusion, Patterns
from jupyter_slurm.transport.files.manifest import Listing, scan

_MOST_BYTES = 4 << 30
"""The size limit for a recipe's folder. Without a limit, data beside a notebook could fill the
quota on the cluster."""
_IGNORE = ".dockerignore"


@dataclass(frozen=True, slots=True)
class Files:
    folder: str
    exclude: tuple[str, ...]
    """Patterns to exclude, as in .gitignore."""
    digest: str
    """A digest that changes with the name, size, time or `x` bit of any file."""


def files_in(folder: str | None, notebook: str | None) -> Files:
    """Return the folder's files except `notebook`, which changes with every save. Raises
    RequestError or NotFoundError."""
    if folder is None:
        raise RequestError(
            "The recipe copies files, but its folder is not set.", hint="Set ImageSpec(folder=…)."
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
            f"{top} contains {size(total)}. The limit for an image is {size(_MOST_BYTES)}.",
            hint="Name a smaller folder (--push DIR), or exclude files in .dockerignore.",
        )
    return Files(str(top), tuple(exclude), _digest(found))


def _dockerignore(file: Path) -> list[str]:
    """Translate the patterns of a .dockerignore file into .gitignore patterns. In a .dockerignore
    file, a pattern is anchored, a pattern for a folder also matches the folder's content (`/**`),
    and `!` can include files of an excluded folder."""
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


def _digest(found: Listing) -> str:
    whole = hashlib.sha256()
    for name, one in sorted(found.entries.items()):
        of_file = (one.size_bytes, one.mtime_ns, bool(one.mode & stat.S_IXUSR))
        known = of_file if one.kind == "file" else one.link
        whole.update(repr((name, one.kind, known)).encode())
    return whole.hexdigest()
