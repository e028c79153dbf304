"""Write `docs/sites/NAME.md`, a comparison of a guide's commands with ours, from its notebook.

Run `python -m tests.recorded.sites`. In a notebook, a line of text that begins with `Guide:` has,
as code, the guide's commands that the code cells below replace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "sites"
_BEGINS = "Guide:"
_LONGEST = 160
_CODE = re.compile(r"(`+)(.+?)\1(?!`)")


def names() -> list[str]:
    """Return the names of the notebooks about a guide."""
    paths = sorted((ROOT / "examples").glob("*.ipynb"))
    return [path.stem for path in paths if f'"{_BEGINS} ' in path.read_text(encoding="utf-8")]


def page(name: str) -> str:
    """Return the page of a notebook: a table for each of its chapters."""
    return "".join(line + "\n" for line in _lines(name))


def _lines(name: str) -> Iterator[str]:
    title, *rest = _steps(name)
    yield f"# {title}: its guide and jupyter-slurm\n"
    yield (
        f"[{name}.ipynb](../../examples/{name}.ipynb) runs all of this. "
        "`python -m tests.recorded.sites` generates this page from it."
    )
    for step in rest:
        if isinstance(step, str):
            yield from ("", f"## {step}", "", "| guide | jupyter-slurm |", "|---|---|")
        else:
            yield f"| {_codes(step[0])} | {_codes(step[1])} |"


def _steps(name: str) -> Iterator[str | tuple[list[str], list[str]]]:
    """Yield the title, then each chapter that has steps, and its steps."""
    chapter, theirs, ours = "", list[str](), list[str]()
    for cell in nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            ours += _typed(cell.source)
            continue
        if theirs:
            yield from ([chapter] if chapter else [])
            yield theirs, ours
            chapter = ""
        theirs, ours = [], []
        for line in cell.source.splitlines():
            if line.startswith("# "):
                yield line.removeprefix("# ")
            elif line.startswith("## "):
                chapter = line.removeprefix("## ")
            elif line.startswith(_BEGINS):
                theirs += [one[2] for one in _CODE.finditer(line)]
    if theirs:
        yield from ([chapter] if chapter else [])
        yield theirs, ours


def _typed(source: str) -> list[str]:
    """Return the magics and terminal commands of a cell."""
    lines = [line for line in source.splitlines() if line.startswith(("%", "!"))]
    return [line.removeprefix("!") for line in lines]


def _codes(words: list[str]) -> str:
    return "<br>".join(_code(one) for one in words)


def _code(text: str) -> str:
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for stem in names():
        (FOLDER / f"{stem}.md").write_text(page(stem), encoding="utf-8")
