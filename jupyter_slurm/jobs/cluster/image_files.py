"""The files of this machine that a recipe takes along: found, checked, digested.

Which words of a recipe name them is `containers`' to say. They travel as a folder of which these
alone are pushed with the job (`transfers.py`); nothing is sent here.
"""

from __future__ import annotations

import glob
import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_slurm.containers.beside import Source
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.errors import FileAccessError, NotFoundError, RequestError
from jupyter_slurm.readable import brief, size
from jupyter_slurm.transport.files.ignore import Patterns

_MOST_FILES = 20_000
_MOST_BYTES = 4 << 30
_MOST_LINKS = 40
"""So many links are followed from one to the next, as on Linux."""
_CHECKPOINTS = ".ipynb_checkpoints"
_IGNORE = ".dockerignore"


@dataclass(frozen=True, slots=True)
class Files:
    folder: str
    names: tuple[str, ...]
    """Files, links and folders, by their paths in the folder."""
    digest: str
    """Equal for the same names with the same contents."""


def files_of(recipe: Recipe, folder: str | None, notebook: str | None) -> Files | None:
    """Find the files; None: the recipe takes none along. RequestError, NotFoundError and
    FileAccessError name the line of the recipe."""
    sources = recipe.sources()
    if not sources:
        return None
    if folder is None or not Path(folder).is_absolute():
        raise RequestError(
            "Line {number} of the recipe, `{line}`: it is not said which folder the files are in.",
            hint="Give the full path of the folder beside the recipe: ImageSpec(folder=…).",
            **_where(sources[0]),
        )
    found = _Found(Path(folder), notebook, follows_links=recipe.kind is Kind.DEFINITION)
    for source in sources:
        found.take(source)
    names = tuple(sorted(found.entries))
    return Files(folder, names, _digest(Path(folder), found.entries))


@dataclass(frozen=True, slots=True)
class _Entry:
    source: Source
    info: os.stat_result
    link: str | None = None
    """A link's target."""


class _Found:
    """The files that are found so far."""

    def __init__(self, folder: Path, notebook: str | None, *, follows_links: bool) -> None:
        self.entries: dict[str, _Entry] = {}
        self._folder = folder
        self._own = Path(notebook).name if notebook and Path(notebook).parent == folder else None
        self._follows_links = follows_links
        self._ignored, self._takes_back = _ignored(folder / _IGNORE)
        self._bytes = 0

    def take(self, source: Source) -> None:
        """Find what a source names."""
        path = posixpath.normpath(source.path)
        if path.startswith("/") or path.split("/")[0] == "..":
            raise RequestError(
                "Line {number} of the recipe, `{line}`: {path} is not below the folder beside the "
                "recipe, {folder}.",
                hint="Put it there, and name it without `/` or `..` at its beginning.",
                path=source.path,
                folder=self._folder,
                **_where(source),
            )
        names = self._matching(path)
        if not names:
            raise self._missing(source.path, source)
        if not sum(self._reach(name, source, 0) for name in names):
            raise RequestError(
                "Line {number} of the recipe, `{line}`: .dockerignore leaves out {path}.",
                hint="Take it back in that file, with a last line !{path}.",
                path=source.path,
                **_where(source),
            )

    def _matching(self, path: str) -> list[str]:
        """Return what a pattern of a Dockerfile matches; a path without one is itself."""
        if not re.search(r"[*?\[\\]", path):
            return [path] if os.path.lexists(self._folder / path) else []
        pattern = re.sub(r"\\(.)", r"[\1]", path).replace("[^", "[!")
        # Not Path's: it refuses a `**` with other letters, which is a `*` for Docker.
        found = glob.glob(  # noqa: PTH207
            pattern, root_dir=self._folder, recursive=True, include_hidden=True
        )
        return sorted({posixpath.normpath(one) for one in found})

    def _reach(self, name: str, source: Source, links: int) -> int:
        """Take the path with all links on the way; return how many entries it has."""
        at = ""
        parts = [] if name == "." else name.split("/")
        for number, part in enumerate(parts, 1):
            at = posixpath.join(at, part)
            entry = self._look(at, source)
            if entry.link is not None:
                target = posixpath.normpath(posixpath.join(posixpath.dirname(at), entry.link))
                if target.startswith("/") or target.split("/")[0] == ".." or links == _MOST_LINKS:
                    raise self._leads_out(at, source)
                self._note(at, entry)
                return self._reach(posixpath.join(target, *parts[number:]), source, links + 1)
        if not at or stat.S_ISDIR(entry.info.st_mode):
            return self._walk(at, source)
        if self._is_ignored(at, folder=False):
            return 0
        if not stat.S_ISREG(entry.info.st_mode):
            raise RequestError(
                "Line {number} of the recipe, `{line}`: {name} is neither a file nor a folder.",
                name=at,
                **_where(source),
            )
        self._note(at, entry)
        return 1

    def _walk(self, top: str, source: Source) -> int:
        """Take a folder with what is in it; return how many entries it has."""
        if not top and self._folder in (Path.home(), Path("/")):
            raise RequestError(
                "Line {number} of the recipe, `{line}`: {folder} as a whole cannot be taken along.",
                hint="Put what the image needs into a folder of its own, and name that.",
                folder=self._folder,
                **_where(source),
            )
        if top in self.entries:
            return 1
        count = 0
        if top and not self._is_ignored(top, folder=True):
            self._note(top, self._look(top, source))
            count = 1
        for name, is_folder in self._inside(top, source):
            ignored = self._is_ignored(name, folder=is_folder)
            if is_folder and (self._takes_back or not ignored):
                count += self._walk(name, source)
            elif not is_folder and not ignored:
                count += self._one(name, source)
        return count

    def _inside(self, top: str, source: Source) -> Iterator[tuple[str, bool]]:
        """Yield what is in a folder, and whether it is one, but not what changes whenever the
        notebook is saved."""
        try:
            with os.scandir(self._folder / top) as inside:
                found = sorted((one.name, one.is_dir(follow_symlinks=False)) for one in inside)
        except OSError as exc:
            raise _unreadable(top, source, exc) from exc
        for name, is_folder in found:
            if name != _CHECKPOINTS and (top or name != self._own):
                yield posixpath.join(top, name), is_folder

    def _one(self, name: str, source: Source) -> int:
        """Take one file or link in a folder. Docker leaves such links as they are."""
        entry = self._look(name, source)
        if entry.link is not None and self._follows_links:
            return self._reach(name, source, 0)
        if entry.link is None and not stat.S_ISREG(entry.info.st_mode):
            return 0
        self._note(name, entry)
        return 1

    def _look(self, name: str, source: Source) -> _Entry:
        path = self._folder / name
        try:
            info = path.lstat()
            link = os.readlink(path) if stat.S_ISLNK(info.st_mode) else None  # noqa: PTH115
        except FileNotFoundError as exc:
            raise self._missing(name, source) from exc
        except OSError as exc:
            raise _unreadable(name, source, exc) from exc
        return _Entry(source, info, link)

    def _note(self, name: str, entry: _Entry) -> None:
        if name in self.entries:
            return
        try:
            name.encode()
        except UnicodeEncodeError as exc:
            raise RequestError(
                "Line {number} of the recipe, `{line}`: the name {name} is not UTF-8.",
                hint="Rename it, or leave it out in .dockerignore.",
                name=ascii(name),
                **_where(entry.source),
            ) from exc
        self.entries[name] = entry
        self._bytes += entry.info.st_size if stat.S_ISREG(entry.info.st_mode) else 0
        if len(self.entries) > _MOST_FILES or self._bytes > _MOST_BYTES:
            raise RequestError(
                "Line {number} of the recipe, `{line}`: that is more than an image takes along, "
                "{most} files of together {size}.",
                hint="Leave out what it does not need in .dockerignore, or have a job see it "
                "where it lies on the cluster: --mount.",
                most=f"{_MOST_FILES:,}",
                size=size(_MOST_BYTES),
                **_where(entry.source),
            )

    def _is_ignored(self, name: str, *, folder: bool) -> bool:
        return self._ignored is not None and bool(
            self._ignored.match(os.fsencode(name), folder=folder)
        )

    def _missing(self, name: str, source: Source) -> NotFoundError:
        return NotFoundError(
            "Line {number} of the recipe, `{line}`: there is no {name} in {folder}.",
            hint="Files are taken from the folder of the notebook, or of the recipe's file.",
            name=name,
            folder=self._folder,
            **_where(source),
        )

    def _leads_out(self, name: str, source: Source) -> RequestError:
        return RequestError(
            "Line {number} of the recipe, `{line}`: the link {name} leads out of {folder}.",
            hint="Put what it leads to into that folder.",
            name=name,
            folder=self._folder,
            **_where(source),
        )


def _ignored(file: Path) -> tuple[Patterns | None, bool]:
    """Read a .dockerignore, and whether it takes anything back."""
    try:
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None, False
    kept = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    patterns = []
    for line in kept:
        path = posixpath.normpath(line.removeprefix("!").strip()).lstrip("/")
        # From the top on, where those of .gitignore mean any folder.
        patterns.append(f"{'!' if line.startswith('!') else ''}/{path}".replace("[^", "[!"))
    return Patterns(patterns, str(file)), any(line.startswith("!") for line in kept)


def _digest(folder: Path, entries: dict[str, _Entry]) -> str:
    whole = hashlib.sha256()
    for name, entry in sorted(entries.items()):
        mode = entry.info.st_mode
        what = entry.link or ""
        if stat.S_ISREG(mode):
            try:
                with (folder / name).open("rb") as file:
                    what = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as exc:
                raise _unreadable(name, entry.source, exc) from exc
        runs = stat.S_ISREG(mode) and bool(mode & stat.S_IXUSR)
        whole.update(f"{name}\0{stat.S_IFMT(mode)}\0{runs}\0{what}\0".encode())
    return whole.hexdigest()


def _where(source: Source) -> dict[str, Any]:
    return {"number": source.number, "line": brief(source.line)}


def _unreadable(name: str, source: Source, exc: OSError) -> FileAccessError:
    return FileAccessError(
        "Line {number} of the recipe, `{line}`: {name} cannot be read: {reason}.",
        name=name or ".",
        reason=exc.strerror or exc,
        **_where(source),
    )
