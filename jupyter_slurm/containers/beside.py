"""Name the files that a recipe takes along from the folder beside it, as written there. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """One file or folder, or a pattern for several, and the line that names it."""

    path: str
    number: int
    line: str
