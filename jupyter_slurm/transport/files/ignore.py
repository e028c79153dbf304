"""Patterns of files to exclude, as in .gitignore. git's other ignore files do not count. pathspec
implements git's rules (gitignore(5)). Names are bytes, relative to the folder. Names that are not
UTF-8 are matched in Python's form (`\\udcXX`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from jupyter_slurm.errors import RequestError

STATE = b".jupyter-slurm"
"""Our folder at the top of a synchronized folder, for incomplete files."""
ALWAYS = frozenset({b".git", b"__pycache__", b".ipynb_checkpoints"})
"""Folders that are excluded unless a pattern such as `!.git/` includes them."""

_FILE = b".gitignore"


class Patterns:
    """An ordered list of patterns; the last match decides."""

    def __init__(self, lines: Iterable[str], source: str = "") -> None:
        """Parse patterns; `source` names their file in errors. Raise RequestError for an invalid
        pattern."""
        from pathspec import GitIgnoreSpec  # noqa: PLC0415 - most agents never push anything

        self._spec = GitIgnoreSpec.from_lines([])
        for line in lines:
            try:
                self._spec += GitIgnoreSpec.from_lines([line])
            except ValueError as exc:
                raise RequestError(
                    f"{line!r} is not a pattern ({source}): {exc}."
                    if source
                    else f"{line!r} is not a pattern: {exc}.",
                    hint="Write patterns as in .gitignore, e.g. `*.pyc`, `data/`, `!data/keep`.",
                ) from exc

    def match(self, name: bytes, *, folder: bool) -> bool | None:
        """Return whether `name` matches; None if no pattern applies."""
        text = os.fsdecode(name)
        return self._spec.check_file(f"{text}/" if folder else text).include


class Exclusion:
    """The rules for excluding files: the user's patterns, then each folder's .gitignore, then
    `ALWAYS`.

    As with git, an excluded folder is not entered.
    """

    def __init__(self, asked: Sequence[str] = ()) -> None:
        """Exclude the files that `asked` matches. If `asked` begins with `!*`, include everything
        else and ignore .gitignore files and `ALWAYS`."""
        self._takes_all = list(asked[:1]) == ["!*"]
        self._asked = Patterns(asked[1:] if self._takes_all else asked) if asked else None
        self._of_folders: list[tuple[bytes, Patterns]] = []

    def enter(self, folder: bytes, path: bytes) -> None:
        """Read the .gitignore of `folder` (b"" for the top) at `path`."""
        file = path + b"/" + _FILE
        try:
            with open(file, encoding="utf-8", errors="surrogateescape") as lines:
                patterns = Patterns(lines.read().splitlines(), os.fsdecode(file))
        except OSError:
            return
        self._of_folders.append((folder + b"/" if folder else b"", patterns))

    def leaves_out(self, name: bytes, *, folder: bool) -> bool:
        found = self._asked.match(name, folder=folder) if self._asked else None
        if found is not None or self._takes_all:
            return bool(found)
        for prefix, patterns in reversed(self._of_folders):
            if name.startswith(prefix):
                found = patterns.match(name[len(prefix) :], folder=folder)
                if found is not None:
                    return found
        return folder and name.rpartition(b"/")[2] in ALWAYS
