"""The pages of docs/: their paragraphs and their blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.recorded import reference, sites

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"(`{3,}|:{3,})(.*)")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block. `not_run` is the reason why the tests only parse it."""

    language: str
    text: str
    line: int
    not_run: str | None = None


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def blocks(self) -> Iterator[Block]:
        return blocks(self.text)

    def prose(self) -> str:
        """Return the text without blocks and comments."""
        return re.sub(r"<!--.*?-->", "", "\n".join(_outside(self.text)), flags=re.DOTALL)

    def paragraphs(self) -> list[str]:
        """Return the paragraphs. Each list item is a paragraph."""
        parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|[0-9]+\.) )", self.prose())
        return [one.strip() for one in parts if one.strip() and not one.strip().startswith("|")]


@cache
def written() -> list[Page]:
    """Return the pages that are not generated from code or notebooks."""
    generated = {reference.FOLDER / path for path in reference.pages()}
    paths = sorted({*DOCS.rglob("*.md")} - generated)
    return [Page(path) for path in paths if path.parent != sites.FOLDER]


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a text."""
    fence, opened, lines, why = "", "", list[str](), None
    begins = 0
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            if line.strip() == fence:
                yield Block(opened, "\n".join(lines), begins, why)
                fence, why = "", None
            else:
                lines.append(line)
        elif found := _FENCE.match(line.strip()):
            fence, opened, lines, begins = found[1], found[2].strip(), [], number
        elif found := _NOT_RUN.fullmatch(line.strip()):
            why = found[1]


def _outside(text: str) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line.strip())
        if fence:
            fence = "" if line.strip() == fence else fence
        elif found:
            fence = found[1]
        else:
            yield line
